#!/usr/bin/env bash
# scripts/gpu-check on a GPU that is not there: the steps that need no speed do their work, and what
# a tool finds wrong shows. nvidia-smi, compute-sanitizer and PyTorch are made for the test, too.
. "$(dirname "$0")/common.sh" "$@"
export OMP_WAIT_POLICY=passive
unset OUT
export AMPSCALE_CUDA_MODULE=$build_dir/tests/kernels/cuda/fake/ampscale_cuda_fake.so
if [[ ! -e $AMPSCALE_CUDA_MODULE ]]; then
    echo "SKIPPED: this build has no module of a GPU made for tests"
    exit 77
fi
if sanitized; then
    echo "SKIPPED: a GPU made for tests takes minutes to train under a sanitizer"
    exit 77
fi
mkdir "$scratch/tools"
PATH=$scratch/tools:$PATH
cat >"$scratch/tools/nvidia-smi" <<'TOOL'
#!/bin/sh
echo "Fake GPU, 580.1"
TOOL
cat >"$scratch/tools/compute-sanitizer" <<'TOOL'
#!/bin/sh
[ ! -e "$RECORDS" ] || [ -e "$RECORDS.$2" ] || cp -R "$RECORDS" "$RECORDS.$2"
[ "$2" != "$FAKE_FINDING" ] || { echo "========= Invalid __global__ write of size 4 bytes" && exit 9; }
while [ "${1#--}" != "$1" ]; do shift 2; done
exec "$@"
TOOL
# Answers each request; where it is told to, it goes away at the second.
cat >"$scratch/tools/python3" <<'TOOL'
#!/bin/sh
[ "$1" != -c ] || exit 0
echo "ready PyTorch 0.0"
n=0
while read -r mode precision batch steps; do
    n=$((n + 1))
    [ "$FAKE_PEER $n" != "leaves 2" ] || exit 1
    echo "images_per_s 2.00 1.00 3.00"
done
TOOL
chmod +x "$scratch"/tools/*
export RECORDS=$scratch/records

# check CODE STEPS: runs the steps, and checks the exit code.
check() {
    code=0
    "$source_dir/scripts/gpu-check" --quick --build "$build_dir" --out "$scratch/records" --device cuda:0 \
        --only "$2" >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
    ((code == $1)) || fail "$2: exit code $code, not $1: $(cat "$scratch/out" "$scratch/err")"
}

check 0 facts,kernels,sanitizer,accuracy,peak,roofline
[[ $(grep -c ' pass ' "$scratch/out") == 6 ]] || fail "not six steps passed: $(<"$scratch/out")"
grep -q '^kernels .* [1-9][0-9]* passed, [0-9]* skipped, 0 failed$' "$scratch/out" || fail "operations: $(<"$scratch/out")"
grep -q '^facts .* Fake GPU, 580.1$' "$scratch/out" || fail "the facts: $(<"$scratch/out")"
grep -q '"facts": "name Fake GPU, driver_version 580.1",' "$RECORDS/gpu-check.json" || fail "the facts have no names"
# Records are there before the last step, which is not done yet.
grep -q '"name": "accuracy", "status": "pass"' "$RECORDS.memcheck/gpu-check.json" || fail "no records before the end"
grep -q '"name": "sanitizer"' "$RECORDS.memcheck/gpu-check.json" && fail "a step is recorded before it is done"
for name in fp32 tf32 O1 O2 bf16; do
    grep -q "\"precision\": \"$name\", \"val_top1\": " "$scratch/records/gpu-check.json" || fail "no accuracy at $name"
done
grep -q '"type": "bf16"' "$scratch/records/peak.json" || fail "no peak of bf16: $(<"$scratch/records/peak.json")"
grep -q '"op": "all"' "$scratch/records/gpu-check.json" || fail "no roofline"

FAKE_FINDING=racecheck check 4 sanitizer
grep -q '^sanitizer .*wrong .*memcheck clean, racecheck [1-9][0-9]* findings; the first: Invalid __global__ write' "$scratch/out" || fail "a finding: $(<"$scratch/out")"
grep -q '^    FAIL .*: Invalid __global__ write' "$scratch/out" || fail "a failure does not say why: $(<"$scratch/out")"

# Both sides in turns. A real PyTorch would be asked first.
if [[ ! -x $source_dir/build/peers/bin/python3 ]]; then
    check 0 throughput
    line=$(grep '^throughput ' "$scratch/out")
    [[ $line =~ 'PyTorch compile 2, PyTorch eager 2, ampscale '[0-9]+', ampscale from files '[0-9]+'; '[0-9.]+' times PyTorch' ]] ||
        fail "throughput: $line"
    grep -q '"peer": "PyTorch 0.0",' "$RECORDS/gpu-check.json" || fail "no word of PyTorch's version"
    # One that goes away is replaced; what it was asked for is missing.
    FAKE_PEER=leaves check 0 throughput
    grep -q '"who": "PyTorch compile"' "$RECORDS/gpu-check.json" && fail "an answer that nobody gave"
    for name in fp32 amp; do
        grep -q "\"precision\": \"$name\", \"batch\": 4, \"who\": \"PyTorch eager\"" "$RECORDS/gpu-check.json" ||
            fail "no answer of PyTorch at $name"
    done
fi
finish
