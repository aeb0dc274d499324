#!/usr/bin/env bash
# `ampscale accept` on a node with two fake GPUs and fake sensors: a burn-in of both GPUs at the
# same time, copies between them, and a training with one process for each GPU. The sensors of both
# GPUs are read.
. "$(dirname "$0")/common.sh" "$@"
cd "$scratch" || exit 1
need_fake_gpu
export LD_LIBRARY_PATH=$build_dir/tests/telemetry/full${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# spec CHECKS: prints a spec.
spec() {
    printf '{"schema": 1, "name": "made", "about": "a test", "device": "cuda", "devices": 2, "hardware": ["*"], "checks": [%s]}\n' "$1"
}

# train NAME KEYS LIMITS: writes a check of two small steps.
train() {
    printf '{"name": "%s", "kind": "train", "level": 1, "seconds": 1, "limit_s": 100, %s "args": {"arch": "resnet8", "image_size": 16, "batch": 2, "classes": 5, "steps": 2}, "limits": {%s}}' "$1" "$2" "$3"
}

spec "$(train burn '"each": true, "burn": true,' '"memory_gib": {"max": 1}'), $(printf '{"name": "peers", "kind": "gpu-peers", "level": 1, "seconds": 1, "limit_s": 60, "args": {"max_mib": 4, "iters": 2}, "limits": {"wrong": {"max": 0}, "copy_*": {"min": 1e-9}, "pairs": {"min": 2, "max": 2}}}')" >gpus.json
expect 0 accept --spec ./gpus.json --dry-run --level 1
grep -q '^burn.1 .*, at the same time$' out || fail "the plan runs the burn-ins one after the other: $(<out)"
expect 0 accept --spec ./gpus.json --out gpus --level 1
for metric in copy_0_1 copy_1_0; do
    grep -q "^  PASS *$metric" out || fail "$metric has not passed: $(<out)"
done
for gpu in 0 1; do
    grep -q "^  PASS *memory_gib .*worst on $(uname -n) cuda:$gpu" out || fail "the results lack the sensors of GPU $gpu: $(<out)"
    [[ -e gpus/checks/burn.$gpu/r1/run/summary.json ]] || fail "the burn-in of GPU $gpu has no summary"
done

# Copies between GPUs need at least two GPUs.
expect 0 accept --spec ./gpus.json --gpus 1 --out single --level 1
! grep -q peers out || fail "the check 'peers' was planned for a single GPU: $(<out)"

# One GPU checks NCCL itself. Without NCCL, the check is missing.
expect 5 accept --spec bring-up-quick --only nccl --out without-nccl
grep -q '^MISSING nccl, .*built without NCCL' out || fail "a check without NCCL is not missing: $(<out)"
if grep -q ampscale_cuda_nccl "$AMPSCALE_CUDA_MODULE"; then
    AMPSCALE_FAKE_NCCL=1 expect 0 accept --spec bring-up-quick --only facts,nccl --out nccl
    grep -q '^PASS *nccl, ' out || fail "the check of NCCL has not passed: $(<out)"
    AMPSCALE_FAKE_NCCL=1 AMPSCALE_FAKE_FAIL=ncclAllReduce:2 expect 4 accept --spec bring-up-quick --only nccl --out broken-nccl
    grep -q '^FAIL *nccl, .*ncclAllReduce: unhandled system error' out || fail "a failure of NCCL passes: $(<out)"
fi

# The launcher starts a process for each GPU: all GPUs are judged, and the report names the worst
# one.
. "$source_dir/tests/comm/mpi.sh"
if ! (mpi_find "$("$build_dir/tests/comm/mpi_ranks" version)") >/dev/null; then
    echo "ranks were not tested: no launcher of MPI was found"
    finish
fi
mpi_find "$("$build_dir/tests/comm/mpi_ranks" version)"
spec "$(train node "" '"memory_gib": {"max": 1e-9}, "throttled_heat": {"max": 0}')" >node.json
expect 4 accept --spec ./node.json --out node --level 1
run=node/checks/node/r1/run/summary.json
for rank in 0 1; do
    grep -q "\"rank\": $rank" $run && grep -q "\"index\": $rank" $run || fail "the run does not report rank $rank: $(<$run)"
done
grep -q "FAIL *memory_gib .*worst on $(uname -n) cuda:0" out || fail "the output does not name the worst GPU: $(<out)"
grep -q "PASS *throttled_heat" out || fail "not all sensors were judged: $(<out)"
finish
