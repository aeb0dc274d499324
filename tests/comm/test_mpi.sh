#!/usr/bin/env bash
# Runs the program mpi_ranks as MPI jobs. Arguments: the program, and the scenarios to run.
set -uo pipefail
program=$1
shift
scratch=$(mktemp -d)
# Open MPI stores its session files in TMPDIR. Jobs of parallel tests would share the default
# folder.
export TMPDIR=$scratch/tmp
mkdir "$TMPDIR"
trap 'rm -rf "$scratch"' EXIT
failures=0
# shellcheck source=tests/comm/mpi.sh
. "$(dirname "${BASH_SOURCE[0]}")/mpi.sh"
# shellcheck source=tests/sanitized.sh
. "$(dirname "${BASH_SOURCE[0]}")/../sanitized.sh"
mpi_name=$("$program" version)
mpi_find "$mpi_name"
mpi_leaks on

fail() {
    printf 'FAILED: %s\n' "$*"
    sed 's/^/    /' "$scratch/out" "$scratch/err" | tail -n 30
    failures=$((failures + 1))
}

# values SCENARIO RANKS: checks that the job ends with 0, and that only rank 0 prints.
values() {
    mpi_run 90 "$2" "$program" "$1" 60
    ((code == 0)) || fail "'$1' on $2 ranks exited with $code"
    grep -q "^$2 ranks of" "$scratch/out" || fail "'$1' did not run on $2 ranks"
}

# killed RANKS: runs a job whose rank 1 is killed. If the MPI launcher reports this, only checks
# that the job fails. Otherwise checks the report of a rank.
killed() {
    if [[ -n $mpi_reports ]]; then
        mpi_run 30 "$1" "$program" kill 1
        ((code != 0 && code != 124)) || fail "'kill' on $1 ranks exited with $code"
    else
        lost kill "$1" - "$who (answer after|reach) operation [0-9]+.*; $gone"
    fi
}

# lost HOW RANKS CODE LINE: runs a job that loses rank 1 in the way HOW. Checks that the job ends
# with CODE (-: any code except 0). Checks that ampscale prints exactly one line, which matches
# LINE, a regular expression.
lost() {
    local how=$1 ranks=$2 want=$3 line=$4 said
    mpi_run 30 "$ranks" "$program" "$how" 1
    case $want:$code in
    *:0 | *:124) fail "'$how' on $ranks ranks exited with $code" ;;
    -:* | "$code:$code") ;;
    *) fail "'$how' on $ranks ranks exited with $code, not $want" ;;
    esac
    said=$(cat "$scratch/out" "$scratch/err" | grep -cE 'ampscale:|FAILED')
    [[ $said == 1 ]] || fail "'$how' on $ranks ranks: ampscale printed $said lines, not 1"
    grep -qxE -- "$line" "$scratch/err" || fail "'$how' on $ranks ranks does not say '$line'"
}

# late RANKS: rank 1 does not join the job. Checks that the other ranks end with an error after a
# time limit.
late() {
    mpi_run 60 "$1" "$program" late 1
    ((code != 0 && code != 124)) || fail "'late' on $1 ranks exited with $code"
    grep -q 'cannot join the MPI job: not all ranks arrived within 1 s' "$scratch/err" || fail "'late' on $1 ranks does not say why it ended"
}

who='ampscale: rank 1 \(host [^ ]+, pid [0-9]+\) did not'
gone='it may have died or be stuck'
# Under sanitizers, jobs of four ranks take long, and execute the same code as jobs of two and
# three.
sizes=(2 3 4)
! sanitized || sizes=(2 3)
for scenario; do
    for ranks in "${sizes[@]}"; do
        case $scenario in
        kill) killed "$ranks" ;;
        stop) lost stop "$ranks" 1 "$who reach operation 6 \(barrier\) within 1 s; $gone" ;;
        absent) lost absent "$ranks" 1 "$who reach operation 6 \(barrier\) within 1 s; the process is alive, but busy with something else" ;;
        late) ((ranks > 2)) || late "$ranks" ;;
        fail) lost fail "$ranks" 5 "ampscale: rank 1: cannot read 'x'" ;;
        *) values "$scenario" "$ranks" ;;
        esac
    done
done
exit $((failures > 0))
