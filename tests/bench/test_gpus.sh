#!/usr/bin/env bash
# Benchmarks of several GPUs, on the fake GPU (tests/kernels/cuda/fake): collectives in one process,
# collectives in an MPI job, and copies. The fourth argument is a program that prints the version of
# MPI.
. "$(dirname "$0")/../cli/common.sh" "$@"
# shellcheck source=tests/comm/mpi.sh
. "$source_dir/tests/comm/mpi.sh"
cd "$scratch" || exit 1

expect_error 2 "--devices cpu:2 uses the host's memory" bench collective allreduce --devices cpu:2
expect_error 2 "--comm nccl and host have an effect only with --devices" bench collective allreduce --comm host
expect_error 2 "--comm mpi is for the processes of a job" bench collective allreduce --comm mpi

need_fake_gpu
quick=(-b 1K -e 64K -f 64 -n 2 -w 1)

# Each GPU belongs to a thread of one process. The fake GPU has no NCCL.
expect 0 bench collective allreduce --devices cuda:0,1 "${quick[@]}"
[[ $(grep -c '\[device\] memory, local, staged through host memory$' out) == 2 ]] || fail "ranks: $(<out)"
grep -q '^#  through host memory: rank 0 (host .*) has no NCCL$' out || fail "the output does not say why data passes through the host: $(<out)"
grep -qx '# Out of bounds values : 0 OK' out || fail "not checked: $(<out)"
expect 0 bench collective reduce-scatter --devices cuda:0,1,2 --comm host "${quick[@]}" --csv
[[ $(wc -l <out) == 5 ]] || fail "CSV: $(<out)"
! grep -q 'ampscale:' err || fail "--comm host gives a warning: $(<err)"
expect_error 2 "a collective needs at least two ranks, or NCCL: the CUDA module was built without NCCL" \
    bench collective allreduce --devices cuda:0
expect_error 2 "through the host needs at least two ranks" bench collective allreduce --devices cuda:0 --comm host
expect_error 1 "built without NCCL" bench collective allreduce --devices cuda:0,1 --comm nccl
AMPSCALE_FAKE_GPU=no-driver expect_error 1 "there is no NVIDIA driver" bench collective allreduce --devices cuda:0,1

# One GPU checks NCCL itself, by the calls that several GPUs make. Modules without NCCL lack the
# function.
if grep -q ampscale_cuda_nccl "$AMPSCALE_CUDA_MODULE"; then
    AMPSCALE_FAKE_NCCL=1 AMPSCALE_FAKE_COUNT=$scratch/calls expect 0 bench collective allreduce --devices cuda:0 "${quick[@]}"
    for line in '#  one rank: the values are checked, and no data moves between ranks' '# Out of bounds values : 0 OK' \
        '# Avg bus bandwidth    : 0 '; do
        grep -qxF "$line" out || fail "one rank: no line '$line': $(<out)"
    done
    [[ $(grep -c '\[device\] memory, NCCL ' out) == 1 ]] || fail "one rank does not use NCCL: $(<out)"
    for call in GetUniqueId CommInitRankConfig CommRegister AllReduce CommFinalize CommDestroy; do
        grep -q "^nccl$call [1-9]" calls || fail "one rank does not call nccl$call: $(grep nccl calls)"
    done
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
expect 0 bench memory --devices cuda:1,2 --max-mib 4 -n 2 -w 1 --json
[[ $(grep -c '"direct": false' out) == 2 ]] || fail "JSON: $(<out)"
expect_error 2 "is not a list of devices" bench memory --devices cpu:0,1

# An MPI job in which each process has one GPU.
((failures == 0)) || exit 1
mpi_find "$("$4" version)"
mpi_leaks on
mpi_run 60 2 "$program" bench collective allgather --devices cuda "${quick[@]}"
[[ $code == 0 ]] || fail "GPUs under MPI: ended with exit code $code: $(<err)"
[[ $(grep -c '\[device\] memory, mpi, staged' out) == 2 ]] || fail "under MPI: $(<out)"
# If two processes have two GPUs each, they support only all-reduce, through host memory.
mpi_run 60 2 "$program" bench collective allreduce --devices cuda:0,1 "${quick[@]}"
[[ $code == 0 ]] || fail "two GPUs in each of two processes: ended with exit code $code: $(<err)"
[[ $(grep -c '\[device\] memory, joint, staged' out) == 4 ]] || fail "the output does not have the devices of four ranks: $(<out)"
[[ $(sed -nE 's/^#  Rank.* Pid +([0-9]+) .*/\1/p' out | uniq -c | awk '{ print $1 }' | xargs) == "2 2" ]] ||
    fail "the table does not have two ranks of each process: $(<out)"
grep -qx '# Out of bounds values : 0 OK' out || fail "not checked: $(<out)"
mpi_run 60 2 "$program" bench collective allgather --devices cuda:0,1 "${quick[@]}"
[[ $code == 2 ]] && grep -qF 'support only allreduce, not allgather' err || fail "allgather does not fail with exit code 2 and the reason, but with $code: $(<err)"
finish
