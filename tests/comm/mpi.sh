# shellcheck shell=bash disable=SC2034,SC2154
# Launching MPI jobs, for tests in a shell. Sourced.

mpi_supp=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../lsan.supp")

# mpi_leaks on|off: whether programs built with the address sanitizer look for leaks from here on. To
# distinguish ours from those of MPI libraries they keep the whole stack of each allocation, which takes a rank
# longer than what it does in most tests. So it is on where ranks execute code that no other test covers with it.
mpi_leaks() {
    export LSAN_OPTIONS=detect_leaks=0
    [[ $1 == off ]] || LSAN_OPTIONS=suppressions=$mpi_supp:print_suppressions=0:fast_unwind_on_malloc=0
}
mpi_leaks off

# mpi_find NAME: fills `mpi_launch` with the launcher that belongs to NAME ("Open MPI 4.1.4", "MPICH
# 4.0.2": what comm_mpi_version says), and what makes it start more ranks than there are cores. Ends
# the test as skipped where there is none. Launchers of two MPIs may be installed side by side.
# `mpi_reports` is not empty where the launcher reports a killed rank: it kills the
# others before they can (MPICH's at once, Open MPI 5's a quarter of a second after SIGTERM; Open MPI
# 4's gives them a second).
mpi_find() {
    local name=$1 launcher kind
    mpi_reports=
    [[ $name == "Open MPI 4"* ]] || mpi_reports=1
    for launcher in mpirun mpiexec mpirun.openmpi mpiexec.hydra mpiexec.mpich; do
        kind=$("$launcher" --version 2>/dev/null | sed -n 1,2p) || continue
        case $name:$kind in
        "Open MPI"*:*"Open MPI"*)
            mpi_launch=("$launcher" --oversubscribe)
            # Root has to say that it means it; what is in the environment reaches other hosts too.
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

# mpi_run SECONDS RANKS PROGRAM ARGS...: runs the job; fills `code`, and $scratch/out and
# $scratch/err. One that is still there after SECONDS is killed, and `code` is 124.
mpi_run() {
    local seconds=$1 ranks=$2
    shift 2
    code=0
    timeout -k 5 "$seconds" "${mpi_launch[@]}" -n "$ranks" "$@" \
        >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
}
