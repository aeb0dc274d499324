#!/usr/bin/env bash
# Retests four ranks on this machine. One of the ranks has failed before. Arguments: the program,
# and mpi_ranks of tests/comm, which prints the MPI of this build.
set -uo pipefail
program=$1
scratch=$(mktemp -d)
# Open MPI stores session files in TMPDIR. Jobs of several tests must not share this folder.
export TMPDIR=$scratch/tmp
mkdir "$TMPDIR"
trap 'rm -rf "$scratch"' EXIT
failures=0
# shellcheck source=tests/comm/mpi.sh
. "$(dirname "${BASH_SOURCE[0]}")/../comm/mpi.sh"
mpi_find "$("$2" version)"

# look CODE LINE ARGS...: checks that a retest exits with CODE and has one finding, which matches
# LINE. On a busy machine ranks are slow at times, so one of three attempts must succeed.
look() {
    local want=$1 line=$2 turn
    shift 2
    for turn in 1 2 3; do
        mpi_run 60 4 "$program" "$@"
        [[ $code != 5 ]] || ! grep -q ' was disturbed: ' "$scratch/out" || return 0 # nothing is concluded
        [[ $want != "$code" ]] || ! grep -qx '1 findings' "$scratch/out" || ! grep -qE "^$line" "$scratch/out" || return 0
        printf "attempt %s: '%s' exited with %s:\n" "$turn" "$*" "$code"
        cat "$scratch/out" "$scratch/err"
    done
    echo "FAILED: '$*'"
    failures=$((failures + 1))
}

look 0 'n2: failure not reproduced: .* the retest passes with n[0-9] .*, n[0-9] ' 2
mapfile -t partners < <(awk '$1 > 1 && $2 == "n2" { print substr($3, 2) }' "$scratch/out")
((${#partners[@]} == 2)) || { echo "FAILED: n2 has ${#partners[@]} partners, not 2" && exit 1; }
# The link between n2 and its first partner is slow. n2 has another partner too.
mapfile -t ends < <(printf '%s\n' 2 "${partners[0]}" | sort)
look 4 "n2: a link: the retest fails with n${partners[0]} .*, but passes with n${partners[1]} " 2 "${ends[@]}"
exit $((failures > 0))
