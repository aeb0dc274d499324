#!/usr/bin/env bash
# Training under a real Slurm that the test starts. Its daemons are ordinary processes with their
# own ports and files, and they do not affect a Slurm of the machine.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
. "$source_dir/tests/comm/mpi.sh"
cd "$scratch" || exit 1

PATH=$PATH:/usr/sbin:/sbin
for name in slurmctld slurmd srun sbatch salloc scancel sinfo squeue; do
    command -v "$name" >/dev/null || skip "no $name: Slurm is not installed"
done
unset "${!SLURM_@}" "${!SBATCH_@}" "${!SALLOC_@}"
case $("$build_dir/tests/comm/mpi_ranks" version) in
"Open MPI"*) pmi=pmix ;;
MPICH*) pmi=pmi2 ;;
none) skip "built without MPI" ;;
*) fail "the build does not say with which MPI" && finish ;;
esac

# --- the Slurm ---

# slurm_configure PORT: configures Slurm without delays. The node has two cores, even if the machine
# has fewer cores.
slurm_configure() {
    local host user
    host=$(uname -n)
    user=$(id -un)
    mkdir -p state spool
    cat >slurm.conf <<CONF
ClusterName=test
SlurmctldHost=${host%%.*}(127.0.0.1)
SlurmctldPort=$1
SlurmdPort=$(($1 + 1))
AuthType=auth/none
CredType=cred/none
SlurmUser=$user
SlurmdUser=$user
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/spool
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd.pid
SlurmctldLogFile=$scratch/slurmctld.log
SlurmdLogFile=$scratch/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TmpFS=$scratch/tmp
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
KillWait=5
NodeName=${host%%.*} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES State=UP
CONF
    export SLURM_CONF=$scratch/slurm.conf
}

# has COMMAND TEXT: whether the command prints the text. A daemon that hangs does not answer.
# shellcheck disable=SC2086 # several words
has() { [[ $(timeout 5 $1 2>/dev/null) == "$2" ]]; }

# slurm_ready: waits until the node accepts jobs, or a daemon has exited, for example because another
# process uses its port.
slurm_ready() {
    local i
    for ((i = 0; i < 100; i++)); do
        kill -0 "${daemons[@]}" 2>/dev/null || return 1
        ! has "sinfo -h -o %t" idle || return 0
        sleep 0.1
    done
    return 1
}

slurm_stop() {
    ((${#daemons[@]} > 0)) || return
    timeout 5 scancel -p test 2>/dev/null
    await 10 has "squeue -h" ""
    kill "${daemons[@]}" 2>/dev/null
    wait "${daemons[@]}" 2>/dev/null
    daemons=()
}

slurm_start() {
    local try
    for ((try = 0; try < 3; try++)); do
        slurm_configure $((20000 + RANDOM % 12000))
        slurmctld -D -c >slurmctld.out 2>&1 </dev/null &
        daemons=($!)
        slurmd -D >slurmd.out 2>&1 </dev/null &
        daemons+=($!)
        ! slurm_ready || return 0
        slurm_stop
    done
    skip "no Slurm can be started: $(grep -hE 'fatal|error' slurmctld.out slurmd.out slurmctld.log slurmd.log 2>/dev/null | tail -n 1)"
}

daemons=()
trap 'slurm_stop; rm -rf "$scratch"' EXIT
slurm_start
grep -qwE "$pmi" < <(srun --mpi=list 2>&1) || skip "this Slurm has no $pmi"

# --- training ---

own_program
net+=(--threads 1 -j 1)

# by_srun CODE WORD...: runs srun with the words, and checks its exit code.
by_srun() {
    local want=$1
    shift
    code=0
    timeout 60 srun "$@" >out 2>err </dev/null || code=$?
    ((code == want)) || fail "'srun $*' exited with $code, not $want: $(head -c 600 err)"
}

make_data data
by_srun 0 -n 2 --mpi="$pmi" "$program" train data "${net[@]}" --epochs 1 --out together
grep -q "^ddp: 2 ranks of" out || fail "rank 0 does not report 2 ranks: $(head -n 3 out)"

# If the tasks of a job cannot find each other, they fail with a message. Otherwise each task would
# train on all data.
by_srun 2 -n 2 --mpi=none "$program" train data "${net[@]}" --epochs 1 --out apart
grep -q "a launcher started 2 processes that cannot find each other" err || fail "srun without PMI does not say that the processes cannot find each other: $(<err)"
by_srun 2 -n 2 --mpi=none "$program" bench collective allreduce -e 4K
[[ ! -e apart ]] || fail "a run under srun without PMI was refused, but made its folder"

# Tasks without PMI connect to each other at a TCP address.
by_srun 0 -n 2 --mpi=none "$program" train data "${net[@]}" --epochs 1 --out address \
    --rendezvous "127.0.0.1:$((32000 + RANDOM % 700))"
grep -qE '"comm": "(gloo|tcp)"' address/run.json || fail "the ranks did not exchange gradients by TCP"

# In a Slurm allocation, `ampscale launch` starts one rank for each task.
timeout 60 salloc -Q -n 2 "$program" launch --log-dir logs -- info --list >out 2>err </dev/null || fail "launch under salloc failed: $(<err)"
cmp out <("$program" info --list) || fail "launch under salloc printed other lines than the command itself: $(<err)"
[[ -e logs/rank-1.log && ! -e logs/rank-2.log ]] || fail "launch in an allocation did not start two ranks: $(<err)"

# --- a batch job that is stopped, and resumes when it is submitted again ---

cat >job.sh <<JOB
#!/bin/bash
srun --mpi=$pmi $program train data ${net[*]} --epochs 60 --out batch --resume auto
JOB

submit() { sbatch -Q -n 2 --open-mode=append -o job.out job.sh >sbatch.out 2>&1 || fail "sbatch: $(<sbatch.out)"; }

submit
await 20 test -s batch/steps.jsonl
scancel --signal=USR1 -p test
await 20 has "squeue -h" ""
grep -q "^ampscale: stopped by SIGUSR1 at epoch" job.out || fail "SIGUSR1 did not stop the run in an orderly way: $(<job.out)"
[[ ! -e batch/summary.json ]] || fail "a stopped run has a summary"
submit
await 40 test -e batch/summary.json
by_srun 0 -n 2 --mpi="$pmi" "$program" train data "${net[@]}" --epochs 60 --out whole
same_run "a batch job that resumed" whole batch

# --- a rank that is killed ---

timeout 60 srun -n 2 --mpi="$pmi" "$program" train "${net[@]}" --dummy --dummy-train 800000 \
    --dummy-val 8 --classes 3 --epochs 1 --out killed >out 2>err </dev/null &
pid=$!
await 20 test -s killed/steps.jsonl
kill -KILL "$(own_ranks | sed -n 's/^1 //p')"
code=0
wait "$pid" || code=$?
((code != 0 && code != 124)) || fail "after a rank was killed, srun exited with $code"
none_left "a job with a killed rank"
grep -qE 'task 1: Killed|^ampscale: rank 1 ' err || fail "no message names the killed rank: $(<err)"
finish
