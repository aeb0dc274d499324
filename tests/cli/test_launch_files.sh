#!/usr/bin/env bash
# Checks the files of docs/launch. The parts of each manifest agree. The command lines of their pods, with
# small settings on CPUs, start jobs that complete. The batch script requeues a job only if the job
# can continue. Before a spot instance is interrupted, the run stops in an orderly way.
. "$(dirname "$0")/common.sh" "$@"
cd "$scratch" || exit 1
unset OMPI_COMM_WORLD_RANK PMI_RANK RANK WORLD_SIZE LOCAL_RANK SLURM_PROCID MASTER_ADDR MASTER_PORT
files=$source_dir/docs/launch
small=(-b 2 --epochs 1 --image-size 16 --val-batch-size 4 --workers 1 -p 100 --telemetry 0 --comm-timeout 100)
"$program" data synth --out data --classes 2 --train 16 --val 8 --size 32 >log 2>&1 || { fail "data synth failed: $(cat log)" && finish; }

# --- Kubernetes ---

python=
for name in python3 /usr/bin/python3; do
    [[ -n $python ]] || ! "$name" -c 'import yaml' 2>/dev/null || python=$name
done
manifests() { "$python" "$source_dir/tests/package/manifests.py" "$@"; }

# pod_args FILE REPLICA: fills `words` with the arguments of a pod, changed to use this machine's
# CPUs.
pod_args() {
    mapfile -t words < <(manifests args "$files/kubernetes/$1" "$2" | sed -E -e 's#/work/data/imagenet#data#; s#/work/##' \
        -e 's/=resnet50/=resnet8/; s/=cuda$/=cpu/; s/--nproc-per-node=8/--nproc-per-node=1/' -e "s/ampscale-0\.ampscale:[0-9]+/127.0.0.1:$port/")
}

# pod RUN: starts a pod with `words`.
pod() {
    timeout -k 5 200 "$program" "${words[@]}" "${small[@]}" >>"$1.out" 2>>"$1.err" </dev/null &
    pids+=($!)
}

# pods_end RUN: waits for the started pods; checks that the run is complete, and has two ranks.
pods_end() {
    local pid
    for pid in "${pids[@]}"; do
        wait "$pid" || fail "$1: a pod ended with exit code $?: $(<"$1.err")"
    done
    [[ -s runs/$1/summary.json ]] && grep -q "ddp: 2 ranks" "$1.out" || fail "$1: not a complete run of two ranks: $(<"$1.out")"
    pids=()
}

if [[ -z $python ]]; then
    echo "the manifests were not tested: no Python has the module yaml (apt-get install python3-yaml)"
else
    manifests check "$files"/kubernetes/*.yaml >log 2>&1 || fail "manifests: $(cat log)"
    sed 's/subdomain: .*/subdomain: other/' "$files/kubernetes/indexed-job.yaml" >bad.yaml
    ! manifests check bad.yaml >log 2>&1 && grep -q "'other' here" log || fail "a pod of another service was accepted: $(cat log)"

    export AMPSCALE_SECRET=0123456789abcdef0123456789abcdef
    port=$((20000 + RANDOM % 12000)) pids=()
    for index in 0 1; do
        pod_args indexed-job.yaml Pod
        # shellcheck disable=SC2016 # Kubernetes expands $(NODE_RANK)
        words=("${words[@]/'$(NODE_RANK)'/$index}")
        pod indexed-job
    done
    pods_end indexed-job

    port=$((port + 1)) replicas=(Master Worker)
    for rank in 0 1; do
        pod_args pytorchjob.yaml "${replicas[rank]}"
        RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port PET_NNODES=2 pod pytorchjob
    done
    pods_end pytorchjob
    unset AMPSCALE_SECRET

    printf 'ampscale-worker-%d.ampscale.default.svc slots=8\n' 0 1 >hostfile
    pod_args mpijob.yaml Launcher
    words=("${words[@]/\/etc\/mpi\/hostfile/hostfile}")
    run launch --dry-run "${words[@]:1}"
    ((code == 0)) && grep -q 'ampscale-worker-1' out || [[ $(<err) == *mpirun* ]] || fail "the MPIJob failed without naming mpirun: $(cat out err)"
fi

# --- Slurm ---

mkdir bin && export TEST_SLURM=$scratch/slurm.log
# shellcheck disable=SC2016 # the written scripts expand these variables
{
    printf '#!/bin/bash\necho "srun $*" >>"$TEST_SLURM"\nexit ${TEST_CODE}\n' >bin/srun
    printf '#!/bin/bash\necho "scontrol $*" >>"$TEST_SLURM"\n' >bin/scontrol
}
chmod +x bin/*
# slurm CODE RESTARTS RUN: runs the batch script with an srun that exits with CODE; slurm.log has the calls
# of srun and scontrol.
slurm() {
    : >"$TEST_SLURM"
    TEST_CODE=$1 SLURM_RESTART_COUNT=$2 SLURM_JOB_ID=7 SLURM_JOB_NAME=job SLURM_CPUS_PER_TASK=8 AMPSCALE_RUN=$3 \
        PATH=$scratch/bin:$PATH bash "$files/slurm.sbatch" data -a resnet8 >log 2>&1
    [[ $? == "$1" ]] || fail "slurm.sbatch does not end with srun's exit code $1: $(cat log)"
    grep -q "^srun .* ampscale train data -a resnet8 --mode ddp --out $3 --resume auto" slurm.log || fail "slurm.sbatch: $(cat slurm.log)"
}
for code in 1 143; do
    slurm $code 0 runs/stopped
    grep -qx 'scontrol requeue 7' slurm.log || fail "slurm.sbatch does not requeue a job after exit code $code"
done
mkdir -p complete && touch complete/summary.json
for refused in "2 0 runs/usage" "1 20 runs/often" "1 0 complete" "0 0 runs/done"; do
    # shellcheck disable=SC2086 # $refused holds three arguments
    slurm $refused
    ! grep -q requeue slurm.log || fail "slurm.sbatch requeues after '$refused'"
done

# --- EC2 ---

sh -n "$files/container-setup" || fail "container-setup"
# A script replaces curl: EC2's service gives a token, and wants it in later requests.
cat >bin/curl <<'END'
#!/bin/sh
case "$*" in
*-X\ PUT*/latest/api/token) echo a-token ;;
*X-aws-ec2-metadata-token:\ a-token*/latest/meta-data/spot/instance-action) cat interruption ;;
*) exit 22 ;;
esac
END
chmod +x bin/curl
export EC2_POLL_S=0.2 PATH=$scratch/bin:$PATH
timeout 300 "$files/ec2-spot" "$program" train data -a resnet8 "${small[@]}" --epochs 100000 --out runs/spot >spot.out 2>spot.err </dev/null &
spot=$!
await 60 test -s runs/spot/epochs.jsonl
echo '{"action": "terminate"}' >interruption
code=0 && wait $spot || code=$?
((code == 143)) && grep -q 'will be interrupted: {"action": "terminate"}' spot.err || fail "ec2-spot does not report the interruption (exit code $code): $(cat spot.err)"
grep -q '"signal"' runs/spot/outcome.json || fail "the run did not stop by the signal: $(cat runs/spot/outcome.json)"
rm interruption
code=0 && timeout 100 "$files/ec2-spot" sh -c 'exit 3' >spot.out 2>&1 || code=$?
((code == 3)) || fail "the exit code of ec2-spot is $code, not the run's 3: $(cat spot.out)"
finish
