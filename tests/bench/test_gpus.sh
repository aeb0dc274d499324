#!/usr/bin/env bash
# Benchmarks on the fake GPU (tests/kernels/cuda/fake): matrix products, the optimizer's update,
# collectives in one process and in an MPI job, copies between GPUs, and the choice of fusions.
. "$(dirname "$0")/../cli/common.sh" "$@"
# shellcheck source=tests/comm/mpi.sh
. "$source_dir/tests/comm/mpi.sh"
cd "$scratch" || exit 1
need_fake_gpu
command -v python3 >/dev/null || skip "no python3"
quick=(-b 1K -e 64K -f 64 -n 2 -w 1)
kinds=(allreduce broadcast reduce allgather reduce-scatter alltoall gather scatter sendrecv)

# ranks_are N TEXT: checks that the table has N ranks with TEXT, and no wrong element.
ranks_are() {
    [[ $(grep -c "\[device\] memory, $2" out) == "$1" ]] || fail "there are not $1 ranks with '$2': $(<out)"
    grep -qx '# Out of bounds values : 0 OK' out || fail "not checked: $(<out)"
}

# Each GPU belongs to a thread of one process. The fake GPU has no NCCL, unless it is asked for.
for kind in "${kinds[@]}"; do
    expect 0 bench collective "$kind" -g 2 "${quick[@]}" -m 2
    ranks_are 2 'local, staged through host memory$'
    grep -q '^#  through host memory: rank 0 (host .*) has no NCCL$' out || fail "the output does not say why data passes through the host: $(<out)"
done
expect 0 bench collective reduce-scatter --devices cuda:0,1,2 --comm host "${quick[@]}"
! grep -q 'ampscale:' < <(grep -v 'disturbed by other work' err) || fail "--comm host gives a warning: $(<err)"
expect_error 2 "-g 1: a collective needs at least two ranks" bench collective allreduce -g 1
expect_error 2 "a collective needs at least two ranks, or NCCL: the CUDA module was built without NCCL" \
    bench collective allreduce --devices cuda:0
expect_error 1 "built without NCCL" bench collective allreduce --devices cuda:0,1 --comm nccl
AMPSCALE_FAKE_GPU=no-driver expect_error 1 "there is no NVIDIA driver" bench collective allreduce --devices cuda:0,1
if grep -q ampscale_cuda_nccl "$AMPSCALE_CUDA_MODULE"; then # one GPU checks NCCL itself
    AMPSCALE_FAKE_NCCL=1 expect 0 bench collective allreduce --devices cuda:0 "${quick[@]}"
    ranks_are 1 'NCCL '
    grep -qxF '# Avg bus bandwidth    : 0 ' out || fail "one rank has a bus bandwidth: $(<out)"
    AMPSCALE_FAKE_NCCL=1 AMPSCALE_FAKE_FAIL=ncclCommInitRankConfig:1 expect_error 1 "ncclCommInitRankConfig: unhandled system error" \
        bench collective allreduce --devices cuda:0 "${quick[@]}"
fi

# Copies between GPUs: 0 and 1 have peer access to each other; GPU 2 has none.
expect 0 bench memory --devices cuda:0,1,2 --max-mib 4 -n 2 -w 1
grep -qE '^ +0 +n/a +[0-9.]+  +[0-9.]+\*$' out || fail "no matrix: $(<out)"
grep -qE '^ +2 +[0-9.]+\* +[0-9.]+\* +n/a *$' out || fail "no matrix: $(<out)"
grep -qx '#wrong bytes: 0' out || fail "not checked: $(<out)"
expect 0 bench memory --devices cuda:1,0 --max-mib 4 -n 2 -w 1 --csv
[[ $(cut -d, -f1-5 out | tail -n 2 | paste -sd' ') == "1,0,4194304,1,2 0,1,4194304,1,2" ]] || fail "CSV: $(<out)"
expect_error 2 "is not a list of devices" bench memory --devices cpu:0,1

