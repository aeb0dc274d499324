#!/usr/bin/env bash
# `ampscale bench overhead`: its table and records, in one process and in an MPI job. The fourth
# argument is a program that prints the version of MPI.
. "$(dirname "$0")/../cli/common.sh" "$@"
# shellcheck source=tests/comm/mpi.sh
. "$source_dir/tests/comm/mpi.sh"
cd "$scratch" || exit 1
export OMP_WAIT_POLICY=passive
quick=(--threads 1 -n 6 -w 1)

expect_error 2 "give at most 1000" bench overhead -n 1001
expect_error 2 "--json and --csv" bench overhead --json --csv
expect 0 bench overhead "${quick[@]}"
[[ $(grep -cE '^(launch|event|step|record|allreduce) .* yes$' out) == 5 ]] || fail "the table: $(<out)"
expect 0 bench overhead "${quick[@]}" --csv
[[ $(wc -l <out) == 6 ]] || fail "CSV: $(<out)"
expect 0 bench overhead "${quick[@]}" --json
[[ -z $(ls "$TMPDIR") ]] || fail "TMPDIR is not empty: $(ls "$TMPDIR")"
if command -v python3 >/dev/null; then
    python3 - <<'CHECK' || fail "the assertion above about the record fails"
import json
r = json.load(open("out"))
assert (r["schema"], r["bench"], r["ranks"]) == (1, "overhead", 2), r
assert [row["what"] for row in r["rows"]] == ["launch", "event", "step", "record", "allreduce"]
for row in r["rows"]:
    s = row["seconds"]
    assert row["valid"] and row["done"] > 0 and 0 < s["min"] <= s["median"] <= s["p95"], row
CHECK
fi
TMPDIR=$scratch/none expect_error 1 "cannot make a folder in '$scratch/none'" bench overhead "${quick[@]}"

# ended SIGNAL: checks that the signal ends the benchmark, and that the benchmark removes its record
# folder. If the benchmark ends before the signal, the test starts it again.
ended() {
    local turn i pid
    for turn in 1 2 3 4 5; do
        "$program" bench overhead --threads 1 -n 1000 -w 1000 >out 2>err &
        pid=$!
        for ((i = 0; i < 2000; i++)); do
            compgen -G "$TMPDIR/ampscale-overhead-*/run/steps.jsonl" >/dev/null && break
            sleep 0.01
        done
        kill "-$1" "$pid" 2>/dev/null
        code=0
        wait "$pid" || code=$?
        [[ -z $(ls "$TMPDIR") ]] || fail "$1: TMPDIR is not empty: $(ls "$TMPDIR")"
        ((code != 0)) && break
    done
    ((code == 128 + $(kill -l "$1"))) && [[ $(<err) == "ampscale: interrupted by SIG$1" ]] || fail "$1: exited with $code: $(<err)"
}
# A killed benchmark leaves its record folder. The next benchmark removes it.
mkdir "$TMPDIR/ampscale-overhead-killed" && touch "$TMPDIR/ampscale-overhead-killed/steps.jsonl"
expect 0 bench overhead "${quick[@]}"
[[ -z $(ls "$TMPDIR") ]] || fail "the record folder of a killed benchmark was not removed: $(ls "$TMPDIR")"
ended TERM
ended INT
ended HUP

((failures == 0)) || exit 1
mpi_find "$("$4" version)"
mpi_leaks on
mpi_run 60 2 "$program" bench overhead "${quick[@]}"
[[ $code == 0 ]] || fail "a job under MPI ended with exit code $code: $(<err)"
[[ $(grep -c '^allreduce .* yes$' out) == 1 ]] || fail "under MPI: $(<out)"
finish
