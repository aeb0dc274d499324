#!/usr/bin/env bash
# Ranks that are started without MPI, as by torchrun, and connect to each other at a TCP address.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
cd "$scratch" || exit 1
unset OMPI_COMM_WORLD_RANK PMI_RANK RANK WORLD_SIZE LOCAL_RANK SLURM_PROCID AMPSCALE_SECRET AMPSCALE_JOB
net=(--dummy --dummy-train 16 --dummy-val 4 --classes 5 -a resnet8 --image-size 16 --epochs 1
    -b 4 --devices ref --comm-timeout 60 -p 1)
at=(train "${net[@]}" --rendezvous 127.0.0.1:1 --out none)

# refuses TEXT VARIABLES ARGS...: checks the error of a process with these variables.
refuses() {
    local text=$1 variables=$2
    # shellcheck disable=SC2086,SC2163 # several variables
    (failures=0 && export $variables && expect_error 2 "$text" "${@:3}" && finish) || failures=$((failures + 1))
}
expect_error 2 "no launcher names the rank of this process" "${at[@]}"
for address in 127.0.0.1 "file://$scratch/meet" "127.0.0.1:1 127.0.0.1:2"; do
    refuses "--rendezvous '$address': give HOST:PORT" "RANK=0 WORLD_SIZE=2" "${at[@]}" --rendezvous "$address"
done
refuses "RANK=2 and WORLD_SIZE=2" "RANK=2 WORLD_SIZE=2" "${at[@]}"
refuses "--comm mpi: MPI's launcher did not start this process" "RANK=0 WORLD_SIZE=2" "${at[@]}" --comm mpi
refuses "the secret in AMPSCALE_SECRET has 5 bytes" "RANK=0 WORLD_SIZE=2 AMPSCALE_SECRET=short" "${at[@]}"
echo another-secret-1 >secret
chmod 644 secret
refuses "--secret-file 'secret': other users have access (mode 644)" "RANK=0 WORLD_SIZE=2" "${at[@]}" --secret-file secret
for address in 0.0.0.0:1 "[::]:1"; do
    refuses "'$address' is reachable from other machines, but no secret is set" "RANK=0 WORLD_SIZE=2" "${at[@]}" --rendezvous "$address"
done
RANK=1 WORLD_SIZE=2 expect_error 1 "found no rank 0 of its job at '0.0.0.0:1'" \
    "${at[@]}" --comm-timeout 1 --rendezvous 0.0.0.0:1 --insecure

# A name that DNS does not know may become known until the time limit.
for rank in 0 1; do
    before=$SECONDS
    RANK=$rank WORLD_SIZE=2 expect_error 1 "--rendezvous 'ampscale-0.invalid:29500': cannot look up host" \
        "${at[@]}" --comm-timeout 3 --rendezvous ampscale-0.invalid:29500
    ((SECONDS - before >= 2)) || fail "rank $rank did not wait for the name of the rendezvous"
    before=$SECONDS
    expect 1 launch --nnodes 1:2 --node-rank $rank --nproc-per-node 1 --join-timeout 3 --rendezvous ampscale-0.invalid:29500 -- "${at[@]}"
    grep -q "cannot look up host 'ampscale-0.invalid': .*, for 3 s; start the host" err && ((SECONDS - before >= 2)) ||
        fail "node $rank did not wait for the name of the rendezvous: $(<err)"
done

# joins_late NAME VARIABLES: two ranks whose hosts file has the name only a second later, as a
# loopback address.
joins_late() {
    local rank pids=() port=$((20000 + RANDOM % 12000))
    echo "127.0.0.1 localhost" >hosts
    for rank in 0 1; do
        # shellcheck disable=SC2016,SC2086 # several variables
        env RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank $2 "${limited[@]}" unshare -rm sh -c 'mount --bind hosts /etc/hosts && exec "$@"' sh "$program" \
            train "${net[@]}" --rendezvous "$1:$port" --out "$1" >out$rank 2>err$rank </dev/null &
        pids+=($!)
    done
    sleep 1
    echo "127.0.0.1 $1" >>hosts
    for rank in 0 1; do wait "${pids[rank]}" || fail "$1: rank $rank: $(cat err0 err1)"; done
}

