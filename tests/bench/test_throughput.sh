#!/usr/bin/env bash
# `ampscale bench throughput`: rows on the CPU and on the fake GPU, a peer that answers or dies, an
# exhausted budget, a signal, and usage errors.
. "$(dirname "$0")/../cli/common.sh" "$@"
cd "$scratch" || exit 1
export OMP_WAIT_POLICY=passive XDG_CACHE_HOME=$scratch/cache
tiny=(-a resnet8 --image-size 32 --threads 1 --steps 4)

# holds FILE PYTHON: checks an expression over the record `r` in FILE and over `w`, the record's
# rows by precision and measured program.
holds() {
    command -v python3 >/dev/null || return 0
    python3 -c "import json, sys
r = json.load(open(sys.argv[1]))
w = {(i['precision'], i['who']): i for i in r['rows']}
sys.exit(not ($2))" "$1" || fail "this is false for the record $1: '$2': $(head -c 3000 "$1")"
}

expect_error 2 "--rows 'amp'" bench throughput --rows amp
expect_error 2 "--rows 'int8:4'" bench throughput --rows int8:4
expect_error 2 "--fuse 'most'" bench throughput --fuse auto,most
expect_error 2 "--graphs 'yes'" bench throughput --graphs yes

cat >peer <<'PEER'
#!/usr/bin/env bash
echo "ready Peer 1.0 on $2 with $4 at $6"
while read -r mode precision batch steps; do
    [[ $precision != bf16 ]] || exit 3
    [[ $mode != compile || ! -e broken ]] || { echo "error no compiler" && continue; }
    echo "images_per_s 12.5 12 13"
done
PEER
chmod +x peer

expect 0 bench throughput "${tiny[@]}" --rows fp32:4,O1:2 --rounds 2 --files --peer ./peer
grep -qE '^fp32:4 ampscale, from files +[0-9.]+ +[0-9.]+ +[0-9.]+ +2 ' out || fail "from files: $(<out)"
grep -qE '^O1:2 ampscale +[0-9.]+ ' out || fail "the table: $(<out)"
grep -qE '^fp32:4 PyTorch compile +12.5 +12.5 +12.5 +1 ' out || fail "compiled: $(<out)"
grep -qx 'peer: Peer 1.0 on cpu with resnet8 at 32' out || fail "the peer: $(<out)"
grep -qE '^fp32:4: [0-9.]+ times PyTorch (eager|compile)$' out || fail "no ratio: $(<out)"
grep -qE '^O1:2: [0-9.]+ times PyTorch eager$' out || fail "no ratio: $(<out)"
[[ -z $(ls "$TMPDIR") ]] || fail "TMPDIR is not empty: $(ls "$TMPDIR")"

# A peer that dies is replaced, and the row that it measured has no result. The record has the
# printed values.
expect 5 bench throughput "${tiny[@]}" --rows fp32:4,bf16:4 --rounds 2 --peer ./peer --out kept --json
[[ $(<err) == 'ampscale: 1 of 5 rows have no result: bf16:4 PyTorch eager' ]] || fail "stderr: $(<err)"
holds out "r['schema'] == 1 and r['turns'] == {'planned': 9, 'taken': 9}"
holds out "w['fp32', 'PyTorch eager']['images_per_s'] == {'median': 12.5, 'min': 12.5, 'max': 12.5}"
holds out "w['bf16', 'PyTorch eager']['why'].startswith(\"it ended at 'eager bf16 4'\")"
holds out "w['bf16', 'ampscale']['rounds'] == 2 and 'rung' not in w['bf16', 'ampscale']"
holds kept/throughput.json "r['rows'][0]['images_per_s']['median'] > 0 and r['device'] != 'cpu'"
[[ -s kept/runs/bf16-4-ampscale-r2/summary.json && -s kept/runs/bf16-4-ampscale-r2.log ]] ||
    fail "the runs: $(find kept)"
[[ -z $(find kept -name '*.safetensors') && -e kept/peer.log && -e kept/peer-again.log ]] ||
    fail "the other files: $(find kept)"

# A comparison with a peer that could not compile says so.
touch broken
expect 5 bench throughput "${tiny[@]}" --rows fp32:4 --rounds 1 --peer ./peer
grep -qE '^fp32:4: [0-9.]+ times PyTorch eager only; PyTorch compile: no compiler$' out || fail "no ratio: $(<out)"
rm broken

# When the budget ends, the table is printed, even if a turn is not complete.
expect 5 bench throughput "${tiny[@]}" --rows fp32:4,bf16:4 --steps 100000 --budget 4
grep -qE '^fp32:4 ampscale +n/a .* 0  not done within [12] s$' out || fail "the budget: $(<out)"