# Products and updates. With amp, the weight gradients of convolutions are in fp16.
expect 0 bench peak --threads 2 --rounds 1 --max-mib 4 --json
cp out peak.json
for op in "" --a-t --b-t; do
    # shellcheck disable=SC2086
    expect 0 bench gemm -m 24 -n 16 -k 40 $op --precision all --devices cuda:0 --peak peak.json --iters 2
    [[ $(grep -cE ' (fp32|tf32|fp16|bf16) .* 384 +0  ' out) == 4 ]] || fail "gemm $op does not have four rows without an error: $(<out)"
done
for precision in fp32 amp; do
    expect 0 bench optimizer --net resnet8 --precision $precision --devices cuda:0 --peak peak.json -n 2
    grep -qE "^$precision .* 0  own:cuda(\$|  disturbed)" out || fail "the optimizer has no row of $precision without an error: $(<out)"
done

# step NAME ARGS...: writes the record of a step to NAME.json, and the number of timed executions to
# NAME.calls.
step() {
    local name=$1
    shift
    rm -f calls
    AMPSCALE_FAKE_COUNT=$scratch/calls expect 0 bench step --devices cuda:0 --net resnet8 \
        --image-size 8 -b 2 --rounds 1 --precision amp --peak peak.json --json "$@"
    cp out "$name.json"
    awk '$1 == "cudaEventQuery" { n += $2 + $3 } END { print n + 0 }' calls >"$name.calls"
}

# `--fuse auto` times fused and separate operations, and the record explains each choice. A second run
# reads the stored choices and times nothing. A run with `--fuse all` times nothing either, once the
# plans of cuDNN are timed: `--fuse auto` does not need all of them.
step none --fuse none
step all --fuse all
step auto
step again
step all --fuse all
[[ $(<auto.calls) != 0 && $(<again.calls)$(<all.calls) == 00 ]] || fail "timed operations: $(head auto.calls again.calls all.calls)"
python3 - <<'CHECK' || fail "the assertion above about the records fails"
import json
none, auto, again, every = (json.load(open(f"{n}.json")) for n in ("none", "auto", "again", "all"))
assert none["fusions"] == every["fusions"] == [], "a choice that was nobody's"
fusions = auto["fusions"]
assert {f["form"] for f in fusions} >= {"stats", "mask"}, fusions
assert all(f["fused_s"] > 0 and f["parts_s"] > 0 for f in fusions), fusions
assert all(f["taken"] == (f["fused_s"] * 1.02 < f["parts_s"]) for f in fusions), fusions
assert fusions == again["fusions"], "the second run chose by other times"
ops = [[op["op"] for op in r["steps"]] for r in (auto, again)]
assert ops[0] == ops[1], "the second run has other operations"
sums = sum(f["taken"] for f in fusions if f["form"] in ("stats", "apply", "output"))
assert sums == ops[0].count("conv_stats_fwd"), (sums, ops[0])
CHECK
rm -r cache # if timing is not allowed, nothing is fused and nothing is timed
AMPSCALE_FAKE_COUNT=$scratch/quiet expect 0 train --devices cuda:0 --dummy --dummy-train 8 --dummy-val 2 \
    -a resnet8 --image-size 8 -b 2 --steps 1 --precision amp --deterministic --out run
[[ -s quiet ]] && ! grep -q '^cudaEventQuery' quiet || fail "operations were timed with --deterministic: $(grep cudaEventQuery quiet)"

# MPI jobs. If two processes have two GPUs each, they support only all-reduce, through host memory.
((failures == 0)) || exit 1
mpi_find "$("$build_dir/tests/comm/mpi_ranks" version)"
mpi_leaks on
mpi_run 60 2 "$program" bench collective allgather -g 1 "${quick[@]}"
[[ $code == 0 ]] || fail "GPUs under MPI: ended with exit code $code: $(<err)"
ranks_are 2 'mpi, staged'
mpi_run 60 2 "$program" bench collective allreduce --devices cuda:0,1 "${quick[@]}"
[[ $code == 0 ]] || fail "two GPUs in each of two processes: ended with exit code $code: $(<err)"
ranks_are 4 'joint, staged'
mpi_run 60 2 "$program" bench collective allgather --devices cuda:0,1 "${quick[@]}"
[[ $code == 2 ]] && grep -qF 'support only allreduce, not allgather' err || fail "allgather does not fail with exit code 2 and the reason, but with $code: $(<err)"
finish
