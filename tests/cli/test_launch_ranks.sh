#!/usr/bin/env bash
# ampscale launch with real ranks, under every installed MPI: logs, exit codes and signals. After
# each test, no process may remain.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"
cd "$scratch" || exit 1
unset "${!OMPI_MCA_@}" "${!UCX_@}" "${!FI_@}"

command -v pgrep >/dev/null || skip "pgrep is not installed"
starters=()
for name in mpirun mpirun.openmpi mpiexec.hydra; do
    path=$(realpath "$(command -v "$name")" 2>/dev/null) || continue
    [[ " ${starters[*]} " == *" $path "* ]] || starters+=("$path")
done
((${#starters[@]} > 0)) || skip "neither Open MPI's nor MPICH's mpirun is installed"

own_program

# start NAME N ARGS...: launches N ranks in the background, with logs in NAME; fills `pid`. If N is
# 0, ARGS give the hosts with --hosts.
start() {
    local name=$1 nproc=(--nproc "$2")
    (($2 > 0)) || nproc=()
    shift 2
    "$program" launch --mpirun "$mpirun" "${nproc[@]}" --log-dir "$name" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null &
    pid=$!
}

# ended WANT NAME [LINE]: waits for the launcher; checks its exit code, that no process of the job
# remains, and that stderr has exactly one line after its first line, which matches LINE, an extended
# regular expression.
ended() {
    code=0
    { wait "$pid"; } 2>/dev/null || code=$?
    [[ $1 == "$code" ]] || fail "$mpirun, $2: the exit code is $code, not $1: $(<err)"
    none_left "$mpirun, $2"
    await 10 no_mpirun "$2"
    (($# == 2)) || { (($(tail -n +2 err | wc -l) == 1)) && grep -qE -- "$3" < <(tail -n 1 err); } ||
        fail "$mpirun, $2: no single line says '$3': $(<err)"
}
no_mpirun() { ! pgrep -f -- "$scratch/$1" >/dev/null; }

# supervisor NAME RANK: prints the process id of the rank's supervisor.
supervisor() {
    local p
    for p in $(pgrep -f -- "--as-rank --log-dir $scratch/$1"); do
        [[ $(<"/proc/$p/comm") == ampscale && $(pgrep -P "$p" -c) == 1 ]] || continue
        ! grep -qzE "^(OMPI_COMM_WORLD|PMI)_RANK=$2\$" "/proc/$p/environ" || echo "$p"
    done 2>/dev/null
}

# listeners PID: prints the addresses and ports at which a process listens, from /proc/net.
listeners() {
    local inodes
    inodes=$(find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' | tr -dc '0-9\n' | paste -sd '|')
    [[ -z $inodes ]] || awk -v inodes="^($inodes)\$" '$4 == "0A" && $10 ~ inodes { print $2 }' \
        "/proc/$1/net/tcp" "/proc/$1/net/tcp6" 2>/dev/null
}

# tree PID: prints the process ids of the process and of all its descendants.
tree() {
    local p
    echo "$1"
    for p in $(pgrep -P "$1"); do
        tree "$p"
    done
}

# A command for two ranks that would run for a long time. The tests end it themselves.
endless=(bench step --net resnet34 --image-size 64 -b 64 --rounds 64)

# begin NAME ARGS...: starts two ranks of the command, and waits until both run.
begin() {
    start "$1" 2 "${@:2}" -- "${endless[@]}"
    await 20 ranks_run "$1"
}
ranks_run() { [[ -n $(supervisor "$1" 0) && -n $(supervisor "$1" 1) ]]; }

# stopped SIGNAL: sends the signal to the launcher again, unless it has ended.
stopped() { ! kill -0 "$pid" 2>/dev/null || { kill -s "$1" "$pid" && false; }; }

# rank_of NAME RANK: prints the process id of the rank.
rank_of() { pgrep -P "$(supervisor "$1" "$2")"; }

small=(--dummy --dummy-train 16 --dummy-val 4 --classes 5 -a resnet8 --image-size 16 -b 4 --devices ref -p 1
    --mode ddp --epochs 100000)
for mpirun in "${starters[@]}"; do
    find . -mindepth 1 -not -name 'ampscale*' -not -path "./tmp*" -delete

    # launch prints what rank 0 would print if it ran alone. The log of each rank has a heading, and
    # the output of the rank.
    run info --list
    cp out alone
    start logs 3 --bind cores -- info --list
    ended 0 logs
    cmp alone out || fail "$mpirun: rank 0's output"
    for rank in 0 1 2; do
        cmp alone <(grep -v '^#' "logs/rank-$rank.log") || fail "$mpirun: the log of rank $rank is wrong"
        grep -q "^# rank $rank on $(uname -n): ampscale info --list$" "logs/rank-$rank.log" ||
            fail "$mpirun: the heading in the log of rank $rank is wrong: $(head -n 1 "logs/rank-$rank.log")"
    done

    # mpirun starts ranks on two hosts, whose names differ only in their domains. A script replaces
    # ssh: it runs the commands on this machine, with an empty environment and another folder for
    # temporary files on each host. Variables that change numbers reach all ranks unchanged.
    cat >no-ssh <<'END'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
echo "$1" >>"${0%/*}/called"
shift
[ ! -e "${0%/*}/down" ] || { echo "ssh: Could not resolve hostname" >&2; exit 255; }
exec env -i PATH="$PATH" TMPDIR="$(mktemp -d)" sh -c "$*"
END
    chmod +x no-ssh
    remote=(--mpi-arg --mca --mpi-arg plm_rsh_agent --mpi-arg "$PWD/no-ssh")
    [[ $("$mpirun" --version) != *HYDRA* ]] ||
        remote=(--mpi-arg -launcher --mpi-arg ssh --mpi-arg -launcher-exec --mpi-arg "$PWD/no-ssh")
    value=$'a b,"c" \'d\'=e'
    export GOMP_SPINCOUNT=77 NVIDIA_TF32_OVERRIDE=0 NCCL_TEST=$value
    start hosts 0 "${remote[@]}" --hosts a.x.example:2,b.y.example -- info --json
    ended 0 hosts
    unset GOMP_SPINCOUNT NVIDIA_TF32_OVERRIDE NCCL_TEST
    [[ $(sort called | xargs) == "a.x.example b.y.example" ]] || fail "$mpirun: ssh was called for the hosts $(xargs <called)"
    for text in '"GOMP_SPINCOUNT":"77"' '"NVIDIA_TF32_OVERRIDE":"0"' "\"NCCL_TEST\":\"${value//\"/\\\"}\""; do
        grep -qF -- "$text" hosts/rank-2.log || fail "$mpirun: rank 2 on another host lacks $text"
    done
    # Ranks of mpirun connect by Gloo at the first host, at a free port.
    if [[ -e ampscale_gloo.so ]]; then
        start gloo 0 "${remote[@]}" --hosts 127.0.0.2,127.0.0.3 --comm gloo -- train "${small[@]}" --epochs 1 --out gloo-run
        ended 0 gloo
        grep -q "^ddp: 2 ranks" out || fail "$mpirun: two ranks by Gloo: $(<out)"
    fi
    # The reason of mpirun's ssh is shown, and the log is named. Hydra waits for a host that it cannot reach.
    if [[ $("$mpirun" --version) != *HYDRA* ]]; then
        touch down
        start unreached 0 "${remote[@]}" --hosts a.x.example,b.y.example -- info --list
        ended 1 unreached
        rm down
        grep -q "^mpirun: ssh: Could not resolve hostname" err && grep -q "its output is in '$PWD/unreached/mpirun.log'" err ||
            fail "$mpirun: ssh's reason is not shown: $(<err)"
    fi
    # If all ranks fail in the same way, one line reports it.
    start bad 2 --threads 2 -- data scan "$scratch/nowhere"
    ended 5 bad "there is no folder '$scratch/nowhere'"

    # On one machine, no rank of Open MPI listens at an address that other machines can reach.
    if [[ $("$mpirun" --version) == *"Open MPI"* ]]; then
        start local 2 -- train "${small[@]}" --out local-run
        await 30 test -s local-run/steps.jsonl && ranks_run local || fail "$mpirun: the two ranks do not run: $(<err)"
        open=$(listeners "$(rank_of local 0)" && listeners "$(rank_of local 1)")
        [[ -z $open ]] || fail "$mpirun: a rank listens at $open, which other machines can reach"
        # The folder of the ranks' shared memory stays while they run, even if another job begins.
        # After all processes of the job were killed, the next job removes it.
        shm=$(tr '\0' '\n' <"/proc/$(pgrep -P "$pid")/environ" | sed -n 's/^OMPI_MCA_btl_vader_backing_directory=//p')
        [[ $shm == /dev/shm/ampscale-mpi.* && -n $(ls -A "$shm") ]] || fail "$mpirun: the folder '$shm' in /dev/shm is empty"
        "$program" launch --mpirun "$mpirun" --nproc 1 --log-dir beside -- info --list >/dev/null 2>&1 </dev/null
        [[ -n $(ls -A "$shm") ]] || fail "$mpirun: another job has removed '$shm'"
        # shellcheck disable=SC2046
        kill -KILL $(tree "$pid")
        ended 137 local
        [[ -n $(ls -A "$shm") ]] || fail "$mpirun: the folder of a killed job is gone, so its removal was not tested"
        start swept 1 -- info --list
        ended 0 swept
        [[ ! -e $shm ]] || fail "$mpirun: '$shm' of a killed job was not removed"
    fi

    # Ranks that connect without MPI get a secret, because the address 0.0.0.0 requires one. The
    # secret appears in no log, record or argument.
    unset AMPSCALE_SECRET AMPSCALE_JOB
    start secret 2 -- train "${small[@]}" --out secret-run --rendezvous "0.0.0.0:$((20000 + RANDOM % 12000))"
    await 30 test -s secret-run/steps.jsonl
    secret=$(tr '\0' '\n' <"/proc/$(rank_of secret 1)/environ" | sed -n 's/^AMPSCALE_SECRET=//p')
    [[ $secret =~ ^[0-9a-f]{64}$ ]] || fail "$mpirun: the ranks have the secret '$secret'"
    ! grep -qF -- "$secret" /proc/[0-9]*/cmdline 2>/dev/null || fail "$mpirun: the secret is an argument"
    kill -TERM "$pid"
    ended 143 secret
    ! grep -rqF -- "$secret" secret-run secret out err || fail "$mpirun: the secret is in a record or a log"

    # With few file descriptors, mpirun may fail to start some ranks and then wait for them
    # indefinitely. launch must still end, and report a failure in one line.
    code=0
    (ulimit -n 32 && run launch --mpirun "$mpirun" --nproc 2 --start-timeout 5 --log-dir few -- info --list && exit $code) || code=$?
    ((code == 0)) || { ((code == 1)) && grep -qE "did not start within 5 s|mpirun failed|cannot" < <(tail -n 1 err); } ||
        fail "$mpirun: with 32 file descriptors the exit code is $code: $(<err)"

    # Each of these processes is killed in turn: a rank, a supervisor, mpirun, and the launcher. The
    # launcher also gets a SIGHUP. No process of the job remains.
    begin rank
    kill -KILL "$(rank_of rank 1)"
    ended 137 rank "^ampscale: rank 1 \(host $(uname -n), pid [0-9]+\) was killed by signal 9 \(SIGKILL\)$"
    begin supervisor
    kill -KILL "$(supervisor supervisor 1)"
    ended 1 supervisor
    begin starter
    kill -KILL "$(pgrep -P "$pid")"
    ended 1 starter "mpirun was killed by signal 9"
    begin launcher
    kill -KILL "$pid"
    ended 137 launcher
    begin stopped
    kill -HUP "$pid"
    ended 129 stopped "SIGHUP: asking the ranks to stop"

    # Ranks that do not stop are killed after --grace seconds, or at once after a second signal.
    for grace in 0 3600; do
        begin "grace-$grace" --grace "$grace"
        kill -STOP "$(rank_of "grace-$grace" 0)" "$(rank_of "grace-$grace" 1)"
        kill -USR1 "$pid"
        ((grace == 0)) || { await 20 grep -q 'asking the ranks to stop' err && await 20 stopped INT; }
        ended $((grace == 0 ? 138 : 130)) "grace-$grace"
    done
done
finish
