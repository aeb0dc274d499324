# shellcheck shell=bash
# Runs trainings in the background, for attacks that kill and measure them. Source this file after
# cli/common.sh.
# shellcheck source=tests/comm/mpi.sh
. "$source_dir/tests/comm/mpi.sh"

# The path of this copy identifies the processes of the test. There is no module beside it, so the
# path of Gloo's module is given.
cp "$program" "$scratch/ampscale"
program=$scratch/ampscale
[[ ! -e $build_dir/cli/ampscale_gloo.so ]] || export AMPSCALE_GLOO_MODULE=$build_dir/cli/ampscale_gloo.so
unset RANK WORLD_SIZE LOCAL_RANK SLURM_PROCID AMPSCALE_SECRET AMPSCALE_JOB

# has_mpi: finds the launcher of MPI; false, and a message, if there is none.
has_mpi() {
    local version found
    version=$("$build_dir/tests/comm/mpi_ranks" version)
    found=$(mpi_find "$version") || { echo "$found" && return 1; }
    mpi_find "$version"
}

# processes [WORD]: prints the process IDs of the program, in ascending order. With WORD, prints only
# processes whose first argument is WORD.
processes() {
    local exe pid
    find /proc/[0-9]*/exe -maxdepth 0 -lname "$program" 2>/dev/null | sort -V | while read -r exe; do
        pid=${exe:6:-4}
        [[ -n ${1-} && $(tr '\0' '\n' <"/proc/$pid/cmdline" | sed -n 2p) != "$1" ]] || echo "$pid"
    done 2>/dev/null
}

# job_start HOW RANKS ARGS...: starts the training. HOW is alone (one process), mpi, launch or tcp (a
# rendezvous). Sets `jobs` to the processes that it started; the files out and err have their output.
job_start() {
    local how=$1 ranks=$2 start=() port=$((20000 + RANDOM % 12000)) rank
    shift 2
    jobs=()
    rm -f out err
    case $how in
    mpi) start=("${mpi_launch[@]}" -n "$ranks" "$program") ;;
    launch) start=("$program" launch --mpirun "${mpi_launch[0]}" --nproc "$ranks" --start-timeout 900 --log-dir logs --) ;;
    *) start=("$program") ;;
    esac
    [[ $how != tcp ]] || set -- "$@" --rendezvous "127.0.0.1:$port"
    for ((rank = 0; rank == 0 || (rank < ranks && ${#start[@]} == 1); rank++)); do
        local place=()
        [[ $how != tcp ]] || place=(RANK="$rank" WORLD_SIZE="$ranks")
        env "${place[@]}" "${start[@]}" train "$@" >>out 2>>err </dev/null &
        jobs+=($!)
    done
}