# The peer compiles only if there is a minute for it. --no-compile leaves the row out.
expect 5 bench throughput "${tiny[@]}" --rows fp32:4 --rounds 1 --peer ./peer --budget 40
grep -qE '^fp32:4 PyTorch compile +n/a .* 0  less than 60 s were left$' out || fail "compiled in less than a minute: $(<out)"
expect 0 bench throughput "${tiny[@]}" --rows fp32:4 --rounds 1 --peer ./peer --budget 40 --no-compile
! grep -q 'compile' out || fail "--no-compile: $(<out)"

# A call that is killed loses at most the turn that ran: --resume keeps the numbers of its rows. The
# record of a call that has all turns is kept as it is, and neither program is started.
cat >slow <<'PEER'
#!/usr/bin/env bash
echo "ready Peer 1.0"
while read -r mode precision batch steps; do
    [[ $precision != bf16 || ! -e hang ]] || sleep 100
    echo "images_per_s $(wc -l < <(echo >>asked; cat asked)) 12 13"
done
PEER
chmod +x slow
touch hang
rows=(--rows fp32:4,bf16:4 --rounds 1 --peer ./slow --no-compile --out resumed)
"$program" bench throughput "${tiny[@]}" "${rows[@]}" >out 2>err &
pid=$!
for ((i = 0; i < 3000; i++)); do
    [[ -e resumed/throughput.json ]] && (($(grep -c '"median"' resumed/throughput.json) == 3)) && break
    sleep 0.02
done
kill -KILL "$pid"
wait "$pid" 2>/dev/null
cp resumed/throughput.json killed.json
rm hang
expect 0 bench throughput "${tiny[@]}" "${rows[@]}" --resume --json
holds out "all(w[p, a] == k[p, a] for k in [{(i['precision'], i['who']): i for i in json.load(open('killed.json'))['rows']}] for p, a in k if 'images_per_s' in k[p, a])"
holds out "r['turns'] == {'planned': 4, 'taken': 4} and r['device'] != 'cpu' and w['bf16', 'PyTorch eager']['rates'] == [2]"
rm -r resumed/runs resumed/peer.log
cp out first
expect 0 bench throughput "${tiny[@]}" "${rows[@]}" --resume --json
holds out "r['rows'] == json.load(open('first'))['rows'] and r['peer'] == 'Peer 1.0'"
[[ ! -e resumed/runs && ! -e resumed/peer.log ]] || fail "a complete measurement was run again: $(find resumed)"
# With more rounds, the later ones are run.
expect 0 bench throughput "${tiny[@]}" "${rows[@]}" --rounds 2 --resume --json
holds out "w['bf16', 'PyTorch eager']['rounds'] == 2 and w['fp32', 'ampscale']['rates'][0] == json.load(open('first'))['rows'][0]['rates'][0]"
[[ $(cd resumed/runs && echo *-r2.log) == 'bf16-4-ampscale-r2.log fp32-4-ampscale-r2.log' ]] || fail "the runs: $(find resumed/runs)"

# A record of other settings or with other contents is no record to continue. Its numbers and texts
# may be anything.
expect_error 2 "'resumed/throughput.json': it is of other settings; give another --out" bench throughput "${tiny[@]}" "${rows[@]}" --steps 6 --resume
expect_error 2 '--resume: give --out' bench throughput --resume
for change in '"schema": 1/"schema": 2' '"bench": "throughput"/"bench": "step"' '"rates": \[/"rates": [-1, ' \
    '"rates": \[/"rates": ["1", ' '"rates": \[/"rates": [null, ' '"rates": \[/"rates": [1e999, ' '^{/[' '^}/'; do
    sed "s/$change/" first >resumed/throughput.json
    cp resumed/throughput.json hostile
    expect 5 bench throughput "${tiny[@]}" "${rows[@]}" --resume
    cmp -s hostile resumed/throughput.json || fail "a record that is not valid ($change) was replaced"
done
for change in '"name": "[^"]*"/"name": 7' '"falls": \[/"falls": [3, {"rung": "auto"}, {"rung": 5, "why": {}}' '"rates": \[/"rungs": ['; do
    sed "s/$change/" first >resumed/throughput.json
    expect 0 bench throughput "${tiny[@]}" "${rows[@]}" --resume
done

# A row whose turn was cut off, so that later rows had theirs, has another one in the time they left.
cat >late <<'PEER'
#!/usr/bin/env bash
echo "ready Peer 1.0"
while read -r mode precision batch steps; do
    [[ ! -e once ]] || { rm once && sleep 100; }
    echo "images_per_s 12.5 12 13"
done
PEER
chmod +x late
touch once
expect 0 bench throughput "${tiny[@]}" --rows fp32:4,bf16:4 --rounds 1 --peer ./late --no-compile --budget 20 --json
[[ ! -e once ]] || fail "the peer was not cut off: $(<out)"
holds out "w['fp32', 'PyTorch eager']['rates'] == [12.5] and 'why' not in w['fp32', 'PyTorch eager']"
holds out "r['turns'] == {'planned': 4, 'taken': 4} and r['peer_ended'].startswith('out of time')"

