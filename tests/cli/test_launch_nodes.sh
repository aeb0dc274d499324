#!/usr/bin/env bash
# ampscale launch without MPI on several nodes: hosts reached by ssh, the same command line on each
# node, and restarts after a rank or node was lost, also with another world size. A script replaces
# ssh and runs the commands on this machine.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
cd "$scratch" || exit 1
unset OMPI_COMM_WORLD_RANK PMI_RANK RANK WORLD_SIZE LOCAL_RANK SLURM_PROCID MASTER_ADDR MASTER_PORT AMPSCALE_SECRET AMPSCALE_JOB SLURM_JOB_ID

own_program
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

# has_steps RUN: whether the run has recorded a step.
has_steps() { (($(wc -l <"$1/steps.jsonl") >= 2)) 2>/dev/null; }

# finished PID WHAT: waits for a launcher, which must exit with code 0.
finished() {
    code=0
    wait "$1" || code=$?
    ((code == 0)) || fail "$2: the exit code is $code: $(cat err ./*.err 2>/dev/null)"
}

# Invalid hosts are an error before any process starts.
expect_error 2 "host '-oProxyCommand=id'" launch --nnodes 2 --hosts=-oProxyCommand=id,b info
expect_error 2 "host 'a;id'" launch --nnodes 2 --hosts 'a;id,b' info
expect_error 2 "--nnodes 3" launch --nnodes 3 --hosts a,b info
expect_error 2 "--min-nodes 3" launch --min-nodes 3 --hosts a,b info
expect_error 2 "--nnodes '4:2'" launch --nnodes 4:2 info
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
[[ -s logs/rank-0.log && -s logs/rank-2.log ]] || fail "the logs of two hosts: $(ls logs)"
expect 5 launch --rendezvous "127.0.0.1:$port" --hosts a,b train nonesuch
grep -q "^ampscale: .*nonesuch" err || fail "the message for a rank that fails on a remote host is wrong: $(cat err)"
touch down-b
expect 1 launch --rendezvous "127.0.0.1:$port" --hosts a,b --log-dir logs train "${short[@]}" --out none
grep -q "^ampscale: host 'b' .*255" err || fail "the message for a host that is down is wrong: $(cat err)"
grep -q "Connection timed out" logs/mpirun.log || fail "the log lacks ssh's reason: $(cat logs/mpirun.log)"
rm down-b
none_left "hosts"

# A signal to the launcher stops the ranks on all hosts in an orderly way. If the launcher is
# killed, the ranks also end.
long=("${net[@]}" --dummy-train 480 --epochs 1000)
for signal in TERM KILL; do
    "$program" launch --rendezvous "127.0.0.1:$port" --hosts a,b train "${long[@]}" --out "on-$signal" >out 2>err </dev/null &
    job=$!
    await 60 has_steps "on-$signal"
    kill -s "$signal" "$job"
    { wait "$job"; } 2>/dev/null
    none_left "hosts, SIG$signal"
done
[[ -s on-TERM/checkpoint.safetensors ]] || fail "after SIGTERM there is no checkpoint: $(cat err)"

# world_sizes RUN: prints the world size of each attempt in the run's record.
world_sizes() {
    cat "$1/run.json" "$1/steps.jsonl" | grep -oE '"world_size": ?[0-9]+' | grep -oE '[0-9]+' | xargs
}
resumed=("${net[@]}" --dummy-train 1600 --epochs 2 --checkpoint-steps 20)

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
    await 60 test -s "$way/checkpoint.safetensors"
    if [[ $way == rank ]]; then
        kill -KILL "$(own_ranks | sed -n 's/^1 //p')"
    else
        touch down-b
        kill -KILL "$(awk '$2 == "b" { pid = $1 } END { print pid }' ssh.log)"
    fi
    finished "$job" "after a $way was lost"
    grep -q "^ampscale: restart 1 of 2, from the last checkpoint" err || fail "stderr does not report the restart: $(cat err)"
done
same_run "a restart on two hosts" whole rank
grep -q "host 'b' was lost" err && grep -q "world size 1" err || fail "stderr does not say that host 'b' was lost: $(cat err)"
[[ $(world_sizes host) == "2 1" && -e host/summary.json ]] || fail "the job did not end on one host: $(world_sizes host)"

# The same command line on three nodes. One node is lost and does not return. The job continues
# on two nodes.
new_port
for node in 0 1 2; do
    "$program" launch --nproc-per-node 1 --nnodes 2:3 --node-rank $node --rendezvous "127.0.0.1:$port" --restarts 2 \
        --join-timeout 15 --log-dir "lines-$node" train "${resumed[@]}" --out lines >"$node.out" 2>"$node.err" </dev/null &
    pids[node]=$!
done
await 60 test -s lines/checkpoint.safetensors
{ kill -KILL "${pids[2]}" && wait "${pids[2]}"; } 2>/dev/null
for node in 0 1; do
    finished "${pids[node]}" "node $node of three"
done
grep -q "warning: 2 of 3 nodes" 0.err || fail "no warning says that a node is missing: $(cat 0.err)"
[[ $(world_sizes lines) == "3 2" && -e lines/summary.json ]] || fail "the job did not end on two nodes: $(world_sizes lines)"
none_left "nodes"

# A process that does not belong to the job is refused, and the job does not wait for it.
"$program" launch --nproc-per-node 1 --nnodes 2 --node-rank 0 --rendezvous "127.0.0.1:$port" --restarts 1 --join-timeout 600 \
    train "${resumed[@]}" --out lines-2 >0.out 2>0.err </dev/null &
first=$!
node_0_listens() { (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }
await 20 node_0_listens
line=(launch --nproc-per-node 1 --nnodes 2 --rendezvous "127.0.0.1:$port" --restarts 1 --join-timeout 20)
expect 1 "${line[@]}" --node-rank 1 train "${resumed[@]}" --out other
grep -q "node 1 was refused at .*: node 0 belongs to another job" err || fail "a node of another job: $(cat err)"
AMPSCALE_SECRET=a-wrong-secret-17 expect 1 "${line[@]}" --node-rank 1 train "${resumed[@]}" --out lines-2
grep -q "node 1 was refused at .*: node 0 has another secret" err || fail "a node with another secret: $(cat err)"
kill -TERM "$first"
code=0
wait "$first" || code=$?
((code == 143)) || fail "a node got SIGTERM while it waited for others, and exited with $code, not 143: $(cat 0.err)"
none_left "a node that waits"
finish
