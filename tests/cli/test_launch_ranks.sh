#!/usr/bin/env bash
# ampscale launch with real ranks, under every installed MPI: logs, exit codes and signals. After
# each test, no process may remain.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"
cd "$scratch" || exit 1
unset "${!OMPI_MCA_@}" "${!UCX_@}" "${!FI_@}"

command -v pgrep >/dev/null || { echo "pgrep is not installed" && exit 77; }
starters=()
for name in mpirun mpirun.openmpi mpiexec.hydra; do
    path=$(realpath "$(command -v "$name")" 2>/dev/null) || continue
    [[ " ${starters[*]} " == *" $path "* ]] || starters+=("$path")
done
((${#starters[@]} > 0)) || { echo "neither Open MPI's nor MPICH's mpirun is installed" && exit 77; }

# Copies the program to the scratch folder. The path then identifies the processes of this test.
cp "$program" ampscale
program=$scratch/ampscale
library=$build_dir/cli/ampscale_loopback.so
[[ ! -e $library ]] || cp "$library" .

# A command for two ranks that would run for a long time. The tests end it themselves.
endless=(bench step --net resnet34 --image-size 64 -b 64 --rounds 64)

# start NAME N ARGS...: launches N ranks in the background, with logs in NAME; fills `pid`. If N is
# 0, ARGS give the hosts with --hosts.
start() {
    local name=$1 nproc=()
    (($2 == 0)) || nproc=(--nproc "$2")
    shift 2
    "$program" launch --mpirun "$mpirun" "${nproc[@]}" --log-dir "$name" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null &
    pid=$!
}

# ended WANT NAME: waits for the launcher; checks its exit code, and that no process of the job
# remains.
ended() {
    local left
    code=0
    { wait "$pid"; } 2>/dev/null || code=$?
    [[ $1 == "$code" ]] || fail "$mpirun, $2: the exit code is $code, not $1: $(<"$scratch/err")"
    for ((i = 0; i < 100; i++)); do
        left=$(find /proc/[0-9]*/exe -maxdepth 0 -lname "$program" 2>/dev/null; pgrep -f -- "$scratch/$2")
        [[ -n $left ]] || return 0
        sleep 0.1
    done
    fail "$mpirun, $2: processes still run: ${left//$'\n'/ }"
}

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

# reachable PID: prints the addresses at which the processes of a launch listen, without loopback
# addresses.
reachable() {
    local p
    for p in $(tree "$1"); do
        listeners "$p" | grep -vE '^(0100007F|0{24}01000000):' | sed "s|\$| of $(cat "/proc/$p/comm")|"
    done
}

# await NAME: waits until the commands of rank 0 and rank 1 run.
await() {
    for ((i = 0; i < 200; i++)); do
        [[ -z $(supervisor "$1" 0) || -z $(supervisor "$1" 1) ]] || return 0
        sleep 0.1
    done
    fail "$mpirun, $1: the ranks do not start: $(cat "$scratch/err" "$1"/*)"
}

# err_says TEXT: checks that stderr has exactly one line after its first line, and that this line
# matches TEXT, an extended regular expression.
err_says() {
    [[ $(tail -n +2 "$scratch/err" | wc -l) == 1 ]] || fail "$mpirun: $(<"$scratch/err")"
    grep -qE -- "$1" < <(tail -n 1 "$scratch/err") || fail "$mpirun: '$(<"$scratch/err")' does not say '$1'"
}

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
    [[ $(wc -l <err) == 1 ]] || fail "$mpirun: $(<err)"

    # mpirun starts ranks on two hosts. A script replaces ssh: it runs the commands on this machine,
    # with another folder for temporary files on each host.
    printf '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nshift\nTMPDIR=$(mktemp -d) exec sh -c "$*"\n' >no-ssh
    chmod +x no-ssh
    remote=(--mpi-arg --mca --mpi-arg plm_rsh_agent --mpi-arg "$PWD/no-ssh")
    [[ $("$mpirun" --version) != *HYDRA* ]] ||
        remote=(--mpi-arg -launcher --mpi-arg ssh --mpi-arg -launcher-exec --mpi-arg "$PWD/no-ssh")
    start hosts 0 "${remote[@]}" --hosts 127.0.0.2:2,127.0.0.3 -- info --list
    ended 0 hosts
    for rank in 0 1 2; do
        cmp alone <(grep -v '^#' "hosts/rank-$rank.log") || fail "$mpirun: the log of rank $rank is wrong on two hosts"
    done
    start far 0 "${remote[@]}" --hosts 127.0.0.2,127.0.0.3 -- "${endless[@]}"
    await far
    kill -KILL "$(pgrep -P "$pid")"
    ended 1 far

    # A rank fails: its exit code and reason are reported. If all ranks fail in the same way, one
    # line reports it.
    start bad 2 --threads 2 -- data scan "$scratch/nowhere"
    ended 5 bad
    err_says "there is no folder '$scratch/nowhere'"
    start usage 2 --threads 3 -- bench step --nonesuch
    ended 2 usage
    err_says "unknown flag '--nonesuch'"
    grep -q "^# rank 1 .*: ampscale bench --threads 3 step --nonesuch" usage/rank-1.log || fail "$mpirun: $(<usage/rank-1.log)"

    # On one machine, no rank listens at an address that other machines can reach. Ranks that
    # connect without MPI get a secret, because the address 0.0.0.0 requires one. The secret appears
    # in no log, record or argument.
    small=(--dummy --dummy-train 16 --dummy-val 4 --classes 5 -a resnet8 --image-size 16 -b 4 --devices ref -p 1)
    if [[ $("$mpirun" --version) == *"Open MPI"* ]]; then
        start local 2 -- train "${small[@]}" --mode ddp --epochs 100000 --out "local-run"
        for ((i = 0; i < 300; i++)); do
            [[ ! -s local-run/steps.jsonl ]] || break
            sleep 0.1
        done
        [[ -s local-run/steps.jsonl ]] || fail "$mpirun: the run recorded no step: $(<err)"
        for rank in 0 1; do
            p=$(pgrep -P "$(supervisor local "$rank")")
            open=$(listeners "$p")
            [[ -z $open ]] || fail "$mpirun: rank $rank listens at $open, which other machines can reach"
        done
        # The folder of the ranks' shared memory stays while they run, even if another job begins.
        # After all processes of the job were killed, the next job removes it.
        shm=$(tr '\0' '\n' <"/proc/$(pgrep -P "$pid")/environ" | sed -n 's/^OMPI_MCA_btl_vader_backing_directory=//p')
        [[ $shm == /dev/shm/ampscale-mpi-* && -n $(ls -A "$shm") ]] || fail "$mpirun: the folder '$shm' in /dev/shm is empty"
        "$program" launch --mpirun "$mpirun" --nproc 1 --log-dir beside -- info --list >/dev/null 2>&1 </dev/null
        [[ -n $(ls -A "$shm") ]] || fail "$mpirun: another job has removed '$shm'"
        # shellcheck disable=SC2046
        kill -KILL $(tree "$pid")
        ended 137 local
        [[ -n $(ls -A "$shm") ]] || fail "$mpirun: the folder of a killed job is empty or missing, so its removal was not tested"
        start swept 1 -- info --list
        ended 0 swept
        [[ ! -e $shm ]] || fail "$mpirun: '$shm' of a killed job was not removed"
    fi
    port=$((20000 + RANDOM % 12000))
    unset AMPSCALE_SECRET AMPSCALE_JOB
    start secret 2 -- train "${small[@]}" --mode ddp --epochs 100000 --out secret-run --rendezvous "0.0.0.0:$port"
    for ((i = 0; i < 300; i++)); do
        [[ ! -s secret-run/steps.jsonl ]] || break
        sleep 0.1
    done
    [[ -s secret-run/steps.jsonl ]] || fail "$mpirun, a rendezvous: $(<err)"
    p=$(pgrep -P "$(supervisor secret 1)")
    secret=$(tr '\0' '\n' <"/proc/$p/environ" | sed -n 's/^AMPSCALE_SECRET=//p')
    [[ $secret =~ ^[0-9a-f]{64}$ ]] || fail "$mpirun: the ranks have the secret '$secret'"
    ! grep -qF -- "$secret" /proc/[0-9]*/cmdline 2>/dev/null || fail "$mpirun: the secret is an argument"
    kill -TERM "$pid"
    ended 143 secret
    ! grep -rqF -- "$secret" secret-run secret out err || fail "$mpirun: the secret is in a record or a log"

    # With few file descriptors, mpirun may fail to start some ranks and then wait for them
    # indefinitely. launch must still end, and report a failure in one line.
    (
        ulimit -n 32
        timeout 120 "$program" launch --mpirun "$mpirun" --nproc 2 --start-timeout 5 --log-dir few -- info --list >out 2>err </dev/null
    )
    code=$?
    ((code == 0)) || { ((code == 1)) && err_says "did not start within 5 s|mpirun failed|cannot"; } ||
        fail "$mpirun: with 32 file descriptors the exit code is $code: $(<err)"

    # Each of these processes is killed in turn: a rank, a supervisor, mpirun, and the launcher. The
    # launcher also gets a SIGHUP. No process of the job remains.
    start rank 2 -- "${endless[@]}"
    await rank
    if [[ -e $library ]]; then
        open=$(reachable "$pid")
        [[ -z $open ]] || fail "$mpirun: other machines can reach these addresses: $open"
        [[ -n $(for p in $(tree "$pid"); do listeners "$p"; done) ]] || fail "$mpirun: no process listens, so its address was not tested"
        p=$(pgrep -P "$(supervisor rank 0)")
        ! grep -qz ampscale_loopback "/proc/$p/environ" || fail "$mpirun: a rank is started with mpirun's library"
    fi
    kill -KILL "$(pgrep -P "$(supervisor rank 1)")"
    ended 137 rank
    err_says "^ampscale: rank 1 \(host $(uname -n), pid [0-9]+\) was killed by signal 9 \(SIGKILL\)$"
    start supervisor 2 -- "${endless[@]}"
    await supervisor
    kill -KILL "$(supervisor supervisor 1)"
    ended 1 supervisor
    start starter 2 -- "${endless[@]}"
    await starter
    kill -KILL "$(pgrep -P "$pid")"
    ended 1 starter
    err_says "mpirun was killed by signal 9"
    start launcher 2 -- "${endless[@]}"
    await launcher
    kill -KILL "$pid"
    ended 137 launcher
    start stopped 2 -- "${endless[@]}"
    await stopped
    kill -HUP "$pid"
    ended 129 stopped
    err_says "SIGHUP: asking the ranks to stop"

    # A signal to the launcher stops the run in an orderly way. The run can then resume from its
    # checkpoint.
    start orderly 1 -- train "${net[@]}" --dummy --dummy-train 800000 --dummy-val 8 --classes 3 --out "$scratch/orderly-run"
    for ((i = 0; i < 200; i++)); do
        ! grep -qs '^Epoch' out || break
        sleep 0.1
    done
    kill -TERM "$pid"
    ended 143 orderly
    grep -q "^ampscale: stopped by SIGTERM at epoch 0" err || fail "$mpirun: $(<err)"
    [[ -s orderly-run/checkpoint.safetensors ]] || fail "$mpirun: no checkpoint"

    # Ranks that do not stop are killed after --grace seconds, or at once after a second signal.
    for grace in 0 3600; do
        start "grace-$grace" 2 --grace "$grace" -- "${endless[@]}"
        await "grace-$grace"
        for rank in 0 1; do
            kill -STOP "$(pgrep -P "$(supervisor "grace-$grace" "$rank")")"
        done
        if ((grace == 0)); then
            kill -TERM "$pid"
            ended 143 "grace-$grace"
        else
            kill -USR1 "$pid"
            sleep 0.2
            kill -INT "$pid"
            ended 138 "grace-$grace"
        fi
    done
done
finish
