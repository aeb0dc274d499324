#!/usr/bin/env bash
# Tests MPI jobs whose ranks run on two hosts. Argument: the program mpi_ranks.
set -uo pipefail
program=$1
scratch=$(mktemp -d)
# Open MPI stores its session files in TMPDIR. Jobs of parallel tests would share the default
# folder.
export TMPDIR=$scratch/tmp
mkdir "$TMPDIR"
trap 'rm -rf "$scratch"' EXIT
failures=0
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/comm/mpi.sh
. "$here/mpi.sh"
# shellcheck source=tests/sanitized.sh
. "$here/../sanitized.sh"
# shellcheck source=tests/comm/netns.sh
. "$here/netns.sh"
mpi_find "$("$program" version)"
netns_open
trap 'netns_close; rm -rf "$scratch"' EXIT

fail() {
    printf 'FAILED: %s\n' "$*"
    sed 's/^/    /' "$scratch/out" "$scratch/err" | tail -n 40
    failures=$((failures + 1))
}

# says LINE: checks that ampscale printed exactly one line, and that the line matches the regular
# expression LINE.
says() {
    local said
    said=$(cat "$scratch/out" "$scratch/err" | grep -cE 'ampscale:|FAILED')
    [[ $said == 1 ]] || fail "ampscale printed $said lines, not 1"
    grep -qxE -- "$1" "$scratch/err" || fail "no line is '$1'"
}

mpi_run 20 2 hostname
[[ $(sort "$scratch/out" | xargs) == "host-a host-b" ]] || fail "the ranks are not on two hosts"

# values SCENARIO RANKS: checks that the job ends with 0.
values() {
    mpi_run 90 "$2" "$program" "$1" 60
    ((code == 0)) || fail "'$1' on $2 ranks exited with $code"
    grep -q "^$2 ranks of" "$scratch/out" || fail "'$1' did not run on $2 ranks"
}
values kinds 2
values under-way 4

who='ampscale: rank 1 \(host host-b, pid [0-9]+\) did not reach operation 6 \(barrier\) within 2 s'
mpi_run 30 2 "$program" stop 2
((code == 1)) || fail "'stop' exited with $code, not 1"
says "$who; it may have died or be stuck"

# Skipped under sanitizers: this scenario executes the same code as on one host.
if ! sanitized; then
    mpi_run 30 2 "$program" absent 2
    ((code == 1)) || fail "'absent' exited with $code, not 1"
    says "$who; the process is alive, but busy with something else"
fi

mpi_run 30 2 "$program" fail 2
((code == 5)) || fail "'fail' exited with $code, not 5"
says "ampscale: rank 1: cannot read 'x'"

# When a TCP connection is lost, a call of Open MPI 4 may hang. Rank 0 then reports only that the
# network may be lost.
mpi_run 30 2 "$program" kill 2
((code != 0 && code != 124)) || fail "'kill' exited with $code"
says 'ampscale: rank 1 \(host host-b, pid [0-9]+\) (did not (reach|answer after) operation [56].*|or the network may be lost: on rank 0 the MPI library has not returned from a call since operation 6 \(barrier\))'

# Cuts the network after a job has sent a megabyte. The start of a job sends less, so the ranks are
# then executing operations. Both ranks must detect the failure and end. One of them must report it.
netns_lose mpi_ranks netns_has_received $(($(netns_received) + 1000000)) >"$scratch/ranks" &
mpi_run 60 2 "$program" endless 2
wait $!
((code != 0 && code != 124)) || fail "after the network was cut, the job exited with $code"
[[ $(xargs <"$scratch/ranks") == "2 0" ]] || fail "numbers of ranks before and after the network was cut: $(xargs <"$scratch/ranks")"
grep -qE 'ampscale: rank 1 \(host host-b, pid [0-9]+\) (did not reach operation|or the network may be lost)' "$scratch/err" ||
    fail "no message says that the network has failed"
exit $((failures > 0))
