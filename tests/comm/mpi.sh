# shellcheck shell=bash disable=SC2034,SC2154
# Launching MPI jobs, for tests in a shell. Sourced.

mpi_supp=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../lsan.supp")

# mpi_leaks on|off: sets whether programs that are built with the address sanitizer search for leaks
# from here on. For this search, a program stores the whole stack of each allocation, to distinguish
# ampscale's leaks from those of MPI libraries. In most tests that takes longer than the work of a
# rank. So a test turns the search on only where ranks execute code that no other test covers with
# it.
mpi_leaks() {
    export LSAN_OPTIONS=detect_leaks=0
    [[ $1 == off ]] || LSAN_OPTIONS=suppressions=$mpi_supp:print_suppressions=0:fast_unwind_on_malloc=0
}
mpi_leaks off

# mpi_find NAME: fills `mpi_launch` with the launcher that belongs to NAME ("Open MPI 4.1.4", "MPICH
# 4.0.2": the text of comm_mpi_version), and with the flags that let it start more ranks than there
# are cores. Ends the test as skipped if there is no such launcher. Launchers of two MPIs may be
# installed side by side. `mpi_reports` is not empty if the launcher, and not a rank, reports a
# killed rank: it kills the other ranks before they can report (MPICH's at once, Open MPI 5's a
# quarter of a second after SIGTERM; Open MPI 4's gives them a second).
mpi_find() {
    local name=$1 launcher kind
    mpi_reports=
    [[ $name == "Open MPI 4"* ]] || mpi_reports=1
    for launcher in mpirun mpiexec mpirun.openmpi mpiexec.hydra mpiexec.mpich; do
        kind=$("$launcher" --version 2>/dev/null | sed -n 1,2p) || continue
        case $name:$kind in
        "Open MPI"*:*"Open MPI"*)
            mpi_launch=("$launcher" --oversubscribe)
            # Open MPI refuses to run as root without these two variables. As variables they also
            # reach other hosts.
            export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
            return
            ;;
        MPICH*:HYDRA*) mpi_launch=("$launcher") && return ;;
        esac
    done
    if [[ $name == none ]]; then
        echo "skipped: built without MPI"
    else
        echo "skipped: no launcher of $name was found (mpirun, mpiexec)"
    fi
    exit 77
}

# mpi_run SECONDS RANKS PROGRAM ARGS...: runs the job; fills `code`, $scratch/out and $scratch/err.
# A job that still runs after SECONDS is killed, and `code` is 124.
mpi_run() {
    local seconds=$1 ranks=$2
    shift 2
    code=0
    timeout -k 5 "$seconds" "${mpi_launch[@]}" -n "$ranks" "$@" \
        >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
}
