#!/usr/bin/env bash
# ampscale launch without MPI on several nodes: hosts reached by ssh, the same command line on each
# node, and restarts after a rank or node was lost, also with another world size. A script replaces
# ssh and runs the commands on this machine.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
cd "$scratch" || exit 1
unset OMPI_COMM_WORLD_RANK PMI_RANK RANK WORLD_SIZE LOCAL_RANK SLURM_PROCID MASTER_ADDR MASTER_PORT AMPSCALE_SECRET AMPSCALE_JOB SLURM_JOB_ID

# Copies the program to the scratch folder. The path then identifies the processes of this test.
cp "$program" ampscale
[[ ! -e $build_dir/cli/ampscale_gloo.so ]] || cp "$build_dir/cli/ampscale_gloo.so" .
program=$scratch/ampscale
net=(--dummy --dummy-val 4 --classes 5 -a resnet8 --image-size 16 -b 4 --threads 1 --comm-timeout 60 -p 1 --telemetry 0)

# ssh HOST COMMAND: runs the command. A host whose file "down-HOST" exists cannot be reached.
mkdir bin
cat >bin/ssh <<'END'
#!/bin/bash
while [[ $1 != -- ]]; do shift; done
host=$2 command=$3
if [[ -e $SSH_DOWN/down-$host ]]; then
    echo "ssh: connect to host $host port 22: Connection timed out" >&2
    exit 255
fi
echo "$$ $host $command" >>"$SSH_DOWN/ssh.log"
echo "Welcome to $host"
cd / && exec env -i PATH="$PATH" TMPDIR="$TMPDIR" OMP_WAIT_POLICY=passive SSH_DOWN="$SSH_DOWN" bash -c "$command"
END
chmod +x bin/ssh
export SSH_DOWN=$scratch
PATH=$scratch/bin:$PATH

new_port() { port=$((20000 + RANDOM % 12000)); }

# no_process NAME: checks that all processes of a job end within 20 s.
no_process() {
    local i left
    for ((i = 0; i < 200; i++)); do
        left=$(find /proc/[0-9]*/exe -maxdepth 0 -lname "$program" 2>/dev/null)
        [[ -n $left ]] || return 0
        sleep 0.1
    done
    fail "$1: left running: $(xargs -n1 dirname <<<"$left" | xargs -I{} sh -c 'tr "\0" " " <{}/cmdline; echo')"
}

# rank_pid RUN RANK: prints the process id of a rank of the run.
rank_pid() {
    local exe
    find /proc/[0-9]*/exe -maxdepth 0 -lname "$program" 2>/dev/null | while read -r exe; do
        exe=${exe%/exe}
        grep -qx train < <(tr '\0' '\n' <"$exe/cmdline" | sed -n 2p) || continue
        grep -qF -- "--out $1 " < <(tr '\0' ' ' <"$exe/cmdline") || continue
        grep -qx "RANK=$2" < <(tr '\0' '\n' <"$exe/environ") && echo "${exe#/proc/}"
    done 2>/dev/null
}

# await FILE [MIN]: waits until the file has MIN lines (default 1).
await() {
    local i
    for ((i = 0; i < 1200; i++)); do
        [[ ! -s $1 ]] || (($(wc -l <"$1") < ${2:-1})) || return 0
        sleep 0.05
    done
    fail "there is no '$1': $(cat err ./*.err 2>/dev/null)"
}

# Invalid hosts are an error before any process starts.
expect_error 2 "host '-oProxyCommand=id'" launch --nnodes 2 --hosts=-oProxyCommand=id,b info
expect_error 2 "host 'a;id'" launch --nnodes 2 --hosts 'a;id,b' info
expect_error 2 "--nnodes 3: --hosts names 2 hosts that have ranks" launch --nnodes 3 --hosts a,b info
expect_error 2 "--min-nodes 3: the job has 2 nodes" launch --min-nodes 3 --hosts a,b info
expect_error 2 "--nnodes '4:2': give a number of nodes, or MIN:MAX" launch --nnodes 4:2 info
[[ ! -e ssh.log ]] || fail "ssh was started for a command line that is refused"

# One rank on host a and two ranks on host b give the same results as three ranks on one machine.
new_port
short=("${net[@]}" --dummy-train 24 --epochs 1)
expect 0 launch --nnodes 1 --nproc 3 train "${short[@]}" --out one
expect 0 launch --rendezvous "127.0.0.1:$port" --hosts a,b:2 --log-dir logs train "${short[@]}" --out hosts
same_run "two hosts over ssh" one hosts
grep -q "^ddp: 3 ranks" out || fail "the log does not have three ranks on two hosts: $(head -3 out)"
[[ $(cut -d' ' -f2 ssh.log | sort | xargs) == "a b" ]] || fail "ssh was started for other hosts: $(cat ssh.log)"
! grep -q "SECRET" ssh.log || fail "the secret is an argument of ssh"
for rank in 0 1 2; do
    [[ -s logs/rank-$rank.log ]] || fail "rank $rank of two hosts has no log"
done
expect 5 launch --rendezvous "127.0.0.1:$port" --hosts a,b train nonesuch
grep -q "^ampscale: .*nonesuch" err || fail "the message for a rank that fails on a remote host is wrong: $(cat err)"
touch down-b
expect 1 launch --rendezvous "127.0.0.1:$port" --hosts a,b --log-dir logs train "${short[@]}" --out none
grep -q "^ampscale: host 'b' cannot start its ranks: ssh ended with exit code 255" err || fail "the message for a host that is down is wrong: $(cat err)"
grep -q "Connection timed out" logs/mpirun.log || fail "the log lacks ssh's reason: $(cat logs/mpirun.log)"
rm down-b
no_process "hosts"

