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
grep -qE '^fp32:4 ampscale +n/a .* 0  not done within 1 s$' out || fail "the budget: $(<out)"

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
    # A fault breaks the device in every process. Every rung fails and has its reason.
    AMPSCALE_FAKE_FAIL=cudaLaunchKernel:1:sticky expect 5 bench throughput "${fake[@]}" --rounds 1 --json
    holds out "len(w['amp', 'ampscale']['falls']) == 4 and w['amp', 'ampscale']['why']"
    # Each rung has a log. The next rows fail in the same way, and try only one.
    AMPSCALE_FAKE_FAIL=cudaStreamWaitEvent:1:sticky expect 5 bench throughput "${fake[@]}" --rows amp:2,fp32:2 --rounds 1 --out broken
    [[ $(cd broken/runs && echo *.log) == 'amp-2-ampscale-r1-auto.log amp-2-ampscale-r1-fuse-none-no-graph.log amp-2-ampscale-r1-fuse-none.log amp-2-ampscale-r1-no-graph.log fp32-2-ampscale-r1-auto.log' ]] ||
        fail "the logs: $(ls broken/runs)"
    [[ $(<broken/runs/amp-2-ampscale-r1-auto.log) == *"'auto' failed: "*"'no graph' failed: "* ]] ||
        fail "the first rung's log: $(<broken/runs/amp-2-ampscale-r1-auto.log)"
    expect 5 bench throughput "${fake[@]}" --rounds 1 --devices cuda:63
    grep -q 'there is no GPU 63' out || fail "the output does not say that GPU 63 is missing: $(<out)"
fi
finish
