#!/usr/bin/env bash
# `ampscale bench collective` with the program names and flags of nccl-tests. Measures every kind of
# collective over every transport between ranks, and checks each element.
. "$(dirname "$0")/../cli/common.sh" "$@"
# shellcheck source=tests/comm/mpi.sh
. "$source_dir/tests/comm/mpi.sh"
cd "$scratch" || exit 1
export OMP_WAIT_POLICY=passive

quick=(-n 1 -w 0 --csv)
kinds=(allreduce broadcast reduce allgather reduce-scatter alltoall gather scatter sendrecv)

# root_of KIND ROOT: prints ROOT for a kind with a root, or -1.
root_of() {
    case $1 in broadcast | reduce | gather | scatter) echo "$2" ;; *) echo -1 ;; esac
}

# rows_are KIND ROWS ROOT: checks that the CSV in `out` has ROWS rows of this kind and root, without
# wrong elements.
rows_are() {
    awk -F, -v kind="$1" -v rows="$2" -v root="$3" '
        NR > 1 { n++ }
        NR > 1 && ($1 != kind || $7 != root || $14 != 0 || $14 == "") { bad = 1 }
        END { exit bad || n != rows }' out || fail "the output does not have $2 correct rows of $1 with root $3: $(cat out err)"
}

# superbench: parses a table of nccl-tests as SuperBench does, and prints "size time algbw busbw" of
# the in-place columns, one row per line. The words of the heading between 'out-of-place' and the
# rows give the position of each column: of the size from the left, of all others from the right.
superbench() {
    awk '
        /Out of bounds values/ { exit }
        /out-of-place/ { table = 1; next }
        !table { next }
        { sub(/^#/, ""); n = split($0, word, " ") }
        !time && /time/ && /busbw/ {
            for (k = 1; k <= n; k++) {
                if (word[k] == "size") size = k
                if (word[k] == "time") time = k - n
                if (word[k] == "algbw") algbw = k - n
                if (word[k] == "busbw") busbw = k - n
            }
            next
        }
        word[1] ~ /^[0-9]/ { print word[size], word[n + time], word[n + algbw], word[n + busbw] }' out
}

# The table of nccl-tests, for its readers.
expect 0 bench collective allreduce -b 8 -e 2M -f 8 -n 3 -w 1 --ranks 3
[[ $(superbench | cut -d' ' -f1 | paste -sd' ') == "8 64 512 4096 32768 262144 2097152" ]] || fail "sizes: $(<out)"
superbench | awk '{ d = $4 - 4 / 3 * $3; if (d * d > 0.014 ^ 2) bad = 1 } END { exit bad || NR == 0 }' ||
    fail "the bus bandwidth is not 4/3 times the algorithm bandwidth: $(<out)"
[[ $(grep -c '^#  Rank ' out) == 3 ]] || fail "ranks: $(<out)"
grep -qx '# Out of bounds values : 0 OK' out || fail "nothing is checked: $(<out)"
expect 0 bench collective broadcast -b 1K -e 3K -i 1K -n 1 -d half -c 0 --warmup_iters 2 --agg_iters 4
[[ $(superbench | cut -d' ' -f1 | paste -sd' ') == "1024 2048 3072" ]] || fail "sizes: $(<out)"
grep -q '  N/A .*  N/A$' out || fail "unchecked results are not marked N/A: $(<out)"
for name in all_reduce all_reduce_perf all_gather_perf reduce_scatter_perf alltoall_perf broadcast_perf \
    reduce_perf gather_perf scatter_perf sendrecv_perf; do
    kind=${name%_perf}
    kind=${kind/all_/all}
    expect 0 bench collective "$name" -b 64 -e 64 "${quick[@]}"
    grep -q "^${kind/_/-},out_of_place,64," out || fail "$name: $(<out)"
done

# A size that is too small to give each rank a part does not count in the mean bandwidth.
expect 0 bench collective allgather --ranks 3 -b 8 -e 2000 -i 1992 -n 1 -w 0 --json
awk -v RS='[,{}]' '/"busbw":/ { n += $2 > 0; sum += $2 } /"mean_busbw":/ { mean = $2 }
    END { exit !(n == 2 && sum > 0 && mean / (sum / 2) > 0.999999 && mean / (sum / 2) < 1.000001) }' out ||
    fail "the mean counts the empty size: $(<out)"
expect 0 bench collective allgather --ranks 3 -b 8 -e 2000 -i 1992 -n 1 -w 0
grep -qx '# Rows of 0 bytes      : 1, not in the average' out || fail "no word of the empty size: $(<out)"
expect 0 bench collective allgather --ranks 3 -b 8 -e 8 -n 1 -w 0
grep -q '^# Avg bus bandwidth    : 0 $' out || fail "without data the mean is not 0: $(<out)"

# Ranks are threads of one process. At the smallest size, the part of a rank may be empty. Other
# sizes are below or above the size of a block of the reduction. Several operations run at a time.
for kind in "${kinds[@]}"; do
    expect 0 bench collective "$kind" --ranks 3 -r 2 -b 16 -e 1M -f 256 "${quick[@]}" -c 2 -m 3 -t 1
    rows_are "$kind" 6 "$(root_of "$kind" 2)"
done
for type in float half bfloat16 double int32; do
    for kind in allreduce reduce reduce-scatter; do
        for op in avg max; do
            expect 0 bench collective "$kind" --ranks 3 -o $op -d "$type" -b 64K -e 64K "${quick[@]}"
            rows_are "$kind" 2 "$([[ $kind != reduce ]] && echo -1 || echo 0)"
        done
    done
done

# Processes communicate over Gloo, if the build has it, and over MPI.
expect 0 bench collective allreduce --ranks 2 --comm local -b 64 -e 64 "${quick[@]}"
ways=()
[[ ! -e $(dirname "$program")/ampscale_gloo.so ]] || ways+=(gloo)
(mpi_find "$("$build_dir/tests/comm/mpi_ranks" version)") && mpi_find "$("$build_dir/tests/comm/mpi_ranks" version)" && ways+=(mpi)

# job WAY RANKS ARGS...: runs a collective on so many processes.
job() {
    if [[ $1 == mpi ]]; then
        mpi_run 60 "$2" "$program" bench collective "${@:3}"
        [[ $code == 0 ]] || fail "$*: ended with exit code $code: $(<err)"
    else
        expect 0 launch --nproc "$2" --log-dir logs bench collective "${@:3}" --comm "$1"
    fi
}
for way in "${ways[@]}"; do
    for ranks in 2 3; do
        for kind in "${kinds[@]}"; do
            [[ $way $kind != "gloo reduce-scatter" ]] || continue
            job "$way" "$ranks" "$kind" -r 1 -b 12 -e 3M -f 64 "${quick[@]}" -m 2
            rows_are "$kind" 8 "$(root_of "$kind" 1)"
        done
    done
    job "$way" 3 all_reduce -o avg -b 1M -e 1M "${quick[@]}"
    rows_are allreduce 2 -1
done

# Ranks must have the same arguments, and the ranks of a job are its processes.
[[ ${way-} == mpi ]] || finish
mpi_run 60 2 "$program" bench collective reduce --ranks 2
[[ $code == 2 ]] || fail "--ranks under MPI ended with exit code $code: $(<err)"
# shellcheck disable=SC2016
mpi_run 60 2 bash -c '"$0" "$@" -b "$((1 + ${OMPI_COMM_WORLD_RANK:-$PMI_RANK}))"' "$program" bench overlap --net resnet8 --image-size 32 --threads 1
[[ $code == 2 ]] || fail "ranks with different batch sizes exit with $code, not 2: $(<err)"
grep -q 'rank 1 .*has batch_size = 2, but rank 0 .* has 1' err || fail "stderr does not name the batch sizes of both ranks: $(<err)"
finish
