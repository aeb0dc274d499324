#!/usr/bin/env bash
# `ampscale bench collective` and `bench memory`: their tables, records, error messages and exit
# codes. The fourth argument is a program that prints the version of MPI.
. "$(dirname "$0")/../cli/common.sh" "$@"
# shellcheck source=tests/comm/mpi.sh
. "$source_dir/tests/comm/mpi.sh"
cd "$scratch" || exit 1
export OMP_WAIT_POLICY=passive

# superbench: parses a table of nccl-tests as SuperBench does, and prints "size time algbw busbw" of
# the in-place columns, one row per line. The table is between the last line with 'out-of-place' and
# the line with 'Out of bounds values'. Rows begin with a digit. The words of the heading give the
# position of each column. The position of the size is counted from the left, all other positions
# from the right.
superbench() {
    awk '
        { line[NR] = $0 }
        /out-of-place/ { from = NR }
        /Out of bounds values/ { to = NR }
        END {
            for (i = from + 1; i < to; i++) {
                sub(/^#/, "", line[i])
                n = split(line[i], word, " ")
                if (!time && line[i] ~ /time/ && line[i] ~ /busbw/) {
                    for (k = 1; k <= n; k++) {
                        if (word[k] == "size") size = k
                        if (word[k] == "time") time = k - n
                        if (word[k] == "algbw") algbw = k - n
                        if (word[k] == "busbw") busbw = k - n
                    }
                } else if (word[1] ~ /^[0-9]/) {
                    print word[size], word[n + time], word[n + algbw], word[n + busbw]
                }
            }
        }' "$1"
}

# busbw_is FACTOR: checks the table in `out`. In every row the bus bandwidth must be FACTOR times
# the algorithm bandwidth, up to rounding.
busbw_is() {
    superbench out | awk -v factor="$1" '
        { d = $4 - factor * $3; if (d * d > (0.006 * (1 + factor)) ^ 2) bad = 1 }
        END { exit bad || NR == 0 }' || fail "the bus bandwidth is not $1 times the algorithm bandwidth: $(<out)"
}

quick=(-n 3 -w 1)
expect 0 bench collective allreduce -b 8 -e 2M -f 8 "${quick[@]}" --ranks 3
[[ $(superbench out | cut -d' ' -f1 | paste -sd' ') == "8 64 512 4096 32768 262144 2097152" ]] || fail "sizes: $(<out)"
busbw_is 1.33333
[[ $(grep -c '^#  Rank ' out) == 3 ]] || fail "ranks: $(<out)"
grep -qx '# Out of bounds values : 0 OK' out || fail "nothing is checked: $(<out)"
expect 0 bench collective allgather -b 1K -e 3K -i 1K "${quick[@]}" -d half --ranks 4
[[ $(superbench out | cut -d' ' -f1 | paste -sd' ') == "1024 2048 3072" ]] || fail "sizes: $(<out)"
grep -q '^        1024           128      half    none      -1 ' out || fail "the row: $(<out)"
expect 0 bench collective broadcast -b 64K -e 64K "${quick[@]}" -d uint8 -c 0
busbw_is 1
grep -q '  N/A .*  N/A$' out || fail "unchecked results are not marked N/A: $(<out)"
for kind in allreduce broadcast reduce allgather reduce-scatter; do
    for type in float half bfloat16 double int32; do
        expect 0 bench collective "$kind" -b 40 -e 40K -f 32 -n 1 -w 0 -c 2 -d "$type" -o max --ranks 3 --csv
        [[ $(wc -l <out) == 7 ]] || fail "the CSV of $kind of $type does not have 7 lines: $(<out)"
        awk -F, 'NR > 1 && ($8 != 1 || $14 != 0) { exit 1 }' out || fail "the CSV of $kind of $type has a wrong result: $(<out)"
    done
done
expect 0 bench memory --threads 2 --max-mib 4 "${quick[@]}"
[[ $(grep -cE '^(copy|scale|add|triad) .* 3        0$' out) == 4 ]] || fail "memory: $(<out)"
expect 0 bench memory --threads 1 --max-mib 4 "${quick[@]}" --csv
grep -q '^triad,4194304,12582912,1,3,' out || fail "the CSV has no row of triad: $(<out)"
expect 0 bench memory --threads 1 --max-mib 4 "${quick[@]}" --json
cp out memory.json
expect 0 bench collective reduce-scatter -b 1K -e 2K "${quick[@]}" --json
cp out collective.json

if command -v python3 >/dev/null; then
    python3 - <<'CHECK' || fail "the assertion above about the records fails"
import json
r = json.load(open("collective.json"))
assert (r["schema"], r["bench"], r["wrong"], len(r["ranks"])) == (1, "collective", 0, 2), r
assert [row["bytes"] for row in r["rows"]] == [1024, 2048] and r["config"]["redop"] == "sum"
for row in r["rows"]:
    for place in row["out_of_place"], row["in_place"]:
        s = place["seconds"]
        assert s["n"] == 3 and 0 < s["min"] <= s["p5"] <= s["median"] <= s["p95"], s
        assert abs(place["algbw"] * s["median"] * 1e9 / row["bytes"] - 1) < 1e-6, row
        assert abs(place["busbw"] * 2 - place["algbw"]) < 1e-6, row
r = json.load(open("memory.json"))
assert (r["schema"], r["bench"], r["array_bytes"]) == (1, "memory", 4 << 20), r
for row, arrays in zip(r["rows"], (2, 2, 3, 3)):
    assert row["bytes"] == arrays * (4 << 20) and row["wrong"] == 0, row
    assert abs(row["best_gb_per_s"] * row["seconds"]["min"] * 1e9 / row["bytes"] - 1) < 1e-6, row
    assert row["best_gb_per_s"] >= row["median_gb_per_s"] > 0, row
CHECK
fi

expect_error 2 "give allreduce, broadcast," bench collective
expect_error 2 "bench collective 'barrier'" bench collective barrier
expect_error 2 "unexpected argument 'more'" bench collective allreduce more
expect_error 2 "--minbytes '0'" bench collective allreduce -b 0
expect_error 2 "--minbytes '1Q'" bench collective allreduce -b 1Q
expect_error 2 "--maxbytes '2T'" bench collective allreduce -e 2T
expect_error 2 "--maxbytes '-1'" bench collective allreduce -e -1
expect_error 2 "is below the smallest" bench collective allreduce -b 2K -e 1K
expect_error 2 "-f and -i" bench collective allreduce -f 2 -i 1K
expect_error 2 "--stepfactor '1'" bench collective allreduce -f 1
expect_error 2 "'-n' needs a value" bench collective allreduce -n
expect_error 2 "--datatype 'fp32'" bench collective allreduce -d fp32
expect_error 2 "--op 'prod'" bench collective allreduce -o prod
expect_error 2 "allreduce cannot reduce bytes" bench collective allreduce -d uint8
expect_error 2 "--ranks '257'" bench collective allreduce --ranks 257
expect_error 2 "--json and --csv" bench collective allreduce --json --csv
expect_error 2 "give a smaller --max-mib" bench memory --max-mib 65536 --threads 1

# In an MPI job, only rank 0 prints the table.
((failures == 0)) || exit 1
mpi_find "$("$4" version)"
mpi_leaks on
mpi_run 60 2 "$program" bench collective reduce -b 1K -e 64K -f 8 "${quick[@]}"
[[ $code == 0 ]] || fail "a job under MPI ended with exit code $code: $(<err)"
busbw_is 1
[[ $(grep -c '^#  Rank ' out) == 2 && $(grep -c 'out-of-place' out) == 1 ]] || fail "under MPI: $(<out)"
mpi_run 60 2 "$program" bench collective reduce --ranks 2
[[ $code == 2 ]] || fail "--ranks under MPI ended with exit code $code: $(<err)"
finish
