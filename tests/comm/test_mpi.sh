#!/usr/bin/env bash
# Runs the program mpi_ranks as MPI jobs. Arguments: the program, the numbers of ranks in one word
# ("2 3 4"), and the scenarios to run. cli_train_hosts runs jobs on two hosts.
set -uo pipefail
program=$1 sizes=$2
shift 2
scratch=$(mktemp -d)
# Open MPI stores its session files in TMPDIR. Jobs of parallel tests would share the default
# folder.
export TMPDIR=$scratch/tmp
mkdir "$TMPDIR"
trap 'rm -rf "$scratch"' EXIT
failures=0
# shellcheck source=tests/comm/mpi.sh
. "$(dirname "${BASH_SOURCE[0]}")/mpi.sh"
mpi_find "$("$program" version)"
mpi_leaks on

fail() {
    printf 'FAILED: %s\n' "$*"
    sed 's/^/    /' "$scratch/out" "$scratch/err" | tail -n 30
    failures=$((failures + 1))
}

# ends SCENARIO RANKS SECONDS CODE [LINE]: runs the job with this time limit for operations. Checks
# that it ends with CODE (-: any code except 0). With LINE, a regular expression, checks that ampscale
# prints exactly one line, which matches it.
ends() {
    local what="'$1' on $2 ranks" said
    mpi_run 90 "$2" "$program" "$1" "$3"
    [[ $code == "$4" || ($4 == - && $code != 0 && $code != 124) ]] || fail "$what exited with $code, not $4"
    [[ -n ${5-} ]] || return
    said=$(cat "$scratch/out" "$scratch/err" | grep -cE 'ampscale:|FAILED')
    [[ $said == 1 ]] || fail "$what: ampscale printed $said lines, not 1"
    grep -qxE -- "$5" "$scratch/err" || fail "$what does not say '$5'"
}

who='ampscale: rank 1 \(host [^ ]+, pid [0-9]+\) did not'
gone='it may have died or be stuck' late="$who reach operation 6 \(barrier\) within 1 s"
lost='ampscale: rank 1 \(host [^ ]+, pid [0-9]+\) was lost (in|after) operation [0-9]+.*: its connection was closed'
[[ -z $mpi_reports ]] || lost= # the launcher reports a killed rank
for scenario; do
    for ranks in $sizes; do
        case $scenario in
        kill) ends kill "$ranks" 1 - "$lost" ;;
        stop) ends stop "$ranks" 1 1 "$late; $gone" ;;
        absent) ends absent "$ranks" 1 1 "$late; the process is alive, but busy with something else" ;;
        grouped) ends grouped "$ranks" 1 1 "${who/1/2} reach operation 3 \\(allreduce\\) within 1 s; the process is alive, .*" ;;
        fail) ends fail "$ranks" 1 5 "ampscale: rank 1: cannot read 'x'" ;;
        late)
            ends late "$ranks" 1 -
            grep -q 'cannot join the MPI job: not all ranks arrived within 1 s' "$scratch/err" || fail "'late' does not say why it ended"
            ;;
        *)
            ends "$scenario" "$ranks" 60 0
            grep -q "^$ranks ranks of" "$scratch/out" || fail "'$scenario' did not run on $ranks ranks"
            ;;
        esac
    done
done
exit $((failures > 0))
