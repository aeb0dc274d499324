#!/usr/bin/env bash
# `ampscale bench throughput`: rows on the CPU and on the fake GPU, a peer that answers or dies, an
# exhausted budget, signals, and a call that continues another.
. "$(dirname "$0")/../cli/common.sh" "$@"
cd "$scratch" || exit 1
command -v python3 >/dev/null || skip "no python3"
export OMP_WAIT_POLICY=passive XDG_CACHE_HOME=$scratch/cache
tiny=(bench throughput -a resnet8 --image-size 32 --threads 1 --steps 4)

# holds FILE PYTHON: checks an expression over the record `r` in FILE, over `w`, the record's rows by
# precision and measured program, and over load(FILE), such rows of another record.
holds() {
    python3 -c "import json, sys
r = json.load(open(sys.argv[1]))
load = lambda f: {(i['precision'], i['who']): i for i in json.load(open(f))['rows']}
w, eager, ours = load(sys.argv[1]), 'PyTorch eager', 'ampscale'
sys.exit(not ($2))" "$1" || fail "this is false for the record $1: '$2': $(head -c 3000 "$1")"
}

expect_error 2 "--rows 'amp'" bench throughput --rows amp
expect_error 2 "--rows 'int8:4'" bench throughput --rows int8:4
expect_error 2 "--fuse 'most'" bench throughput --fuse auto,most
expect_error 2 "--resume: give --out" bench throughput --resume

# A peer whose rate is its number of answers. With a file "dies" it dies at bf16, with "hang" it hangs at
# bf16, with "once" it hangs once; with "broken" it cannot compile, and with "odd" its answer is none.
cat >peer <<'PEER'
#!/usr/bin/env bash
echo "ready Peer 1.0 on $2 with $4 at $6"
while read -r mode precision batch steps; do
    [[ ! -e once ]] || { rm once && sleep 100; }
    [[ $precision != bf16 || ! -e hang ]] || sleep 100
    [[ $precision != bf16 || ! -e dies ]] || exit 3
    [[ ! -e odd ]] || { echo "images_per_s many" && continue; }
    [[ $mode != compile || ! -e broken ]] || { echo "error no compiler" && continue; }
    echo >>asked
    echo "images_per_s $(wc -l <asked) 12 13"
done
PEER
chmod +x peer

expect 0 "${tiny[@]}" --rows fp32:4,O1:2 --rounds 2 --files --peer ./peer
grep -qE '^fp32:4 ampscale, from files +[0-9.]+ +[0-9.]+ +[0-9.]+ +2 ' out || fail "from files: $(<out)"
grep -qx 'peer: Peer 1.0 on cpu with resnet8 at 32' out || fail "the peer: $(<out)"
[[ $(grep -cE '^(fp32:4|O1:2): [0-9.]+ times PyTorch (eager|compile)$' out) == 2 ]] || fail "no ratio: $(<out)"
[[ -z $(ls "$TMPDIR") ]] || fail "TMPDIR is not empty: $(ls "$TMPDIR")"

# A peer that dies is replaced, and the row that it measured has no result. The record has the
# printed values, and the folder no weights.
touch dies
expect 5 "${tiny[@]}" --rows fp32:4,bf16:4 --rounds 2 --peer ./peer --out kept --json
rm dies
holds out "r['turns'] == {'planned': 9, 'taken': 9} and w['bf16', ours]['rounds'] == 2"
holds out "w['bf16', eager]['why'].startswith(\"it ended at 'eager bf16 4'\") and 'images_per_s' not in w['bf16', eager]"
holds kept/throughput.json "all(i['images_per_s']['min'] == min(i['rates']) for i in r['rows'] if i['rounds'])"
[[ -s kept/runs/bf16-4-ampscale-r2/summary.json && -z $(find kept -name '*.safetensors') ]] || fail "the files: $(find kept)"

