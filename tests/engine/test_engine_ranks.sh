#!/usr/bin/env bash
# Runs engine_ranks as MPI jobs of two and three ranks. Arguments: the program engine_ranks, a
# program that prints the MPI library's name (mpi_ranks of tests/comm), and the scenario.
set -uo pipefail
program=$1
scenario=$3
scratch=$(mktemp -d)
# Open MPI stores its session files in TMPDIR. Jobs of parallel tests would share the default
# folder.
export TMPDIR=$scratch/tmp
mkdir "$TMPDIR"
trap 'rm -rf "$scratch"' EXIT
# shellcheck source=tests/comm/mpi.sh
. "$(dirname "${BASH_SOURCE[0]}")/../comm/mpi.sh"
mpi_find "$("$2" version)"
mpi_leaks on
failures=0
for ranks in 2 3; do
    mpi_run 60 "$ranks" "$program" "$scenario"
    cat "$scratch/out" "$scratch/err"
    ((code == 0)) || { echo "FAILED: '$scenario' on $ranks ranks exited with $code" && failures=1; }
done
exit "$failures"