# The only process that a launcher starts, for example srun with PMIx, can train in the modes nd and
# dp. A rank that cannot find the other ranks fails. It trains alone only if --mode nd requests that.
PMIX_RANK=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 expect 0 train "${net[@]}" --devices ref:2 --mode dp --out only
lost="a launcher started 4 processes that cannot find each other"
refuses "$lost" "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4" train "${net[@]}" --out none
refuses "$lost" "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4" bench collective allreduce -e 4K
refuses "$lost" "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1" train "${net[@]}" --mode ddp --out none
[[ ! -e none ]] || fail "a refused run made its folder"
SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 expect 0 train "${net[@]}" --mode nd --out alone

# catches_term PID: whether the rank that this `timeout` has started has its handler of SIGTERM, signal 15.
catches_term() {
    local mask
    mask=$(sed -n 's/^SigCgt:\t//p' "/proc/$(pgrep -P "$1")/status" 2>/dev/null)
    [[ -n $mask ]] && ((0x$mask >> 14 & 1))
}

# A rank that waits for the other rank ends when it gets a signal.
for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank "${limited[@]}" "$program" train "${net[@]}" \
        --rendezvous 127.0.0.1:$((20000 + RANDOM % 12000)) --out alone-too >out 2>err </dev/null &
    pid=$!
    await 20 catches_term "$pid"
    before=$SECONDS
    kill "$pid"
    code=0
    wait "$pid" || code=$?
    ((code == 143 && SECONDS - before < 40)) && grep -q "interrupted by SIGTERM" err ||
        fail "rank $rank got a signal and ended with exit code $code: $(cat err)"
done

# A signal to one rank stops all ranks, which exit as after a SIGTERM, and it with the signal's code.
pair_start stopped --epochs 100000
await 60 test -s stopped/epochs.jsonl
kill -HUP "${pids[1]}"
codes=(0 0)
for rank in 0 1; do wait "${pids[rank]}" || codes[rank]=$?; done
[[ ${codes[*]} == "143 129" ]] || fail "after SIGHUP to rank 1 the exit codes are ${codes[*]}, not 143 129: $(cat err0 err1)"
grep -q '"exit_code": 143' stopped/outcome.json || fail "the record does not have exit code 143: $(<stopped/outcome.json)"

# pair_exits CODE TEXT DIR ARGS... [-- MORE...]: runs a pair, and checks rank 0's exit code, and that
# the ranks say the text.
pair_exits() {
    pair "${@:3}"
    ((code == $1)) || fail "$3: rank 0 exited with $code, not $1: $(cat err0 err1)"
    grep -qE -- "$2" out0 err0 err1 || fail "$3: no line says '$2': $(cat err0 err1)"
}

# Without MPI the data passes over Gloo. Ranks that have no Gloo have no way.
pair_exits 0 "^ddp: 2 ranks of 1 device, .* over gloo\$" run
grep -qF '"comm": "gloo"' run/run.json && ! grep -q '"MPI"' run/run.json || fail "the record does not name the transport of gradients"
pair_exits 2 "rank 1 has another --comm than rank 0" none -- --comm gloo
RANK=0 WORLD_SIZE=2 expect_error 2 "--comm local connects the threads of one process; for several" "${at[@]}" --comm local
export AMPSCALE_GLOO_MODULE=$scratch/none
pair_exits 1 "the processes cannot exchange data: .* Gloo is missing .rank 0: .*/none', which does not exist.;" none
pair_exits 1 "--comm gloo: rank 0: .*/none', which does not exist" none --comm gloo
[[ ! -e none ]] || fail "ranks without Gloo were refused, but made a folder"
unset AMPSCALE_GLOO_MODULE
pair_exits 2 "rank 1 .* has seed = 1, but rank 0" differs -- --seed 1
[[ $(cat err0 err1 | grep -c '^ampscale: ') == 1 ]] || fail "there is not one line that says how the ranks differ: $(cat err0 err1)"