# A peer whose answer is no number, or that cannot start: its reason is in the row.
touch odd
expect 5 "${tiny[@]}" --rows fp32:4 --rounds 1 --peer ./peer --no-compile
grep -qE '^fp32:4 PyTorch eager +n/a .*images_per_s many' out || fail "an odd answer: $(<out)"
rm odd
printf '#!/bin/sh\necho "no Python has torch"\nexit 77\n' >none
chmod +x none
expect 5 "${tiny[@]}" --rows fp32:4 --rounds 2 --peer ./none --no-compile
grep -qE '^fp32:4 PyTorch eager +n/a .*no Python has torch' out || fail "no peer: $(<out)"

# A comparison with a peer that could not compile says so. The peer compiles only if there is a minute
# for it. --no-compile leaves the row out.
touch broken
expect 5 "${tiny[@]}" --rows fp32:4 --rounds 1 --peer ./peer
grep -qE '^fp32:4: [0-9.]+ times PyTorch eager only; PyTorch compile: no compiler$' out || fail "no ratio: $(<out)"
rm broken
expect 5 "${tiny[@]}" --rows fp32:4 --rounds 1 --peer ./peer --budget 40
grep -qE '^fp32:4 PyTorch compile +n/a .* 0  less than 60 s were left$' out || fail "compiled in less than a minute: $(<out)"
expect 0 "${tiny[@]}" --rows fp32:4 --rounds 1 --peer ./peer --budget 40 --no-compile

# When the budget ends, the table is printed. A row whose turn was cut off, so that later rows had
# theirs, has another one in the time they left.
expect 5 "${tiny[@]}" --rows fp32:4,bf16:4 --steps 100000 --budget 4
grep -qE '^fp32:4 ampscale +n/a .* 0  not done within [12] s$' out || fail "the budget: $(<out)"
touch once
expect 0 "${tiny[@]}" --rows fp32:4,bf16:4 --rounds 1 --peer ./peer --no-compile --budget 20 --json
[[ ! -e once ]] || fail "the peer was not cut off: $(<out)"
holds out "len(w['fp32', eager]['rates']) == 1 and 'why' not in w['fp32', eager] and r['turns'] == {'planned': 4, 'taken': 4}"

# stopped SIGNAL MEDIANS DIR ARGS...: measures into DIR, and sends SIGNAL when the record has so many
# results.
stopped() {
    local i
    "$program" "${tiny[@]}" "${@:4}" --out "$3" >out 2>err &
    local pid=$!
    for ((i = 0; i < 3000; i++)); do
        [[ -e $3/throughput.json ]] && (($(grep -c '"median"' "$3/throughput.json") >= $2)) && break
        sleep 0.02
    done
    kill "-$1" "$pid"
    code=0
    wait "$pid" 2>/dev/null || code=$?
}

# A call that is killed loses at most the turn that ran: --resume keeps the numbers of its rows. The
# record of a call that has all turns is kept as it is, and neither program is started.
touch hang
rows=(--rows fp32:4,bf16:4 --rounds 1 --peer ./peer --no-compile)
stopped KILL 3 resumed "${rows[@]}"
cp resumed/throughput.json killed.json
rm hang
expect 0 "${tiny[@]}" "${rows[@]}" --out resumed --resume --json
cp out first
holds first "all(w[k]['rates'] == i['rates'] for k, i in load('killed.json').items() if 'images_per_s' in i)"
rm -r resumed/runs
expect 0 "${tiny[@]}" "${rows[@]}" --out resumed --resume --json
holds out "w == load('first')"
[[ ! -e resumed/runs ]] || fail "a complete measurement was run again: $(find resumed)"
expect 0 "${tiny[@]}" "${rows[@]}" --rounds 2 --out resumed --resume --json # the later rounds are run
holds out "all(i['rounds'] == 2 and i['rates'][0] == load('first')[k]['rates'][0] for k, i in w.items())"

# A record of other settings or with other contents is no record to continue (tests/fuzz has more).
expect_error 2 "'resumed/throughput.json': it is of other settings; give another --out" "${tiny[@]}" "${rows[@]}" --out resumed --steps 6 --resume
sed 's/"version": "[^"]*"/"version": "0.0.1"/' first >resumed/throughput.json
expect_error 2 "it is of another version, build or machine; give another --out" "${tiny[@]}" "${rows[@]}" --out resumed --resume
for change in '"schema": 1/"schema": 2' '"rates": \[/"rates": [-1, ' '^{/['; do
    sed "s/$change/" first >resumed/throughput.json
    cp resumed/throughput.json hostile
    expect 5 "${tiny[@]}" "${rows[@]}" --out resumed --resume
    cmp -s hostile resumed/throughput.json || fail "a record that is not valid ($change) was replaced"
