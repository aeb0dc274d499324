#!/usr/bin/env bash
# Ranks that are started without MPI, as by torchrun, and connect to each other at a TCP address.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
cd "$scratch" || exit 1
unset OMPI_COMM_WORLD_RANK PMI_RANK RANK WORLD_SIZE LOCAL_RANK SLURM_PROCID AMPSCALE_SECRET AMPSCALE_JOB
net=(--dummy --dummy-train 16 --dummy-val 4 --classes 5 -a resnet8 --image-size 16 --epochs 1
    -b 4 --devices ref --comm-timeout 60 -p 1)

# The transports without MPI.
way=gloo
[[ -e $build_dir/cli/ampscale_gloo.so ]] || way=tcp

expect_error 2 "no launcher names the rank of this process" train "${net[@]}" --rendezvous 127.0.0.1:1 --out none
RANK=1 WORLD_SIZE=2 expect_error 2 "--rendezvous '127.0.0.1': give HOST:PORT" train "${net[@]}" --rendezvous 127.0.0.1 --out none
RANK=2 WORLD_SIZE=2 expect_error 2 "RANK=2 and WORLD_SIZE=2" train "${net[@]}" --rendezvous 127.0.0.1:1 --out none

# The only process that a launcher starts, for example srun with PMIx, can train in the modes nd and dp.
PMIX_RANK=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 expect 0 train "${net[@]}" --devices ref:2 --mode dp --out only
"$program" info >info.out
grep -q 'MPI: none' info.out || # without MPI, the tasks are no ranks of one job
    PMIX_RANK=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 expect_error 2 "a launcher started several" \
        train "${net[@]}" --mode nd --out none

# A rank that cannot find the other ranks fails. It trains alone only if --mode nd requests that.
lost="a launcher started 4 processes that cannot find each other"
for mode in "" "--mode ddp"; do
    # shellcheck disable=SC2086 # $mode is empty, or a flag and its value
    SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 expect_error 2 "$lost" train "${net[@]}" $mode --out none
    # shellcheck disable=SC2086
    RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 expect_error 2 "$lost" train "${net[@]}" $mode --out none
done
[[ ! -e none ]] || fail "a refused run made its folder"
SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 expect 0 train "${net[@]}" --mode nd --out alone

# start DIR ARGS...: starts two ranks in the background; rank 1 also gets ARGS. Fills `pids`.
start() {
    local dir=$1 rank more
    port=$((20000 + RANDOM % 12000))
    shift
    for rank in 0 1; do
        more=()
        ((rank == 0)) || more=("$@")
        RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank "${limited[@]}" "$program" train "${net[@]}" "${more[@]}" \
            --rendezvous "127.0.0.1:$port" --out "$dir" >"out$rank" 2>"err$rank" </dev/null &
        pids[rank]=$!
    done
}

# pair DIR ARGS...: starts two ranks, and waits for them. Fills `code` with rank 0's exit code. Tries
# several ports, since another process may use one of them.
pair() {
    local try
    for ((try = 0; try < 5; try++)); do
        start "$@"
        code=0
        wait "${pids[0]}" || code=$?
        grep -q "rank 0 cannot listen at" err0 || break
        kill "${pids[1]}"
        wait "${pids[1]}" 2>/dev/null
    done
    wait "${pids[1]}" 2>/dev/null
}

# A rank that waits for the other rank ends when it gets a signal.
for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank "${limited[@]}" "$program" train "${net[@]}" \
        --rendezvous 127.0.0.1:$((20000 + RANDOM % 12000)) --out alone-too >out 2>err </dev/null &
    pid=$!
    sleep 2
    before=$SECONDS
    kill "$pid"
    code=0
    wait "$pid" || code=$?
    ((code == 143 && SECONDS - before < 40)) || fail "rank $rank got a signal and ended with exit code $code: $(cat err)"
    grep -q "interrupted by SIGTERM" err || fail "rank $rank got a signal, and its message is wrong: $(cat err)"
done

# A signal to one rank stops all ranks. The rank that got it exits with 128 plus the signal's number;
# the other ranks exit as after a SIGTERM.
all=("${net[@]}")
net+=(--epochs 100000)
start stopped
for ((i = 0; i < 600; i++)); do
    [[ ! -s stopped/epochs.jsonl ]] || break
    sleep 0.1
done
kill -HUP "${pids[1]}"
codes=(0 0)
for rank in 0 1; do wait "${pids[rank]}" || codes[rank]=$?; done
[[ ${codes[*]} == "143 129" ]] || fail "after SIGHUP to rank 1 the exit codes are ${codes[*]}, not 143 129: $(cat err0 err1)"
grep -q '"exit_code": 143' stopped/outcome.json || fail "the record does not have exit code 143: $(<stopped/outcome.json)"
net=("${all[@]}")

