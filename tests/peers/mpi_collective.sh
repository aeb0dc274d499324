#!/usr/bin/env bash
# Compares `bench collective --comm mpi` with the same MPI calls of a small program (mpi_collective.c),
# in turns. Both must report the same sizes and no wrong element. Prints the medians, their ratio, the
# ratio of the fastest turn of each side, which a busy machine disturbs least, and the lowest and
# highest ratio of a turn; no ratio fails the test. Arguments after the usual three:
# "quick" for some small sizes, or names of collectives (default: all). Variables: RANKS ("2 4 8"),
# TURNS (5), LARGEST (bytes, 268435456). To measure, give it a quiet machine.
. "$(dirname "$0")/../cli/common.sh" "$@"
# shellcheck source=tests/comm/mpi.sh
. "$source_dir/tests/comm/mpi.sh"
cd "$scratch" || exit 1
mpi_find "$("$build_dir/tests/comm/mpi_ranks" version)"
peer=$build_dir/tests/peers/mpi_collective
kinds=("${@:4}")
read -ra ranks <<<"${RANKS-2 4 8}"
turns=${TURNS-5} largest=${LARGEST-268435456}
bands=("4 65536 100" "262144 4194304 20" "16777216 268435456 5") # smallest, largest, calls
if [[ ${kinds-} == quick ]]; then
    kinds=() ranks=(3) turns=1 bands=("4 16384 4")
fi
((${#kinds[@]})) || kinds=(allreduce broadcast reduce allgather reduce-scatter alltoall gather scatter sendrecv)

# measure SIDE RANKS KIND MIN MAX CALLS: runs a side, and writes "BYTES COUNT SECONDS WRONG" for each
# size to SIDE. MPI has no broadcast from one buffer of the root to another.
measure() {
    local side=$1 n=$2 kind=$3 place=out_of_place
    [[ $kind != broadcast ]] || place=in_place
    if [[ $side == peer ]]; then
        mpi_run 600 "$n" "$peer" "$kind" "$4" "$5" 4 "$6"
        cp out peer
    else
        mpi_run 600 "$n" "$program" bench collective "$kind" --comm mpi -b "$4" -e "$5" -f 4 -n "$6" -w $(($6 / 4)) --csv -q
        awk -F, -v place=$place '$2 == place { print $3, $4, $9, $14 }' out >ampscale
    fi
    [[ $code == 0 && -s $side ]] || fail "$side: $kind of $n ranks ended with exit code $code: $(<err)"
}

printf '%5s %-14s %10s %12s %12s %7s %7s %7s %7s\n' ranks collective bytes "MPI us" "ampscale us" ratio fastest lowest highest
for n in "${ranks[@]}"; do
    for kind in "${kinds[@]}"; do
        for band in "${bands[@]}"; do
            read -r from to calls <<<"$band"
            ((from <= largest)) || continue
            : >both
            for ((turn = 0; turn < turns; turn++)); do
                measure peer "$n" "$kind" "$from" $((to < largest ? to : largest)) "$calls"
                measure ampscale "$n" "$kind" "$from" $((to < largest ? to : largest)) "$calls"
                paste -d' ' peer ampscale >>both
            done
            awk '$1 != $5 || $2 != $6 || $4 != 0 || $8 != 0 || NF != 8 { exit 1 }' both || fail "$kind of $n ranks: the sizes differ, or elements are wrong: $(<both)"
            sort -s -n -k1,1 both | awk -v n="$n" -v kind="$kind" '
                function median(v, k, i, j, x) {
                    for (i = 2; i <= k; i++)
                        for (j = i; j > 1 && v[j] < v[j - 1]; j--) { x = v[j]; v[j] = v[j - 1]; v[j - 1] = x }
                    return (v[int((k + 1) / 2)] + v[int(k / 2) + 1]) / 2
                }
                function line() {
                    if (k > 0)
                        printf "%5d %-14s %10d %12.2f %12.2f %7.3f %7.3f %7.3f %7.3f\n", n, kind, bytes,
                            1e6 * median(peer, k), 1e6 * median(own, k), median(own, k) / median(peer, k), own[1] / peer[1], low, high
                    k = 0; low = 1e9; high = 0
                }
                $1 != bytes { line(); bytes = $1 }
                $1 > 0 && $3 > 0 { k++; peer[k] = $3; own[k] = $7; r = $7 / $3; if (r < low) low = r; if (r > high) high = r }
                END { line() }'
        done
    done
done
finish