# The secret comes from the environment or from a file, and appears in no record. A rank with
# another secret is refused.
umask 077
secret=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
export AMPSCALE_SECRET=$secret
pair_exits 0 "^ddp: 2 ranks" secured
! grep -rqF "$secret" secured out0 out1 err0 err1 || fail "the secret is in a record or a log"
chmod 600 secret
pair_exits 1 "refused connections: 1 with a wrong secret" from-file --comm-timeout 20 -- --secret-file secret
grep -q "rank 1 was refused at '127.0.0.1:.*: rank 0 has another secret" err1 || fail "$(cat err1)"
unset AMPSCALE_SECRET

# A warning says that a name is a loopback address, unless all ranks are known to be on this host.
touch hosts
if unshare -rm mount --bind hosts /etc/hosts 2>/dev/null; then
    joins_late late.invalid ""
    same_run "a name that is known later" run late.invalid
    [[ $(cat err0 err1 | grep -c "warning: .*'late.invalid' is a loopback address on this machine") == 1 ]] ||
        fail "there is not one warning about the loopback address: $(cat err0 err1)"
    joins_late local.invalid LOCAL_WORLD_SIZE=2
    ! grep "loopback" err0 err1 || fail "ranks on one host get a warning about the loopback address"
else
    echo "not tested: a name that is known later: unshare may not make a mount namespace"
fi

# Wrong uses of PyTorch's flags. (cli_seeds has the right ones.)
while IFS='|' read -r text args; do
    # shellcheck disable=SC2086 # several words
    expect_error 2 "$text" train "${net[@]}" $args --out none
done <<END
--dist-url 'file:///x': give env:// or tcp://HOST:PORT|--dist-url file:///x
--rank 2 is too high: --world-size 2 has ranks 0 to 1|--dist-url tcp://h:1 --world-size 2 --rank 2
no address to connect at|--world-size 2 --rank 1
give both, or RANK and WORLD_SIZE|--dist-url tcp://h:1 --world-size 2
start the processes by mpirun|--dist-backend mpi
give the rank of this node by --rank|--multiprocessing-distributed --world-size 2 --dist-url tcp://h:1
--init FILE|--pretrained
END
expect_error 2 "--gpu-ids: 2 GPUs were given, but this process has local rank 2" train --dummy --gpu-ids 0,1 --local_rank 2 --out none

# The launcher without MPI.
expect 0 launch --nproc-per-node 2 --nnodes 1 --log-dir logs train "${net[@]}" --out one-node
same_run "launch without MPI" run one-node
expect 0 launch --nproc 3 --log-dir logs bench collective allreduce --comm gloo -b 4 -e 64K -f 32 -n 1 -w 0 --csv
overlap=(launch --nnodes 1 --nproc 2 --log-dir logs bench overlap --devices ref --net resnet8 --image-size 16 -b 1 --rounds 1
    --bucket-mb 0.01)
expect 0 "${overlap[@]}" --comm gloo
for command in "${overlap[*]}" "${overlap[*]:0:7} bench collective allreduce -e 1K"; do
    # shellcheck disable=SC2086 # several words
    AMPSCALE_GLOO_MODULE=$scratch/none expect 1 $command
    grep -q "the processes cannot exchange data" err || fail "$command: $(<err)"
done
expect_error 2 "--comm gloo is for the processes of a job" bench collective allreduce --comm gloo
while IFS='|' read -r text args; do
    # shellcheck disable=SC2086 # several words
    expect_error 2 "$text" launch $args info
done <<END
--nnodes 2: give --rendezvous HOST:PORT, with node 0's address|--nproc 2 --nnodes 2
--node-rank 2: give 0 to 1|--nproc 2 --nnodes 2 --node-rank 2 --rendezvous h:1
--nproc 3: --nproc-per-node 2 gives 4 ranks|--nproc 3 --nproc-per-node 2 --nnodes 2
--nproc 3: not a multiple of --nnodes 2|--nproc 3 --nnodes 2 --rendezvous h:1
--master-addr 'h' and --rendezvous|--nproc 2 --master-addr h --rendezvous h:1
END
finish
