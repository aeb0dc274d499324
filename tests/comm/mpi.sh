# shellcheck shell=bash disable=SC2034,SC2154
# Functions that launch MPI jobs, for tests in bash. Source this file.

mpi_supp=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../lsan.supp")

# mpi_leaks on|off: turns the search for leaks on or off, in programs built with the address sanitizer.
# To distinguish ampscale's leaks from those of MPI libraries, it stores the whole stack of each
# allocation, which often takes longer than the work of a rank. A test therefore turns it on only if
# its ranks execute code that no other test searches for leaks.
mpi_leaks() {
    export LSAN_OPTIONS=detect_leaks=0
    [[ $1 == off ]] || LSAN_OPTIONS=suppressions=$mpi_supp:print_suppressions=0:fast_unwind_on_malloc=0
}
mpi_leaks off

# mpi_find NAME: finds the launcher of the MPI library NAME ("Open MPI 4.1.4", "MPICH 4.0.2": the
# text of comm_mpi_version), beside those of others. Sets `mpi_launch` to the launcher and the flags
# with which it starts more ranks than there are cores. If there is none, the test ends as skipped,
# unless a check has failed. An empty NAME, of a program that did not run, is a failure. Sets
# `mpi_reports` if only the launcher reports a killed rank, because it ends the other ranks before
# they can: MPICH's at once, that of Open MPI 5 a quarter of a second after SIGTERM. The launcher of
# Open MPI 4 waits for a second.
mpi_find() {
    local name=$1 launcher kind
    mpi_reports=
    [[ $name == "Open MPI 4"* ]] || mpi_reports=1
    for launcher in mpirun mpiexec mpirun.openmpi mpiexec.hydra mpiexec.mpich; do
        kind=$("$launcher" --version 2>/dev/null | sed -n 1,2p) || continue
        case $name:$kind in
        "Open MPI"*:*"Open MPI"*)
            mpi_launch=("$launcher" --oversubscribe)
            # Open MPI refuses to run as root without these two variables. A flag would have no
            # effect on other hosts; the variables also reach them.
            export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
            return
            ;;
        MPICH*:HYDRA*) mpi_launch=("$launcher") && return ;;
        esac
    done
    if [[ -z $name ]]; then
        echo "FAILED: the build does not say with which MPI" && exit 1
    elif [[ $name == none ]]; then
        echo "skipped: built without MPI"
    else
        echo "skipped: no launcher of $name was found (mpirun, mpiexec)"
    fi
    exit $((${failures-0} > 0 ? 1 : 77))
}

# mpi_run SECONDS RANKS PROGRAM ARGS...: runs the job. Sets `code`, and writes $scratch/out and
# $scratch/err. If the job still runs after SECONDS, mpi_run kills it, and `code` is 124.
mpi_run() {
    local seconds=$1 ranks=$2
    shift 2
    code=0
    timeout -k 5 "$seconds" "${mpi_launch[@]}" -n "$ranks" "$@" \
        >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
}
