# shellcheck shell=bash
# Runs jobs of several ranks in the background, for tests that disturb them. Sourced after common.sh and
# train.sh.
# shellcheck source=tests/cli/ranks.sh
. "$source_dir/tests/cli/ranks.sh"

own_program

# job_may_lose: skips the test if the launcher of MPI may exit with code 0 and print no message
# after the loss of a rank.
job_may_lose() {
    if [[ $("${mpi_launch[0]}" --version) == *HYDRA* ]]; then
        echo "skipped: MPICH's launcher may exit with code 0 after a rank was killed; comm_mpi_kill and cli_launch_ranks test this case"
        exit 77
    fi
}

# job_start LAUNCHER RANKS ARGS...: trains the small network on several ranks, started by mpirun or
# by ampscale launch.
job_start() {
    local start=("${mpi_launch[@]}" -n "$2" "$program")
    [[ $1 == mpirun ]] || start=("$program" launch --mpirun "${mpi_launch[0]}" --nproc "$2" --)
    shift 2
    "${start[@]}" train "${net[@]}" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null &
    job=$!
}

# job_until FILE: waits until FILE exists. If $scratch/before exists, FILE must also be newer than
# that file.
job_until() {
    await 30 test "$1" -nt "$scratch/before"
}

# job_kill SIGNAL RANK: sends the signal to the rank, and prints the rank's process ID.
job_kill() {
    local pid
    pid=$(own_ranks | sed -n "s/^$2 //p")
    kill -s "$1" "$pid" && echo "$pid"
}

# job_end SECONDS: waits at most SECONDS for the end of the job; fills `code`. Checks that no
# process of the job remains a moment later.
job_end() {
    local seconds=$1 i
    code=0
    for ((i = 0; i < seconds * 20; i++)); do
        kill -0 "$job" 2>/dev/null || break
        sleep 0.05
    done
    if kill -0 "$job" 2>/dev/null; then
        fail "the job does not end within $seconds s"
        kill -KILL "$job"
    fi
    { wait "$job"; } 2>/dev/null || code=$?
    none_left "the job"
}

# job_says LINE [OTHER]: checks that ampscale wrote exactly one line to stderr, apart from the
# launcher's first line, from the warning of too few cores and from lines that match OTHER, and that
# this line matches LINE. Both are extended regular expressions.
job_says() {
    local said
    # Open MPI 5 ends a message with a NUL. A progress bar may precede the message on the same line.
    said=$(tr -d '\0' <"$scratch/err" | sed 's/^.*\x1b\[K//' | grep '^ampscale: ' | grep -vE " the output of each is in |: steps are slower with |${2-^\$}")
    [[ $(wc -l <<<"$said") == 1 ]] || fail "stderr does not have exactly one line of ampscale: $(cat "$scratch/err")"
    grep -qxE -- "ampscale: $1" <<<"$said" || fail "no line says '$1': $(cat "$scratch/err")"
}

# job_says_lost LAUNCHER SIGNAL RANK PID WHAT: checks with job_says that ampscale reports "rank RANK
# (host ..., pid PID) WHAT" about the rank that got the signal. If mpirun reports the signal itself,
# only checks that its message names the process.
job_says_lost() {
    if [[ $1 == mpirun && $2 == KILL && -n $mpi_reports ]]; then
        grep -qaE "PID $4 " "$scratch/err" || fail "stderr does not name process $4: $(cat "$scratch/err")"
    elif [[ $1 == launch && $2 == KILL ]]; then # another rank may have seen the loss first
        job_says "rank $3 \(host [^ ]+, pid $4\) $5" "rank $3 \(host [^ ]+, pid $4\) was lost "
    else
        job_says "rank $3 \(host [^ ]+, pid $4\) $5"
    fi
}