# A signal to the launcher stops the ranks on all hosts in an orderly way. If the launcher is
# killed, the ranks also end.
long=("${net[@]}" --dummy-train 480 --epochs 1000)
for signal in TERM KILL; do
    "$program" launch --rendezvous "127.0.0.1:$port" --hosts a,b train "${long[@]}" --out "on-$signal" >out 2>err </dev/null &
    job=$!
    await "on-$signal/steps.jsonl" 2
    kill -s "$signal" "$job"
    code=0
    { wait "$job"; } 2>/dev/null || code=$?
    no_process "hosts, SIG$signal"
done
[[ -s on-TERM/checkpoint.safetensors ]] || fail "after SIGTERM there is no checkpoint: $(cat err)"

# world_sizes RUN: prints the world size of each attempt in the run's record.
world_sizes() {
    cat "$1/run.json" "$1/steps.jsonl" | grep -oE '"world_size": ?[0-9]+' | grep -oE '[0-9]+' | xargs
}
resumed=("${net[@]}" --dummy-train 1600 --epochs 2 --checkpoint-steps 20)

# kill_host HOST: ends the connection to the host. Later connections to it fail.
kill_host() {
    touch "down-$1"
    kill -KILL "$(awk -v host="$1" '$2 == host { pid = $1 } END { print pid }' ssh.log)"
}

# First a rank is killed: both hosts start again, and the result is bitwise equal to that of an
# uninterrupted run. Then a host is lost, and the job continues without it.
expect 0 launch --nnodes 1 --nproc 2 train "${resumed[@]}" --out whole
for way in rank host; do
    new_port
    rm -f ssh.log
    fewer=()
    [[ $way == rank ]] || fewer=(--min-nodes 1 --join-timeout 15)
    "$program" launch --rendezvous "127.0.0.1:$port" --hosts a,b --restarts 2 "${fewer[@]}" \
        train "${resumed[@]}" --out "$way" >out 2>err </dev/null &
    job=$!
    await "$way/checkpoint.safetensors"
    if [[ $way == rank ]]; then
        kill -KILL "$(rank_pid rank 1)"
    else
        kill_host b
    fi
    code=0
    wait "$job" || code=$?
    ((code == 0)) || fail "after a $way was lost, the exit code is $code: $(cat err)"
    grep -q "^ampscale: restart 1 of 2, from the last checkpoint" err || fail "stderr does not report the restart: $(cat err)"
done
same_run "a restart on two hosts" whole rank
grep -q "host 'b' was lost" err && grep -q "host 'b' is not ready within 15 s: world size 1" err || fail "stderr does not say that host 'b' was lost and did not become ready: $(cat err)"
grep -q "^ddp: 1 rank" out || fail "the job did not continue on one host: $(grep ddp out)"
[[ $(world_sizes host) == "2 1" ]] || fail "the record has the world sizes $(world_sizes host)"
[[ -e host/summary.json ]] || fail "the run on one host did not finish"

# The same command line on three nodes. One node is lost and does not return. The job continues
# on two nodes.
new_port
for node in 0 1 2; do
    "$program" launch --nproc-per-node 1 --nnodes 2:3 --node-rank $node --rendezvous "127.0.0.1:$port" --restarts 2 \
        --join-timeout 15 --log-dir "lines-$node" train "${resumed[@]}" --out lines >"$node.out" 2>"$node.err" </dev/null &
    pids[node]=$!
done
await lines/checkpoint.safetensors
{ kill -KILL "${pids[2]}" && wait "${pids[2]}"; } 2>/dev/null
for node in 0 1; do
    code=0
    wait "${pids[node]}" || code=$?
    ((code == 0)) || fail "node $node of three exited with $code: $(cat $node.err)"
done
grep -q "^ddp: 3 ranks" 0.out && grep -q "^ddp: 2 ranks" 0.out || fail "the job did not continue on two of three nodes: $(grep ddp 0.out)"
grep -q "warning: 2 of 3 nodes have joined within 15 s: world size 2" 0.err || fail "$(cat 0.err)"
[[ $(world_sizes lines) == "3 2" ]] || fail "the record has the world sizes $(world_sizes lines)"
[[ -e lines/summary.json ]] || fail "the run on two nodes did not finish"
no_process "nodes"

# A process that does not belong to the job is refused, and the job does not wait for it.
"$program" launch --nproc-per-node 1 --nnodes 2 --node-rank 0 --rendezvous "127.0.0.1:$port" --restarts 1 --join-timeout 600 \
    train "${resumed[@]}" --out lines-2 >0.out 2>0.err </dev/null &
first=$!
for ((i = 0; i < 200; i++)); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
    sleep 0.1
done
line=(launch --nproc-per-node 1 --nnodes 2 --rendezvous "127.0.0.1:$port" --restarts 1 --join-timeout 20)
expect 1 "${line[@]}" --node-rank 1 train "${resumed[@]}" --out other
grep -q "node 1 was refused at '127.0.0.1:$port': node 0 belongs to another job" err || fail "stderr does not say that node 0 belongs to another job: $(cat err)"
AMPSCALE_SECRET=a-wrong-secret-17 expect 1 "${line[@]}" --node-rank 1 train "${resumed[@]}" --out lines-2
grep -q "node 1 was refused at '127.0.0.1:$port': node 0 has another secret" err || fail "stderr does not say that node 0 has another secret: $(cat err)"
kill -TERM "$first"
code=0
wait "$first" || code=$?
((code == 143)) || fail "a node got SIGTERM while it waited for others, and exited with $code, not 143: $(cat 0.err)"
no_process "a node that waits"
finish
