# shellcheck shell=bash
# Functions for tests of training on several ranks. Sourced after common.sh and train.sh; ends the
# test as skipped if no launcher of MPI is found.

# shellcheck source=tests/comm/mpi.sh
. "$source_dir/tests/comm/mpi.sh"
mpi_find "$("$build_dir/tests/comm/mpi_ranks" version)"

# train_ranks RANKS ARGS...: trains the small network on several ranks; fills `code`, and
# $scratch/out and $scratch/err.
train_ranks() {
    local ranks=$1
    shift
    mpi_run 100 "$ranks" "$program" train "${net[@]}" "$@"
}

# expect_ranks CODE RANKS ARGS...: calls train_ranks, and checks the exit code.
expect_ranks() {
    local want=$1
    shift
    train_ranks "$@"
    ((code == want)) ||
        fail "'train ${*:2}' on $1 ranks exited with $code, not $want: $(head -c 300 "$scratch/err")"
}
