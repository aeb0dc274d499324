#!/usr/bin/env bash
# scripts/gpu-check on the fake GPU: the passes run, the report shows what a tool finds wrong, and a
# killed call loses no record. compute-sanitizer and PyTorch are fakes, too.
. "$(dirname "$0")/common.sh" "$@"
export OUT=$scratch/few
need_fake_gpu
if sanitized; then
    skip "training on the fake GPU takes minutes under a sanitizer"
fi
mkdir "$scratch/tools"
PATH=$scratch/tools:$PATH
cat >"$scratch/tools/compute-sanitizer" <<'TOOL'
#!/bin/sh
[ "$2" != "$FAKE_FINDING" ] || { echo "========= Invalid __global__ write of size 4 bytes" && exit 9; }
while [ "${1#--}" != "$1" ]; do shift 2; done
exec "$@"
TOOL
# Answers each request.
mkdir "$scratch/tools/bin"
cat >"$scratch/tools/bin/python3" <<'TOOL'
#!/bin/sh
[ "$1" != -c ] || exit 0
echo "ready PyTorch 0.0"
while read -r mode precision batch steps; do
    echo "images_per_s 2.00 1.00 3.00"
done
TOOL
chmod +x "$scratch"/tools/* "$scratch"/tools/bin/python3
export AMPSCALE_PEERS=$scratch/tools

# check CODE ARGS...: runs the script on the records of the previous call, and checks the exit code.
check() {
    local want=$1 from=()
    shift
    [[ ! -e $OUT/records.tar.gz ]] || from=(--from "$OUT/records.tar.gz")
    code=0
    "$source_dir/scripts/gpu-check" --quick --build "$build_dir" --device cuda:0 "${from[@]}" "$@" \
        >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
    ((code == want)) || fail "gpu-check $* exited with $code, not $want: $(cat "$scratch/out" "$scratch/err")"
}

# passes NAMES...: checks that each check has passed.
passes() {
    local name
    for name; do
        grep -qE "^PASS +$name(,|$)" "$scratch/out" || fail "'$name' has not passed: $(<"$scratch/out")"
    done
}

# Does not run the self-test, because it would train on the fake GPU for minutes.
check 0 --new --only facts,operations,accuracy,fusion
passes facts operations accuracy fusion
check 0 --pass 2
passes facts operations accuracy peak throughput fusion files jpeg
check 0 --only step-amp,step-bf16,step-tf32,step-fp32,memcheck,racecheck,synccheck
passes throughput step-amp step-bf16 step-tf32 step-fp32 memcheck racecheck synccheck
tar -C "$scratch" -xzf "$OUT/records.tar.gz"
[[ -s $scratch/cache/ampscale/plans ]] || fail "no plans were passed to the next call: $(find "$scratch/cache")"
(($(find "$OUT" -type f | wc -l) <= 8)) || fail "OUT has $(ls "$OUT")"

# The runs of a check keep their records and a log for each rung, but no large files.
work=$scratch/checks/throughput/r1/work
[[ -s $work/throughput.json && -e $work/peer.log && -s $work/runs/amp-4-ampscale-r1/run.json && -s $work/runs/amp-4-ampscale-r1-auto.log ]] ||
    fail "the records of the runs: $(find "$work")"
[[ -z $(find "$scratch/checks" -name '*.safetensors*' -o -type f -size +200k) ]] || fail "large files remain: $(find "$scratch/checks" -type f -size +200k)"

# Every result of a training run has the rung of the ladder on which it was measured.
for name in rung_amp_4 rung_files_amp_4 rung_fp32_4; do
    grep -q '"auto"' < <(grep -h -A4 "\"name\": \"$name\"" "$scratch"/checks/{throughput,files}.json) || fail "the value '$name' has no rung"
done
grep -q '"name": "rung_O1"' "$scratch/checks/accuracy.json" ||
    fail "the accuracy has no rung: $(<"$scratch/checks/accuracy.json")"
grep -q '"of_peer_amp_4"' "$scratch/checks/throughput.json" || fail "the check has no ratio to PyTorch's throughput"
expect 0 report --no-figures "$OUT" -o "$scratch/report.md"
grep -qE '^\| amp \| 4 \|  \| ampscale \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| auto \| [0-9.]+ \| [0-9.]+ \|$' "$scratch/report.md" ||
    fail "the report: $(grep '^| amp' "$scratch/report.md")"

# Without PyTorch no time is spent on the GPU, unless the user wants so, or no check needs PyTorch.
AMPSCALE_PEERS=/none check 5 --only throughput
grep -q "^scripts/gpu-check: no Python with torch and torchvision is found for the check 'throughput': set AMPSCALE_PEERS .* --no-peer" "$scratch/err" ||
    fail "without PyTorch: $(cat "$scratch/out" "$scratch/err")"
AMPSCALE_PEERS=/none check 0 --only facts
AMPSCALE_PEERS=/none check 0 --only throughput --no-peer
passes throughput

# The report shows what a tool finds wrong.
rm -rf "$OUT"
FAKE_FINDING=racecheck check 4 --new --only memcheck,racecheck
passes memcheck
grep -q '^FAIL *racecheck' "$scratch/out" || fail "racecheck had a finding, but the check has not failed: $(<"$scratch/out")"
grep -q 'Invalid __global__ write' "$OUT/accept.json" || fail "a finding is not reported: $(<"$OUT/accept.md")"

# The command is killed during a check. The next call runs this check again, and keeps the results
# of all other checks.
rm -rf "$OUT" "$scratch/checks"
"$program" accept --spec bring-up-quick --device cuda:0 --only facts,peak,files --out "$scratch/killed" >/dev/null 2>&1 </dev/null &
suite=$!
for ((i = 0; i < 1200; i++)); do
    [[ -s $scratch/killed/checks/peak.json && -e $scratch/killed/checks/files/r1 ]] && break
    sleep 0.1
done
kill -KILL $suite
wait $suite 2>/dev/null
[[ -s $scratch/killed/checks/peak.json && ! -e $scratch/killed/checks/files.json ]] || fail "the records are not stored before the end of the call"
kept=$(stat -c %i "$scratch/killed/checks/peak.json")
expect 0 accept --spec bring-up-quick --device cuda:0 --only facts,peak,files --out "$scratch/killed" --resume
passes facts peak files
[[ $(stat -c %i "$scratch/killed/checks/peak.json") == "$kept" ]] || fail "a complete check was run again"
finish