done

# A call waits for the training of a call that was killed a moment ago, which ends after its step.
slow=(bench throughput -a resnet18 --image-size 64 --threads 1 --rows fp32:64 --rounds 1)
for after in 0.1 0.3; do
    "$program" "${slow[@]}" --steps 100000 --out again >/dev/null 2>&1 &
    await 30 test -e again/runs/fp32-64-ampscale-r1.log
    sleep $after
    { kill -KILL $! && wait $!; } 2>/dev/null
    expect 0 "${slow[@]}" --steps 2 --out again
    rm -r again
done

# After a signal the rows measured so far are printed.
stopped TERM 1 ended --rows fp32:4 --rounds 64 --steps 50
[[ $code == 143 ]] || fail "after SIGTERM the exit code is $code"
grep -qE '^fp32:4 ampscale +[0-9.]+ ' out || fail "SIGTERM: $(<out)"
[[ -z $(ls "$TMPDIR") ]] || fail "SIGTERM: TMPDIR is not empty: $(ls "$TMPDIR")"

# On the fake GPU: the time of whole steps decides on fusion and graphs. If `train` falls to another
# rung, the row's later rounds, and a call that continues it, start on that rung. A row that names its
# fusion or graphs has no other rung. A fault that breaks the device fails every rung.
need_fake_gpu bench_throughput
fake=(bench throughput -a resnet8 --image-size 16 --threads 1 --steps 2 --devices cuda:0 --rows amp:2)
expect 0 "${fake[@]}" --rounds 1 --fuse auto,none --graphs on
grep -qE '^amp:2 fastest: fuse (auto|none), graphs on, ' out || fail "the fastest: $(<out)"
AMPSCALE_FAKE_FAIL=cudaGraphLaunch:1 expect 0 "${fake[@]}" --rounds 1 --out fallen
expect 0 "${fake[@]}" --rounds 2 --out fallen --resume --json
holds out "w['amp', ours]['rung'] == 'no graph' and [f['rung'] for f in w['amp', ours]['falls']] == ['auto']"
AMPSCALE_FAKE_FAIL=cudaGraphLaunch:1 expect 5 "${fake[@]}" --rounds 1 --graphs on,off
grep -q '^amp:2 ampscale, fuse auto, graphs on  *n/a .* 0  fell to' out || fail "no graphs: $(<out)"
grep -qE '^amp:2 ampscale, fuse auto, graphs off +[0-9.]+ ' out || fail "without graphs: $(<out)"
AMPSCALE_FAKE_FAIL=cudaLaunchKernel:1:sticky expect 5 "${fake[@]}" --rounds 1 --json
holds out "len(w['amp', ours]['falls']) == 4 and w['amp', ours]['why']"

# An engine of cuDNN crashes the process, hangs, or computes wrong values in one fused form. The row has
# a result in the same call, and the record names the engine and the form. A second call does not meet
# the engine again.
ulimit -c 0
for how in crash hang wrong; do
    engine=1
    [[ $how != wrong ]] || engine=any # whichever is faster is used
    for i in 1 2; do
        AMPSCALE_FAKE_ENGINE=$engine@dgrad+drelu+bn:$how XDG_CACHE_HOME=$scratch/$how expect 0 "${fake[@]}" --rows amp:4 \
            --image-size 32 --rounds 1 --plans 4 --json
        cp out "$how-$i.json"
        holds out "w['amp', ours]['images_per_s']['median'] > 0"
    done
    holds "$how-1.json" "any('for \'fake GPU sm90 cudnn91900 dgrad+drelu+bn fp16 n4 c16 ' in f.get('why', '') for k in ('falls', 'fusions') for f in w['amp', ours].get(k, []))"
    holds "$how-2.json" "w['amp', ours]['falls'] == [] and w['amp', ours]['rung'] == 'auto'"
done
finish