pair run
((code == 0)) || fail "two ranks at an address exited with $code: $(cat err0 err1)"
grep -q "^ddp: 2 ranks of 1 device, .* over $way\$" out0 || fail "rank 0 does not print the transport: $(head -3 out0)"
grep -qF "\"comm\": \"$way\"" run/run.json || fail "the record does not name the transport of gradients"
! grep -q '"MPI"' run/run.json || fail "the record names MPI, which was not used"

# The results of two ranks are bitwise equal with every transport. If Gloo's module is missing,
# --comm gloo is an error; without --comm gloo, a warning says that all data passes through rank 0.
pair by-rank-0 --comm local
((code == 2)) || fail "with --comm local on rank 1 only, rank 0 exited with $code: $(cat err0 err1)"
grep -q "rank 1 has another --comm than rank 0" err0 || fail "$(cat err0)"
all=("${net[@]}")
net+=(--comm local)
pair by-rank-0
((code == 0)) || fail "--comm local exited with $code: $(cat err0 err1)"
grep -qF '"comm": "tcp"' by-rank-0/run.json || fail "with --comm local, data does not pass through rank 0"
same_run "--comm local" run by-rank-0
net=("${all[@]}")
AMPSCALE_GLOO_MODULE=$scratch/none pair without
((code == 0)) || fail "without Gloo the ranks exited with $code: $(cat err0 err1)"
grep -q "^ampscale: warning: all data passes through rank 0 .*/none', which does not exist$" err0 ||
    fail "no line says why Gloo is not used: $(cat err0)"
same_run "without Gloo" run without
net+=(--comm gloo)
AMPSCALE_GLOO_MODULE=$scratch/none pair none
((code == 1)) || fail "--comm gloo without Gloo exited with $code: $(cat err0 err1)"
[[ $(grep -c '^ampscale: ' err0) == 1 ]] && grep -q -- "--comm gloo: rank 0: .*; or use --comm local" err0 ||
    fail "the message for --comm gloo without Gloo is wrong: $(cat err0)"
[[ ! -e none ]] || fail "a run with --comm gloo was refused, but made its folder"
net=("${all[@]}")
RANK=0 WORLD_SIZE=2 expect_error 2 "--comm mpi: MPI's launcher did not start this process" \
    train "${net[@]}" --rendezvous 127.0.0.1:1 --comm mpi --out none

# The secret comes from the environment or from a file, and appears in no record. A rank with
# another secret is refused.
umask 077
secret=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
AMPSCALE_SECRET=$secret pair secured
((code == 0)) || fail "two ranks with a secret exited with $code: $(cat err0 err1)"
! grep -rqF "$secret" secured out0 out1 err0 err1 || fail "the secret is in a record or a log"
echo "$secret" >secret
all=("${net[@]}")
net+=(--comm-timeout 20)
AMPSCALE_SECRET=another-secret-0 pair from-file --secret-file secret
net=("${all[@]}")
((code == 1)) || fail "ranks with different secrets exited with $code: $(cat err0 err1)"
grep -q "rank 1 was refused at '127.0.0.1:.*: rank 0 has another secret" err1 || fail "$(cat err1)"
grep -q "refused connections: 1 with a wrong secret" err0 || fail "$(cat err0)"
chmod 644 secret
RANK=0 WORLD_SIZE=2 expect_error 2 "--secret-file 'secret': other users have access (mode 644)" \
    train "${net[@]}" --rendezvous 127.0.0.1:1 --secret-file secret --out none
RANK=0 WORLD_SIZE=2 AMPSCALE_SECRET=short expect_error 2 "the secret in AMPSCALE_SECRET has 5 bytes" \
    train "${net[@]}" --rendezvous 127.0.0.1:1 --out none
for address in 0.0.0.0:1 "[::]:1"; do
    RANK=0 WORLD_SIZE=2 expect_error 2 "'$address' is reachable from other machines, but no secret is set" \
        train "${net[@]}" --rendezvous "$address" --out none
done
RANK=1 WORLD_SIZE=2 expect_error 1 "found no rank 0 of its job at '0.0.0.0:1'" \
    train "${net[@]}" --comm-timeout 1 --rendezvous 0.0.0.0:1 --insecure --out none

pair differs --seed 1
((code == 2)) || fail "with different seeds, rank 0 exited with $code, not 2"
[[ $(cat err0 err1 | grep -c '^ampscale: ') == 1 ]] && grep -q "rank 1 .* has seed = 1, but rank 0" err0 ||
    fail "there is not exactly one line that says how the ranks differ: $(cat err0 err1)"

