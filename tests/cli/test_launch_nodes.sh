#!/usr/bin/env bash
# ampscale launch without MPI: ranks on one node, the same command line on several nodes, and restarts
# after a rank or node was lost, also with another world size.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
cd "$scratch" || exit 1
unset OMPI_COMM_WORLD_RANK PMI_RANK RANK WORLD_SIZE LOCAL_RANK SLURM_PROCID MASTER_ADDR MASTER_PORT AMPSCALE_SECRET AMPSCALE_JOB SLURM_JOB_ID

own_program
net=(--dummy --dummy-val 4 --classes 5 -a resnet8 --image-size 16 -b 4 --threads 1 --comm-timeout 60 -p 1 --telemetry 0)

new_port() { port=$((20000 + RANDOM % 12000)); }

# has_steps RUN: whether the run has recorded a step.
has_steps() { (($(wc -l <"$1/steps.jsonl") >= 2)) 2>/dev/null; }

# finished PID WHAT: waits for a launcher, which must exit with code 0.
finished() {
    code=0
    wait "$1" || code=$?
    ((code == 0)) || fail "$2: the exit code is $code: $(cat err ./*.err 2>/dev/null)"
}

# Signals to the launcher stop the ranks in an orderly way. If the launcher, a rank or its supervisor is
# killed, no process remains, and a line says why.
long=("${net[@]}" --dummy-train 480 --epochs 1000)
for victim in "TERM launcher" "KILL launcher" "KILL rank" "KILL supervisor"; do
    run=${victim// /-}
    "$program" launch --nnodes 1 --nproc 2 train "${long[@]}" --out "$run" >out 2>err </dev/null &
    job=$!
    await 60 has_steps "$run"
    rank=$(own_ranks | sed -n 's/^1 //p')
    case $victim in
    *launcher) kill -s "${victim% *}" "$job" ;;
    *rank) kill -KILL "$rank" ;;
    *supervisor) kill -KILL "$(ps -o ppid= -p "$rank" | tr -d ' ')" ;;
    esac
    code=0
    { wait "$job"; } 2>/dev/null || code=$?
    none_left "$victim"
    case $victim in
    TERM*) ((code == 143)) && [[ -s $run/checkpoint.safetensors ]] ;;
    *launcher) ((code == 137)) ;;
    *rank) ((code == 137)) && grep -q "^ampscale: rank 1 (host .*, pid $rank) was killed by signal 9 (SIGKILL)$" err ;;
    *) ((code != 0)) && grep -q "rank 1" err ;;
    esac || fail "SIG$victim: the exit code is $code: $(cat err)"
done
[[ $(ls TERM-launcher-logs) == "launch.log
rank-0.log
rank-1.log" ]] || fail "the logs without MPI are $(ls TERM-launcher-logs)"

# world_sizes RUN: prints the world size of each attempt in the run's record.
world_sizes() {
    cat "$1/run.json" "$1/steps.jsonl" | grep -oE '"world_size": ?[0-9]+' | grep -oE '[0-9]+' | xargs
}
resumed=("${net[@]}" --dummy-train 1600 --epochs 2 --checkpoint-steps 20)

# A rank is killed: the job starts again, and the result is bitwise equal to that of an uninterrupted
# run.
expect 0 launch --nnodes 1 --nproc 2 train "${resumed[@]}" --out whole
"$program" launch --nnodes 1 --nproc 2 --restarts 2 train "${resumed[@]}" --out rank >out 2>err </dev/null &
job=$!
await 60 test -s rank/checkpoint.safetensors
kill -KILL "$(own_ranks | sed -n 's/^1 //p')"
finished "$job" "after a rank was lost"
grep -q "^ampscale: restart 1 of 2, from the last checkpoint" err || fail "stderr does not report the restart: $(cat err)"
same_run "a restart" whole rank

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

# The stop of one launcher ends the job, unless it may become smaller.
new_port
for node in 0 1; do
    "$program" launch --nproc-per-node 1 --nnodes 2 --node-rank $node --rendezvous "127.0.0.1:$port" --restarts 2 \
        --join-timeout 15 --log-dir "halted-$node" train "${long[@]}" --checkpoint-steps 20 --out halted >"$node.out" 2>"$node.err" </dev/null &
    pids[node]=$!
done
await 60 test -s halted/checkpoint.safetensors
kill -TERM "${pids[1]}"
for node in 0 1; do
    code=0
    wait "${pids[node]}" || code=$?
    ((code == 143)) && ! grep -q restart $node.err || fail "node $node after a stop of node 1: exit code $code: $(<$node.err)"
done
none_left "a stop of one node"

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
# If the port is taken, the message names the flag.
expect 1 launch --nproc-per-node 1 --nnodes 2 --node-rank 0 --master-addr 127.0.0.1 --master-port "$port" train "${net[@]}" --out taken
grep -q "cannot listen at '127.0.0.1:$port': Address already in use; .*--master-port" err || fail "a taken port: $(cat err)"
kill -TERM "$first"
code=0
wait "$first" || code=$?
((code == 143)) || fail "a node got SIGTERM while it waited for others, and exited with $code, not 143: $(cat 0.err)"
none_left "a node that waits"

# If node 0's name cannot be looked up yet, each start waits for it until --join-timeout.
expect 1 launch --nproc-per-node 1 --nnodes 1:2 --node-rank 1 --rendezvous "no-such-host.invalid:$port" --restarts 1 --join-timeout 1 \
    train "${net[@]}" --out unknown
[[ $(grep -c "^ampscale: .*'no-such-host.invalid'.* for 1 s" err) == 2 ]] || fail "an unknown name: $(cat err)"
finish