# After a signal the rows measured so far are printed.
"$program" bench throughput "${tiny[@]}" --rows fp32:4 --rounds 64 --steps 50 --out stopped >out 2>err &
pid=$!
for ((i = 0; i < 3000; i++)); do
    [[ -e stopped/throughput.json ]] && grep -q '"median"' stopped/throughput.json && break
    sleep 0.02
done
kill -TERM "$pid"
code=0
wait "$pid" || code=$?
[[ $code == 143 && $(<err) == 'ampscale: interrupted by Terminated' ]] || fail "after SIGTERM the exit code is $code, or stderr has another message: $(<err)"
grep -qE '^fp32:4 ampscale +[0-9.]+ ' out || fail "SIGTERM: $(<out)"
[[ -z $(ls "$TMPDIR") ]] || fail "SIGTERM: TMPDIR is not empty: $(ls "$TMPDIR")"

# On the fake GPU: runs fall back to other rungs, and the time of whole steps decides on fusion.
if fake_gpu && ! sanitized; then
    fake=(-a resnet8 --image-size 16 --threads 1 --steps 2 --devices cuda:0 --rows amp:2)
    expect 0 bench throughput "${fake[@]}" --rounds 1 --json
    holds out "w['amp', 'ampscale']['rung'] == 'auto' and w['amp', 'ampscale']['falls'] == []"
    expect 0 bench throughput "${fake[@]}" --rounds 1 --fuse auto,none --graphs on
    grep -qE '^amp:2 fastest: fuse (auto|none), graphs on, ' out || fail "the fastest: $(<out)"
    # If `train` falls to another rung, the row's next round starts on that rung. A row that names
    # its fusion or graphs has no other rung.
    AMPSCALE_FAKE_FAIL=cudaGraphLaunch:1 expect 0 bench throughput "${fake[@]}" --rounds 2 --json
    holds out "w['amp', 'ampscale']['rung'] == 'no graph' and w['amp', 'ampscale']['rounds'] == 2"
    holds out "[f['rung'] for f in w['amp', 'ampscale']['falls']] == ['auto']"
    holds out "w['amp', 'ampscale']['graphs'] is False and w['amp', 'ampscale']['fuse'] == 'auto'"
    AMPSCALE_FAKE_FAIL=cudaGraphLaunch:1 expect 5 bench throughput "${fake[@]}" --rounds 1 --graphs on,off
    grep -q '^amp:2 ampscale, fuse auto, graphs on  *n/a .* 0  fell to' out || fail "no graphs: $(<out)"
    grep -qE '^amp:2 ampscale, fuse auto, graphs off +[0-9.]+ ' out || fail "without graphs: $(<out)"
    # A resumed row stays on its rung.
    AMPSCALE_FAKE_FAIL=cudaGraphLaunch:1 expect 0 bench throughput "${fake[@]}" --rounds 1 --out fallen
    expect 0 bench throughput "${fake[@]}" --rounds 2 --out fallen --resume --json
    holds out "w['amp', 'ampscale']['rung'] == 'no graph' and [f['rung'] for f in w['amp', 'ampscale']['falls']] == ['auto']"
    [[ -e fallen/runs/amp-2-ampscale-r2-no-graph.log ]] || fail "the resumed row left its rung: $(ls fallen/runs)"
    # A fault breaks the device in every process. Every rung fails and has its reason.
    AMPSCALE_FAKE_FAIL=cudaLaunchKernel:1:sticky expect 5 bench throughput "${fake[@]}" --rounds 1 --json
    holds out "len(w['amp', 'ampscale']['falls']) == 4 and w['amp', 'ampscale']['why']"
    # Each rung has a log. The next rows fail in the same way, and try only one.
    AMPSCALE_FAKE_FAIL=cudaStreamWaitEvent:1:sticky expect 5 bench throughput "${fake[@]}" --rows amp:2,fp32:2 --rounds 1 --out broken
    [[ $(cd broken/runs && echo *.log) == 'amp-2-ampscale-r1-auto.log amp-2-ampscale-r1-fuse-none-no-graph.log amp-2-ampscale-r1-fuse-none.log amp-2-ampscale-r1-no-graph.log fp32-2-ampscale-r1-auto.log' ]] ||
        fail "the logs: $(ls broken/runs)"
    [[ $(<broken/runs/amp-2-ampscale-r1-auto.log) == *'cannot wait for an event'* ]] ||
        fail "the first rung's log: $(<broken/runs/amp-2-ampscale-r1-auto.log)"
    expect 5 bench throughput "${fake[@]}" --rounds 1 --devices cuda:63
    grep -q 'there is no GPU 63' out || fail "the output does not say that GPU 63 is missing: $(<out)"
fi
finish