# The environment variables or flags of PyTorch alone, as torchrun or Kubernetes pods set them, are
# enough to connect ranks.
# together DIR ARGS...: starts two processes, and replaces RANK in ARGS by the rank's number, which
# they also have as RANK if WORLD_SIZE is set.
together() {
    local dir=$1 rank
    shift
    for rank in 0 1; do
        ${WORLD_SIZE:+env RANK=$rank LOCAL_RANK=$rank} timeout 100 "$program" train "${net[@]}" "${@//RANK/$rank}" --out "$dir" >"out$rank" 2>"err$rank" </dev/null &
        pids[rank]=$!
    done
    code=0
    wait "${pids[0]}" || code=$?
    wait "${pids[1]}" || code=$?
    ((code == 0)) || fail "'$*' exited with $code: $(cat err0 err1)"
    same_run "$*" run "$dir"
}
port=$((20000 + RANDOM % 12000))
MASTER_ADDR=127.0.0.1 MASTER_PORT=$port WORLD_SIZE=2 together by-variables
together by-flags --dist-url "tcp://127.0.0.1:$((port + 1))" --dist-backend gloo --world_size 2 --rank RANK
together by-file --dist-url "file://$scratch/meet" --world-size 2 --rank RANK
[[ ! -e meet ]] || fail "the file of the rendezvous was not removed"
echo 127.0.0.1:1 >meet
expect_error 2 "the file exists; remove it" train "${net[@]}" --dist-url "file://$scratch/meet" --world-size 2 --rank 0 --out none
expect_error 2 "--dist-url 'udp://h:1': give env://" train "${net[@]}" --dist-url udp://h:1 --out none
expect_error 2 "--rank 2 is too high: --world-size 2 has ranks 0 to 1" train "${net[@]}" --dist-url tcp://h:1 --world-size 2 --rank 2 --out none
expect_error 2 "no address to connect at" train "${net[@]}" --world-size 2 --rank 1 --out none
expect_error 2 "give both, or RANK and WORLD_SIZE" train "${net[@]}" --dist-url tcp://h:1 --world-size 2 --out none
expect_error 2 "start the processes by mpirun" train "${net[@]}" --dist-backend mpi --out none
expect_error 2 "give the rank of this node by --rank" train "${net[@]}" --multiprocessing-distributed --world-size 2 --dist-url tcp://h:1 --out none
expect_error 2 "--gpu-ids: 2 GPUs were given, but this process has local rank 2" train --dummy --gpu-ids 0,1 --local_rank 2 --out none
expect_error 2 "--gpu-ids '0,x'" train --dummy --gpu-ids 0,x --out none
expect_error 2 "--init FILE" train --dummy --pretrained --out none

# The launcher without MPI: first on one node, then as two command lines on this machine, each of
# which acts as one node.
expect 0 launch --nproc-per-node 2 --nnodes 1 --log-dir logs train "${net[@]}" --out one-node
same_run "launch without MPI" run one-node
grep -q "over $way" "$scratch/out" || fail "the ranks that launch started without MPI do not use $way: $(head -3 "$scratch/out")"
if [[ $way == gloo ]]; then
    expect 0 launch --comm gloo --nproc 2 --log-dir logs train "${net[@]}" --out by-gloo
    same_run "launch --comm gloo" run by-gloo
    expect 0 launch --nproc 3 --log-dir logs bench collective allreduce --comm gloo -b 4 -e 64K -f 32 -n 1 -w 0 --csv
    expect 0 launch --comm gloo --nproc 2 --log-dir logs bench overlap --devices ref --net resnet8 --image-size 16 \
        -b 1 --rounds 1 --bucket-mb 0.01
fi
expect_error 2 "--comm gloo is for the processes of a job" bench collective allreduce --comm gloo
port=$((20000 + RANDOM % 12000))
line=(launch --nproc_per_node 1 --nnodes 2 --master_addr 127.0.0.1 --master_port "$port" --log-dir logs2)
timeout 100 "$program" "${line[@]}" --node_rank 1 train "${net[@]}" --out two-nodes >out1 2>err1 </dev/null &
expect 0 "${line[@]}" --node_rank 0 train "${net[@]}" --out two-nodes
wait $! || fail "node 1: $(cat err1)"
same_run "two nodes" run two-nodes
expect 5 launch --nproc-per-node 2 --nnodes 1 --log-dir logs train nonesuch
grep -q "^ampscale: .*nonesuch" "$scratch/err" || fail "the message for a rank that fails without MPI is wrong: $(cat "$scratch/err")"
expect_error 2 "--nnodes 2: the address where ranks connect is missing" launch --nproc 2 --nnodes 2 info
expect_error 2 "--node-rank 2: give 0 to 1" launch --nproc 2 --nnodes 2 --node-rank 2 --rendezvous h:1 info
expect_error 2 "--nproc 3: --nproc-per-node 2 on 2 nodes gives 4 ranks" launch --nproc 3 --nproc-per-node 2 --nnodes 2 info
expect_error 2 "--nproc 3: not a multiple of --nnodes 2" launch --nproc 3 --nnodes 2 --rendezvous h:1 info
expect_error 2 "--master-addr 'h' and --rendezvous" launch --nproc 2 --master-addr h --rendezvous h:1 info

finish
