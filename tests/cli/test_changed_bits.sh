#!/usr/bin/env bash
# A bit that changes between two ranks is found before anything uses it, wherever it lies: in headers
# and values that Gloo receives, in control messages and in messages about the ranks' state.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
. "$source_dir/tests/interpose/interpose.sh"
cd "$scratch" || exit 1
unset OMPI_COMM_WORLD_RANK PMI_RANK RANK WORLD_SIZE LOCAL_RANK SLURM_PROCID AMPSCALE_SECRET AMPSCALE_JOB
net=(--dummy --dummy-train 16 --dummy-val 4 --classes 5 -a resnet8 --image-size 16 --epochs 1
    -b 4 --devices ref --comm-timeout 60 -p 1)

# changes KIND RANK N: a bit changes in what the rank receives at its Nth call, or the next that
# receives anything. Both ranks must exit with 4, and one line must name both and the cause.
changes() {
    local try codes rank what="$1 of rank $2, call $3"
    pair_env=(LOCAL_RANK=0 LOCAL_RANK=1)
    pair_env[$2]+=" LD_PRELOAD=$interpose AMPSCALE_INTERPOSE=$1:FLIP:$3-"
    for ((try = 0; try < 5; try++)); do
        pair_start run
        codes=(0 0)
        for rank in 0 1; do wait "${pids[rank]}" || codes[rank]=$?; done
        grep -q "rank 0 cannot listen at" err0 || break
    done
    [[ ${codes[*]} == "4 4" ]] || fail "$what: the ranks exited with ${codes[*]}, not 4 4: $(cat err0 err1)"
    grep -qE '^ampscale: rank [01]: the connection to rank [01] failed.*: a network card, a cable or memory changed bits on the way$' err0 err1 ||
        fail "$what: no line names the ranks and the cause: $(cat err0 err1)"
    [[ ! -e run/summary.json ]] || fail "$what: the run has a summary"
    rm -rf run
}

for rank in 0 1; do
    for call in 1 2 5 13 34; do changes recv-gloo $rank $call; done
    for call in 4 8 16; do changes recv $rank $call; done
done

# A rank that fails while it connects, perhaps within a message, has changed no bit.
for fault in recv:ENOMEM:{9..18} send:ENOBUFS:{2..9}; do
    pair_env=(LOCAL_RANK=0 "LOCAL_RANK=1 LD_PRELOAD=$interpose AMPSCALE_INTERPOSE=$fault")
    pair run --comm-timeout 5
    ((code < 2)) || fail "$fault of rank 1: rank 0 exits with $code: $(cat err0 err1)"
    ! grep "changed bits" err0 err1 || fail "$fault of rank 1 is called a changed bit"
    rm -rf run
done

# Nor has the other rank failed if this one has no descriptor for a socket.
pair_env=(LOCAL_RANK=0 "LOCAL_RANK=1 LD_PRELOAD=$interpose AMPSCALE_INTERPOSE=socket:EMFILE:1-")
pair run --comm-timeout 5
grep -qE "^ampscale: cannot open a socket to '127.0.0.1:[0-9]+': Too many open files$" err1 || fail "no descriptor for a socket: $(<err1)"
for rank in 0 1; do
    pair_env=(LOCAL_RANK=0 LOCAL_RANK=1)
    pair_env[rank]+=" LD_PRELOAD=$interpose AMPSCALE_INTERPOSE=accept:EMFILE:1-"
    pair run --comm-timeout 5
    grep -qE "^ampscale: (rank $rank: )?cannot accept a connection at '127.0.0.1:[0-9]+': Too many open files$" err$rank ||
        fail "rank $rank has no descriptor for a connection: $(<err$rank)"
done
# Of the Gloo connections, rank 0 accepts none: it gives rank 1's reason.
grep -qE "^ampscale: rank 1: cannot accept a connection at .*: Too many open files$" err0 || fail "rank 0 gives another reason: $(<err0)"

# If a rank stands still while three connect, all name it, and not one that waits for it.
pair_env=(LOCAL_RANK=0 "LOCAL_RANK=1 LD_PRELOAD=$interpose AMPSCALE_INTERPOSE=accept:delay12000:1" LOCAL_RANK=2)
pair run --comm-timeout 2
for rank in 0 2; do
    grep -qE "^ampscale: (rank 0: )?cannot connect to rank 1 for Gloo at '127.0.0.1:[0-9]+' within 2 s$" err$rank ||
        fail "rank 1 stands still, but rank $rank says: $(<err$rank)"
done
# So do they if it has not connected at all.
pair_env=(LOCAL_RANK=0 LOCAL_RANK=1 "LOCAL_RANK=2 LD_PRELOAD=$interpose AMPSCALE_INTERPOSE=socket:delay9000:1")
pair run --comm-timeout 2
for rank in 0 1; do
    grep -qE "^ampscale: rank 2 of 3 did not reach '127.0.0.1:[0-9]+' within 2 s$" err$rank || fail "rank 2 is missing, but rank $rank says: $(<err$rank)"
done

# start_node NODE NODES LIMIT FAULT: starts the launcher of a node.
start_node() {
    local fault=()
    [[ -z $4 ]] || fault=(LD_PRELOAD="$interpose" AMPSCALE_INTERPOSE="$4" AMPSCALE_INTERPOSE_ONLY=launch AMPSCALE_INTERPOSE_STATE="$scratch/state")
    env AMPSCALE_JOB=joins "${fault[@]}" "$program" launch --nproc-per-node 1 --nnodes "$2" --node-rank "$1" --restarts 1 \
        --join-timeout "$3" --rendezvous "127.0.0.1:$port" --log-dir "joins-$1" train "${net[@]}" --out joins >"out$1" 2>"err$1" </dev/null &
    pids[$1]=$!
}

# A node that is lost while it joins, as the last one, may join again.
port=$((20000 + RANDOM % 12000)) pids=()
start_node 0 2 60 ""
start_node 1 2 60 recv:FLIP:2
for node in 0 1; do
    wait "${pids[node]}" || fail "node $node, whose other was lost as it joined: $(<err$node)"
done
grep -q "does not know the secret" err1 || fail "no bit changed as node 1 joined: $(<err1)"
# Its loss costs no node that has joined, even if that waited for node 0 for most of the time.
port=$((20000 + RANDOM % 12000)) pids=()
rm -r joins state
start_node 1 2:3 5 ""
sleep 2
start_node 0 2:3 5 ""
sleep 3.5
start_node 2 2:3 5 recv:KILL:2
{ wait "${pids[2]}"; } 2>/dev/null
for node in 0 1; do
    wait "${pids[node]}" || fail "node $node of three, of which the last was killed as it joined: $(<err$node)"
    ! grep restart err$node || fail "node $node restarts because another was killed as it joined"
done
grep -q '"world_size": *2' joins/run.json || fail "two nodes of three do not train: $(cat err0 err1)"
finish
