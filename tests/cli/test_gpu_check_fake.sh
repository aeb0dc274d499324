#!/usr/bin/env bash
# scripts/gpu-check on the fake GPU: the passes run, the report shows what a tool finds wrong, and a
# killed call loses no record. compute-sanitizer, ncu and PyTorch are fakes, too.
. "$(dirname "$0")/common.sh" "$@"
export OUT=$scratch/few
need_fake_gpu cli_gpu_check
mkdir "$scratch/tools"
PATH=$scratch/tools:$PATH
cat >"$scratch/tools/compute-sanitizer" <<'TOOL'
#!/bin/sh
[ "$2" != "$FAKE_FINDING" ] || { echo "========= Invalid __global__ write of size 4 bytes" && exit 9; }
while [ "${1#--}" != "$1" ]; do shift 2; done
exec "$@"
TOOL
# Instead of ncu's table, lists each launch that the fake GPU saw between the profiler's start and stop.
cat >"$scratch/tools/ncu" <<'TOOL'
#!/bin/bash
[[ "$*" == "--profile-from-start off --clock-control none --csv --page raw "*" --metrics "*" --log-file "* ]] || exit 9
while [[ $1 != */ampscale ]]; do log=$1 && shift; done
[[ -z ${FAKE_ERROR-} ]] || { echo "==ERROR== $FAKE_ERROR" >"$log" && exit 1; }
AMPSCALE_FAKE_PROFILE=$log exec "$@"
TOOL
mkdir -p "$scratch"/{tools,pack}/bin
cp "$source_dir/tests/cli/fake_python.sh" "$scratch/tools/bin/python3"
chmod +x "$scratch"/tools/* "$scratch/tools/bin/python3"
export AMPSCALE_PEERS=$scratch/tools FAKE_PYTHON_LOG=$scratch/python.log
ln -s "$program" "$scratch/pack/bin/ampscale"
plans=$scratch/pack/cache/ampscale/plans

# check CODE ARGS...: runs the script on the records of the previous call, and checks the exit code.
check() {
    local want=$1 from=()
    shift
    [[ ! -e $OUT/records.tar.gz ]] || from=(--from "$OUT/records.tar.gz")
    code=0
    "$source_dir/scripts/gpu-check" --quick --build "$scratch/pack" --device cuda:0 "${from[@]}" "$@" \
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

# The first call, without NCCL, which a machine may lack. A context is held before a process trains, and released after the call.
check 0 --new --only facts,first,operations,accuracy
passes facts first operations accuracy
[[ $(head -n 2 "$FAKE_PYTHON_LOG") == held$'\n'"answers eager amp 4 4" ]] || fail "no context was held: $(<"$FAKE_PYTHON_LOG")"
await 30 grep -q released "$FAKE_PYTHON_LOG"

cp "$plans" "$scratch/plans-1"

# The second call, on a machine that has only the pack: it continues the plans of the first.
# Does not run the self-test, because it would train on the fake GPU for minutes.
rm -rf "$scratch/pack/cache"
check 0 --only throughput,peak,fusion,files,jpeg
passes facts first operations accuracy throughput peak fusion files jpeg
[[ $(comm -23 <(grep -v '^sum' "$scratch/plans-1" | sort) <(sort "$plans") | wc -l) == 0 ]] || fail "the plans of the first call were lost"
check 0 --only step-amp,step-bf16,step-tf32,step-fp32,memcheck,racecheck,synccheck
passes throughput step-amp step-bf16 step-tf32 step-fp32 memcheck racecheck synccheck
tar -C "$scratch" -xzf "$OUT/records.tar.gz"
cmp -s "$scratch/cache/ampscale/plans" "$plans" || fail "the plans do not come back with the records: $(find "$scratch/cache")"

# ncu has profiled the step of step-amp. In the order of launches, one mark precedes the launches of
# each operation.
mark='^kernel 1 1 1 32 1 1$'
[[ $(grep -c "$mark" "$scratch/ncu.csv") == $(grep -c '"op":' "$scratch/step.json") && $(head -n 1 "$scratch/ncu.csv") =~ $mark ]] ||
    fail "the marks are not those of the operations: $(cat "$scratch"/{ncu.csv,step.json})"
diff <(awk -v mark="$mark" '$0 ~ mark { n++ } /^library/ { print n }' "$scratch/ncu.csv" | uniq) \
    <(grep '"impl":' "$scratch/step.json" | grep -n 'cudnn:\|cublaslt' | cut -d : -f 1) >"$scratch/diff" ||
    fail "the launches of libraries do not follow the marks of their operations: $(<"$scratch/diff")"
FAKE_ERROR='no permission' check 0 --again step-amp
grep -qx 'ncu failed: no permission' "$scratch/out" || fail "the reason why ncu failed is not reported: $(<"$scratch/out")"
cmp -s "$scratch/ncu.csv" <(tar -xzOf "$OUT/records.tar.gz" ./ncu.csv) || fail "a failed ncu replaced the last profile"

(($(find "$OUT" -type f | wc -l) <= 8)) || fail "OUT has $(ls "$OUT")"

# The runs of a check keep their records, but no large files.
[[ -s $scratch/checks/throughput/r1/work/runs/amp-4-ampscale-r1/run.json ]] || fail "the records of the runs: $(find "$scratch/checks/throughput")"
[[ -z $(find "$scratch/checks" -name '*.safetensors*' -o -type f -size +200k) ]] || fail "large files remain: $(find "$scratch/checks" -type f -size +200k)"

expect 0 report --no-figures "$OUT" -o "$scratch/report.md"
grep -qE '^\| amp \| 4 \|  \| ampscale \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| auto \| [0-9.]+ \| [0-9.]+ \|$' "$scratch/report.md" ||
    fail "the report: $(grep '^| amp' "$scratch/report.md")"

# Without PyTorch no time is spent on the GPU, unless the user wants so, or no check needs PyTorch.
AMPSCALE_PEERS=/none check 5 --only throughput
grep -q "^scripts/gpu-check: no Python with torch and torchvision is found for the checks 'first' and 'throughput': set AMPSCALE_PEERS .* --no-peer" "$scratch/err" ||
    fail "without PyTorch: $(cat "$scratch/out" "$scratch/err")"
AMPSCALE_PEERS=/none check 0 --only throughput --no-peer
passes throughput

# The report shows what a tool finds wrong.
rm -rf "$OUT"
FAKE_FINDING=racecheck check 4 --new --only memcheck,racecheck
passes memcheck
grep -q '^FAIL *racecheck' "$scratch/out" || fail "racecheck had a finding, but the check has not failed: $(<"$scratch/out")"
grep -q 'Invalid __global__ write' "$OUT/accept.json" || fail "a finding is not reported: $(<"$OUT/accept.md")"

# rates: prints the rows of the check 'first' in OUT's archive that have a number, with their numbers.
rates() {
    tar -xzOf "$OUT/records.tar.gz" ./checks/first/r1/work/throughput.json 2>/dev/null |
        sed -nE '/"name": ".*:/{s/.*: "(.*)".*/\1/;h}; /"rates": \[$/{n;s/ //g;H;g;s/\n/ /p}'
}
has_rates() { [[ -n $(rates) ]]; }

# A call is killed with all its processes: as soon as there are records, after the first row, and at
# some moment after it. OUT has all rows that had ended, and the next call keeps their numbers.
rm -rf "$OUT" "$scratch/checks"
for moment in "test -s $OUT/records.tar.gz" has_rates 'sleep 2'; do
    setsid "$source_dir/scripts/gpu-check" --quick --build "$scratch/pack" $([[ -e $OUT ]] && echo "--from $OUT/records.tar.gz" || echo --new) \
        --only facts,first >"$scratch/out" 2>&1 </dev/null &
    session=$!
    # shellcheck disable=SC2086 # the shell must split the command
    await 120 $moment
    for again in 1 2; do # a process may start another one at this moment
        mapfile -t pids < <(ps -s $session -o pid=)
        kill -KILL "${pids[@]}" 2>/dev/null
    done
    wait $session 2>/dev/null
    rates >"$scratch/rates-before"
done
[[ -s $scratch/rates-before ]] || fail "no row was kept"
check 0 --only facts,first
passes facts first
rates >"$scratch/rates-after"
[[ $(wc -l <"$scratch/rates-after") == 4 && -z $(comm -23 <(sort "$scratch/rates-before") <(sort "$scratch/rates-after")) ]] ||
    fail "rows were lost or measured again: $(cat "$scratch"/rates-{before,after})"
finish
