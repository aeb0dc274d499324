#!/usr/bin/env bash
# `ampscale bench collective` with the program names and flags of nccl-tests. Measures every kind of
# collective over every transport between ranks, and checks each element. The fourth argument is a
# program that prints the version of MPI.
. "$(dirname "$0")/../cli/common.sh" "$@"
# shellcheck source=tests/comm/mpi.sh
. "$source_dir/tests/comm/mpi.sh"
cd "$scratch" || exit 1
export OMP_WAIT_POLICY=passive

quick=(-n 1 -w 0 --csv)
kinds=(allreduce broadcast reduce allgather reduce-scatter alltoall gather scatter sendrecv)

# rows_are KIND ROWS ROOT: checks that the CSV in `out` has ROWS rows of this kind and root, without
# wrong elements.
rows_are() {
    awk -F, -v kind="$1" -v rows="$2" -v root="$3" '
        NR > 1 { n++ }
        NR > 1 && ($1 != kind || $7 != root || $14 != 0 || $14 == "") { bad = 1 }
        END { exit bad || n != rows }' out || fail "the output does not have $2 correct rows of $1 with root $3: $(cat out err)"
}

# busbw_is KIND RANKS FACTOR [FLAGS]: checks that the bus bandwidth is FACTOR times the algorithm
# bandwidth, as in nccl-tests.
busbw_is() {
    local kind=$1 ranks=$2 factor=$3
    expect 0 bench collective "$kind" --ranks "$ranks" -b 48K -e 48K "${quick[@]}" "${@:4}"
    awk -F, -v factor="$factor" 'NR > 1 {
        if (NF < 14) bad = 1
        d = $13 - factor * $12
        if (d * d > (1e-6 * $12) ^ 2 || $3 != 49152) bad = 1
    } END { exit bad || NR != 3 }' out || fail "$kind between $ranks ranks: there are not two rows of 49152 B whose bus bandwidth is $factor times the algorithm bandwidth: $(<out)"
}

# The command accepts the program names of nccl-tests.
for name in all_reduce all_reduce_perf all_gather all_gather_perf reduce_scatter reduce_scatter_perf \
    alltoall_perf broadcast_perf reduce_perf gather_perf scatter_perf sendrecv_perf; do
    kind=${name%_perf}
    kind=${kind/all_/all}
    expect 0 bench collective "$name" -b 64 -e 64 "${quick[@]}"
    grep -q "^${kind/_/-},out_of_place,64," out || fail "$name: $(<out)"
done
expect_error 2 "bench collective 'all_reduce_perf_perf': give allreduce, " bench collective all_reduce_perf_perf
expect_error 2 "bench collective 'hypercube': give allreduce, " bench collective hypercube

# For three ranks, the factors of the bus bandwidth must be those of nccl-tests.
busbw_is allreduce 3 1.3333333333
busbw_is alltoall 3 0.6666666667
busbw_is gather 3 0.6666666667 -r 1
busbw_is scatter 3 0.6666666667 -r 2
busbw_is sendrecv 3 1

# Ranks are threads of one process. At the smallest size, the part of a rank may be empty. Other
# sizes are below or above the size of a block of the reduction. Several operations run at a time.
for kind in "${kinds[@]}"; do
    root=-1
    case $kind in broadcast | reduce | gather | scatter) root=2 ;; esac
    expect 0 bench collective "$kind" --ranks 3 -r 2 -b 16 -e 1M -f 256 "${quick[@]}" -c 2 -m 3 -t 1
    rows_are "$kind" 6 "$root"
done
for type in float half bfloat16 double int32; do
    for kind in allreduce reduce reduce_scatter; do
        expect 0 bench collective "$kind" --ranks 3 -o avg -d "$type" -b 64K -e 64K "${quick[@]}"
        grep -q ",avg," out || fail "the output for $kind of $type does not name the average: $(<out)"
        awk -F, 'NR > 1 && $14 != 0 { exit 1 }' out || fail "an average of $type is wrong: $(<out)"
    done
done
expect 0 bench collective all_reduce -b 1K -e 1K -n 1 --warmup_iters 2 --agg_iters 4
grep -q ' warmup iters: 2 iters: 1 agg iters: 4 validation: 1 ' out || fail "the heading: $(<out)"

# Refused flags.
expect_error 2 "--nthreads '2': each GPU has one thread" bench collective allreduce -t 2
expect_error 2 "--root 2: there are 2 ranks, from 0 to 1" bench collective broadcast -r 2
expect_error 2 "--root '-1'" bench collective broadcast -r -1
expect_error 2 "--agg-iters '65'" bench collective allreduce -m 65
expect_error 2 "--ngpus '0'" bench collective allreduce -g 0
expect_error 2 "--ranks, --devices and --ngpus: give one of them" bench collective allreduce -g 2 --ranks 2
expect_error 2 "cannot reduce bytes" bench collective allreduce -d uint8 -o avg

# Processes without MPI communicate through rank 0 and, if the build has Gloo, over Gloo.
ways=(local)
[[ ! -e $(dirname "$program")/ampscale_gloo.so ]] || ways+=(gloo)
for way in "${ways[@]}"; do
    for ranks in 2 3; do
        for kind in "${kinds[@]}"; do
            root=-1
            case $kind in broadcast | reduce | gather | scatter) root=1 ;; esac
            expect 0 launch --nproc "$ranks" --log-dir logs bench collective "$kind" --comm "$way" -r 1 \
                -b 12 -e 3M -f 64 "${quick[@]}" -m 2
            rows_are "$kind" 8 "$root"
        done
    done
    expect 0 launch --nproc 3 --log-dir logs bench collective all_reduce --comm "$way" -o avg -b 1M -e 1M "${quick[@]}"
    rows_are allreduce 2 -1
done

# One process with two GPUs that communicate through host memory.
if fake_gpu; then
    for kind in "${kinds[@]}"; do
        expect 0 bench collective "$kind" -g 2 -b 1K -e 64K -f 64 "${quick[@]}" -m 2
        awk -F, 'NR > 1 && $14 != 0 { exit 1 }' out || fail "a result of $kind between two GPUs is wrong: $(<out)"
    done
    expect_error 2 "-g 1: a collective needs at least two ranks" \
        bench collective allreduce -g 1
fi

((failures == 0)) || exit 1
mpi_find "$("$4" version)"
for ranks in 2 3; do
    for kind in "${kinds[@]}"; do
        root=-1
        case $kind in broadcast | reduce | gather | scatter) root=1 ;; esac
        mpi_run 60 "$ranks" "$program" bench collective "$kind" -r 1 -b 12 -e 3M -f 64 "${quick[@]}" -m 2
        [[ $code == 0 ]] || fail "$kind under MPI ended with exit code $code: $(<err)"
        rows_are "$kind" 8 "$root"
    done
done
mpi_run 60 3 "$program" bench collective reduce_scatter -o avg -b 1M -e 1M "${quick[@]}"
[[ $code == 0 ]] || fail "an average under MPI ended with exit code $code: $(<err)"
rows_are reduce-scatter 2 -1
if fake_gpu; then # -g 1: the GPU of the local rank
    mpi_run 60 2 "$program" bench collective alltoall -g 1 -b 1K -e 64K -f 64 "${quick[@]}"
    [[ $code == 0 ]] || fail "one GPU for each process: ended with exit code $code: $(<err)"
    rows_are alltoall 4 -1
fi
finish
