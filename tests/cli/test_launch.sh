#!/usr/bin/env bash
# ampscale launch: the command lines that it runs, and its behaviour when mpirun ends. Scripts
# replace mpirun; test_launch_ranks.sh runs real ranks.
. "$(dirname "$0")/common.sh" "$@"
cd "$scratch" || exit 1
unset "${!OMP_@}" "${!KMP_@}" "${!MKL_@}" "${!DNNL_@}" "${!ONEDNN_@}" "${!NCCL_@}" "${!CUDNN_@}" "${!CUDA_@}" "${!UCX_@}" "${!FI_@}" \
    "${!AMPSCALE_@}" "${!NVIDIA_@}" LD_LIBRARY_PATH SLURM_NTASKS
export GOMP_SPINCOUNT=1
binary=$(realpath "$program")

# play NAME VERSION BODY: makes a script NAME that replaces mpirun. For each start, the script
# appends a line with its arguments to NAME.args.
play() {
    printf '#!/usr/bin/env bash\n[[ $1 != --version ]] || { echo "%s"; exit 0; }\nprintf "%%s " "$@" >>%q\necho >>%q\n%s\n' \
        "$2" "$scratch/$1.args" "$scratch/$1.args" "$3" >"$1"
    chmod +x "$1"
}
play ompi "mpirun (Open MPI) 4.1.4" ""
play mpich "HYDRA build details:" ""
play other "Some starter 1.0" ""

# Errors of the command line.
launch=(launch --mpirun ./ompi --nproc 2)
expect_error 2 "no command" launch --nproc 2
expect_error 2 "cannot launch 'nonesuch'" launch --nproc 2 nonesuch
expect_error 2 "cannot launch 'main.py': ampscale's own trainer" launch --nproc 2 main.py --lr 1
expect_error 2 "cannot launch 'launch'" "${launch[@]}" -- launch --nproc 2 -- info
expect_error 2 "the number of ranks is missing" launch --mpirun ./ompi -- info
expect_error 2 "--nproc 5: the hosts have 4 slots" launch --nproc 5 --hosts a:3,b -- info
expect_error 2 "host 2 of 'b,a:0': '0' is not a number of slots" launch --hosts b,a:0 -- info
expect_error 2 "host 1 of '-oProxyCommand=id': '-oProxyCommand=id' is not a host's name" launch --hosts=-oProxyCommand=id info
expect_error 2 "'fd00::1': mpirun takes no IPv6 address" launch --mpirun ./ompi --hosts '[fd00::1]:2' -- info
expect_error 2 "--nnodes 3: mpirun needs all 2 hosts" launch --mpirun ./ompi --nnodes 3 --hosts a,b -- info
expect_error 2 "--min-nodes 1: mpirun needs all 2 hosts" launch --mpirun ./ompi --nnodes 1:2 --hosts a,b -- info
expect_error 2 "--rendezvous 'a:1': mpirun's ranks connect by MPI" launch --mpirun ./ompi --rendezvous a:1 --hosts a,b -- info
expect_error 2 "--rendezvous 'a': give HOST:PORT" launch --nproc 2 --nnodes 2 --rendezvous a -- info
expect_error 2 "--nnodes '4:2'" launch --nnodes 4:2 info
for where in "--comm local -- train" "-- train --comm local"; do
    # shellcheck disable=SC2086 # $where holds arguments
    expect_error 2 "--comm local connects only the threads of one process; for ranks give --comm gloo or mpi" launch --nproc 2 $where
done
expect_error 1 "or run the same command line on each node with --nnodes, --node-rank and --rendezvous" launch --mpirun ./nosuchmpi --hosts a,b -- info
expect_error 2 "--bind 'sockets'" "${launch[@]}" --bind sockets -- info
expect_error 2 "--restarts" "${launch[@]}" --restarts 1 -- train --dummy
expect_error 2 "no launcher names the rank of this process" launch --as-rank -- info
printf 'a slots=2\nb slots=x\n' >hosts
expect_error 2 "line 2 of 'hosts'" launch --hostfile hosts -- info
echo '# nobody' >hosts
expect_error 2 "'hosts' names no host" launch --hostfile hosts -- info
expect_error 1 "cannot run './nosuchmpi'" launch --mpirun ./nosuchmpi --nproc 2 -- info
expect_error 1 "neither Open MPI's nor MPICH's" launch --mpirun ./other --nproc 2 -- info
[[ ! -e ompi.args ]] || fail "mpirun was started for a refused command line"

# Logs are not written through links, and no pipe is waited for.
mkdir made && echo precious >precious
place=(env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1)
for make in "ln -s ../precious" mkfifo; do
    $make made/mpirun.log
    "${limited[@]}" "$program" "${launch[@]}" --log-dir made -- info >out 2>err </dev/null && fail "launch wrote to a log made by '$make'"
    one_line "a log made by '$make'" "made/mpirun.log': not a regular file"
    $make made/rank-0.log
    "${limited[@]}" "${place[@]}" "$program" launch --as-rank --log-dir made -- info >out 2>err </dev/null && fail "a rank wrote to a log made by '$make'"
    one_line "a rank's log made by '$make'" "made/rank-0.log': not a regular file"
    rm made/*
done
[[ $(<precious) == precious ]] || fail "a log was written through a link"

# dry_run MPIRUN_LINE SRUN_LINE ARGS...: checks that --dry-run prints these two command lines.
dry_run() {
    local want
    want=$(printf '# command of launch\n%s\n# the same with Slurm\n%s' "$1" "$2")
    shift 2
    expect 0 launch --dry-run "$@"
    [[ $(<"$scratch/out") == "$want" ]] || fail "launch --dry-run $* prints other commands: $(diff <(echo "$want") "$scratch/out")"
}
root=
((EUID != 0)) || root="--allow-run-as-root "
keep="$binary launch --as-rank --log-dir"
# Each core is a slot of Open MPI. Only more ranks than cores are oversubscribed, and then wait without spinning.
slots=--use-hwthread-cpus
(($(nproc) >= 2)) || slots=--oversubscribe
dry_run "./ompi -n 2 ${root}$slots --bind-to none $keep $PWD/r/a-logs --threads 3 -- train --dummy --out r/a/" \
    "srun --mpi=pmix --ntasks=2 --cpus-per-task=3 $binary train --dummy --out r/a/" \
    --mpirun ./ompi --nproc 2 --threads 3 -- train --dummy --out r/a/
dry_run "./ompi -n 5000 ${root}--oversubscribe --bind-to none $keep /l --bind none -- info" \
    "srun --mpi=pmix --ntasks=5000 --cpus-per-task=1 $binary info" --mpirun ./ompi --nproc 5000 --bind none --log-dir /l -- info
SLURM_NTASKS=3 dry_run "./mpich -n 3 -iface lo $keep $PWD/runs/info-001-logs --threads 1 -- info 'a b' 'it'\\''s' ''" \
    "srun --mpi=pmi2 --ntasks=3 --cpus-per-task=1 $binary info 'a b' 'it'\\''s' ''" \
    --mpirun ./mpich --threads 1 -- info 'a b' "it's" ''
OMP_PLACES=cores dry_run "./ompi -n 6 ${root}--host a:4,b:2 --bind-to none -x OMP_PLACES -x GOMP_SPINCOUNT --mca btl self $keep /l --threads 1 --bind cores -- info" \
    "srun --mpi=pmix --nodes=2 --nodelist a,b --ntasks-per-node=4 --ntasks=6 --cpus-per-task=1 $binary info" \
    --mpirun ./ompi --hosts a:4,b:2 --threads 1 --bind cores --log-dir /l \
    --mpi-arg --mca --mpi-arg btl --mpi-arg self -- info
printf '\xef\xbb\xbfa slots=1 max_slots=8 # first\n\nb:2\r\na\n' >hosts
dry_run "./mpich -n 3 -hosts a:2,b:1 -genv X 1 $keep /l --threads 1 --bind none -- info" \
    "srun --mpi=pmi2 --nodes=2 --nodelist a,b --ntasks-per-node=2 --ntasks=3 --cpus-per-task=1 $binary info" \
    --mpirun ./mpich --hostfile hosts --nproc 3 --threads 1 --log-dir /l \
    --mpi-arg -genv --mpi-arg X --mpi-arg 1 -- info
# Ranks of mpirun that connect by Gloo find the first host in the environment.
dry_run "./mpich -n 2 -hosts a:1,b:1 -genv MASTER_ADDR a -genv MASTER_PORT 7 $keep /l -- info --comm gloo" \
    "srun --mpi=pmi2 --nodes=2 --nodelist a,b --ntasks-per-node=1 --ntasks=2 --cpus-per-task=$(nproc) $binary info --comm gloo" \
    --mpirun ./mpich --hosts a,b --master-port 7 --log-dir /l --comm gloo -- info
expect 0 launch --dry-run --mpirun ./ompi --hosts a,b --rendezvous '[fd00::1]:7' --comm gloo -- info
grep -qF -- " -x 'MASTER_ADDR=[fd00::1]' -x MASTER_PORT=7 " out || fail "the address of --rendezvous is not passed on: $(<out)"
# Without --comm, a job connects by Gloo only if there is no mpirun, not if it fails: MPI's sums differ.
mkdir broken none
printf '#!/bin/sh\necho "no library" >&2\nexit 127\n' >broken/mpirun
chmod +x broken/mpirun
if [[ $("$build_dir/tests/comm/mpi_ranks" version) != none ]]; then
    PATH=$PWD/broken:$PATH expect_error 1 "no library; install Open MPI or MPICH" launch --dry-run --nproc 2 -- info
fi
PATH=$PWD/none expect 0 launch --dry-run --nproc 2 -- info
# Variables that change numbers are passed on.
env GOMP_CPU_AFFINITY=0 NVIDIA_TF32_OVERRIDE=0 CUDA_MODULE_LOADING=LAZY UCX_TLS=all FI_PROVIDER=tcp KMP_AFFINITY=none MKL_NUM_THREADS=1 \
    DNNL_VERBOSE=0 ONEDNN_VERBOSE=0 NCCL_DEBUG=WARN CUDNN_LOGINFO_DBG=0 AMPSCALE_JOB=j LD_LIBRARY_PATH=/l \
    "$program" launch --dry-run --mpirun ./ompi --hosts a,b -- info >out
for variable in GOMP_CPU_AFFINITY NVIDIA_TF32_OVERRIDE CUDA_MODULE_LOADING UCX_TLS FI_PROVIDER KMP_AFFINITY MKL_NUM_THREADS DNNL_VERBOSE \
    ONEDNN_VERBOSE NCCL_DEBUG CUDNN_LOGINFO_DBG AMPSCALE_JOB LD_LIBRARY_PATH; do
    grep -q -- " -x $variable " out || fail "$variable is not passed to other hosts: $(<out)"
done
[[ ! -e ompi.args && ! -e mpich.args && ! -e r && ! -e runs ]] || fail "--dry-run did something: $(ls)"

# started CODE BODY ARGS...: launches with a script that executes BODY in place of mpirun. Checks
# the exit code, and that the first line of stderr says where the logs are. Stores the other lines
# of stderr in $scratch/said.
started() {
    local want=$1
    play body "mpirun (Open MPI) 4.1.4" "$2"
    shift 2
    rm -f body.args
    expect "$want" launch --mpirun ./body --nproc 2 --log-dir logs "$@"
    grep -qF "'$PWD/logs/rank-N.log'" < <(head -n 1 err) || fail "the first line of 'launch $*' is '$(head -n 1 err)'"
    tail -n +2 err >said
}

# says LINE...: checks that stderr has exactly these lines after its first line.
says() {
    [[ $(<said) == "$(printf '%s\n' "$@")" ]] || fail "launch says '$(<said)', not '$*'"
}

# launch runs the command that --dry-run prints.
started 0 "echo hello; echo chatter >&2; echo 'ampscale: warning: beware' >&2" -- info
says "ampscale: warning: beware"
[[ $(<out) == hello ]] || fail "rank 0's output: '$(<out)'"
[[ "./body $(<body.args)" == "$("$program" launch --dry-run --mpirun ./body --nproc 2 --log-dir logs -- info | sed -n 2p) " ]] ||
    fail "launch ran '$(<body.args)'"
grep -qx chatter logs/mpirun.log || fail "mpirun.log: $(<logs/mpirun.log)"

# The first failure that a rank reports determines the exit code and the message. Other messages
# stay in mpirun's log.
one="ampscale: rank 1 (host h, pid 7) exited with code 5: no such thing"
alone="ampscale: rank 0 (host h, pid 8) exited with code"
killed="ampscale: rank 1 (host h, pid 7) was killed by signal 9 (SIGKILL)"
started 5 "echo '$one' >&2; echo '$alone 1: alone' >&2; echo noise >&2; exit 5" -- info
says "$one"
# Open MPI 5 ends its messages with a NUL, and a progress bar may precede a message on the same line.
for before in '\0' '\rEpoch: [0] [=>] 1/30\033[K'; do
    started 5 "printf 'noise\n$before%s\n' '$one' >&2; exit 5" -- info
    says "$one"
done
started 5 "echo 'ampscale: no such thing' >&2; echo '$one' >&2; exit 77" -- info
says "ampscale: no such thing"
started 5 "echo 'ampscale: no such thing' >&2; echo 'ampscale: warning: beware' >&2; echo '$one' >&2; exit 77" -- info
says "ampscale: no such thing" "ampscale: warning: beware"
started 1 "echo '$alone 1: rank 1 (host h, pid 7) did not answer' >&2; exit 1" -- info
says "ampscale: rank 1 (host h, pid 7) did not answer"
started 137 "echo '$killed' >&2; exit 9" -- info
says "$killed"
started 4 "echo '$alone 4: lost rank 1' >&2; echo '$killed' >&2; exit 9" -- info
says "$alone 4: lost rank 1" "$killed"
started 3 "echo '$alone 3' >&2; exit 0" -- info
says "ampscale: rank 0 (host h, pid 8) exited with code 3"
# MPI itself ended the rank: mpirun's lines say why, before the report or after it, but not those that
# say that a rank has ended.
why="echo '-----' >&2; echo 'At least one pair of MPI processes are unable to reach each other' >&2"
because="mpirun: At least one pair of MPI processes are unable to reach each other"
ends="echo '-----' >&2; echo 'Primary job  terminated normally, but 1 process returned' >&2; echo 'a non-zero exit code.' >&2; exit 1"
for both in "$why; echo '$alone 1' >&2" "echo '$alone 1' >&2; $why"; do
    started 1 "echo 'chatter of rank 0' >&2; $both; $ends" -- info
    says "$because" "$alone 1; mpirun's output is in '$PWD/logs/mpirun.log'"
done
started 1 "echo '[vm:7] ORTE_ERROR_LOG: Data unpack would read past end of buffer' >&2; echo '$alone 1' >&2; $ends" -- info
says "$alone 1; mpirun's output is in '$PWD/logs/mpirun.log'"
started 1 "echo '$alone 1' >&2; echo '[vm:7] *** An error occurred in MPI_Init_thread' >&2; $ends" -- info
says "mpirun: [vm:7] *** An error occurred in MPI_Init_thread" "$alone 1; mpirun's output is in '$PWD/logs/mpirun.log'"
# A verdict has no other reason; what rank 0 has printed is none.
started 4 "echo '[1/5] PASS' >&2; echo '$alone 4' >&2; $ends" -- info
says "$alone 4"
# A rank that ends without a reason because another was lost does not hide it.
started 137 "echo '$alone 1' >&2; echo '$killed' >&2; exit 9" -- info
says "$killed"
started 5 "echo '$alone 1' >&2; echo '$one' >&2; exit 9" -- info
says "$one"
started 137 "echo '$alone 1: rank 1 (host h, pid 7) was lost' >&2; echo '$killed' >&2; exit 9" -- info
says "ampscale: rank 1 (host h, pid 7) was lost" "$killed"
lost="rank 0: the connection to rank 1 failed in operation 2 (allgather): the connection was closed"
started 137 "echo '$alone 1: $lost' >&2; echo '$killed' >&2; exit 9" -- info
says "ampscale: $lost" "$killed"
started 5 "mkdir -p logs; echo '${alone/rank 0/rank 1} 5' | tee logs/rank-1.log >&2; echo '$alone 5: rank 1: no data' >&2; exit 9" -- info
says "ampscale: rank 1: no data"
started 5 "echo '$alone 5' >&2; echo 'ampscale: rank 1 (host h, pid 7) had failed before the launcher ended it: no such thing' >&2; exit 9" -- info
started 135 "echo 'ampscale: rank 1 (host h, pid 7) was killed by signal 7 (SIGBUS; is /dev/shm full?)' >&2; exit 9" -- info

# If mpirun itself fails, its first informative lines are shown, with the path of the log that has
# all lines.
rm -r logs
started 1 "printf -- '-----\nThere are not enough slots\n\n  info\na\nb\nc\n' >&2; exit 213" -- info
says "mpirun: There are not enough slots" "mpirun:   info" "mpirun: a" "mpirun: b" \
    "ampscale: mpirun failed with exit code 213; its output is in '$PWD/logs/mpirun.log'"
grep -qx c logs/mpirun.log || fail "mpirun.log: $(<logs/mpirun.log)"
started 1 "kill -9 \$\$" -- info
says "ampscale: mpirun was killed by signal 9 (SIGKILL), together with the ranks"

# Open MPI has no space for its session files: the ranks end in MPI_Init, with a last line that
# gives no reason. A job that succeeds without these files has no such message.
full='[vm:7] PMIX ERROR: OUT-OF-RESOURCE in file ../../dstore_segment.c at line 208'
hint="ampscale: mpirun has no space for its session files in TMPDIR or '/tmp', or too few file descriptors: free some space, or raise 'ulimit -n'"
started 1 "echo '$full' >&2; echo '$alone 1: [vm:8] PMIX ERROR: ERROR in file ../../gds.c' >&2; exit 1" -- info
says "$alone 1: [vm:8] PMIX ERROR: ERROR in file ../../gds.c" "$hint"
started 1 "echo '$full' >&2; exit 1" -- info
[[ $(<said) == *"mpirun: $full"* && $(<said) == *"$hint"* ]] || fail "launch does not say what is full: $(<said)"
started 0 "echo '$full' >&2" -- info
says

# Hydra prints a banner to stdout. launch does not show it.
play hydra "HYDRA build details:" "printf 'mine\n====================\n=   BAD TERMINATION\n'; exit 9"
expect 1 launch --mpirun ./hydra --nproc 2 --log-dir logs -- info
[[ $(<out) == mine ]] || fail "Hydra's banner is shown: '$(<out)'"

# restarted TIMES CODE BODY ARGS...: checks that mpirun was started TIMES times, and that each start
# except the first resumes the run.
restarted() {
    local times=$1
    started "${@:2}" -- train --dummy --out run
    (($(wc -l <body.args) == times)) || fail "mpirun was started $(wc -l <body.args) times, not $times"
    (($(grep -c -- '--out run --resume auto $' body.args) == times - 1)) && ! grep -q -- --resume < <(head -n 1 body.args) ||
        fail "not the restarts alone resume: $(<body.args)"
}
fails="echo 'ampscale: rank 1 (host h, pid 7) exited with code 1: bad luck' >&2; exit 1"
trains="mkdir -p run && touch run/checkpoint.safetensors"
restarted 1 1 "$fails" --restarts 2 # there is no checkpoint
restarted 3 1 "$trains; $fails" --restarts 2
grep -qx 'ampscale: restart 2 of 2, from the last checkpoint' said || fail "$(<said)"
restarted 1 1 "$fails" --restarts 2 # the checkpoint is of an earlier run, which train refuses to continue
rm -r run
restarted 2 0 "$trains; (( \$(wc -l <'$scratch/body.args') == 2 )) || { $fails; }" --restarts 9
rm -r run
restarted 1 2 "$trains; echo 'ampscale: rank 1 (host h, pid 7) exited with code 2: what' >&2; exit 2" --restarts 2
restarted 1 1 "$fails"
# Nor is a folder with another run's checkpoint continued because the job was to begin at a third one.
mkdir -p third run && touch third/checkpoint.safetensors run/checkpoint.safetensors
play body "mpirun (Open MPI) 4.1.4" "$fails"
for from in third/checkpoint run/older run/checkpoint written; do
    rm -f body.args
    [[ $from != written ]] || play body "mpirun (Open MPI) 4.1.4" "$trains; $fails" # the job's own checkpoint
    expect 1 launch --mpirun ./body --nproc 2 --restarts 1 --log-dir l -- train --dummy --out run --resume $from.safetensors
    times=1
    [[ $from != run/checkpoint && $from != written ]] || times=2
    (($(wc -l <body.args) == times)) || fail "--resume $from.safetensors: mpirun was started $(wc -l <body.args) times, not $times"
done
# Nor is its newest checkpoint continued if the job was to begin at an epoch before it.
rm body.args
play body "mpirun (Open MPI) 4.1.4" "$fails"
expect 1 launch --mpirun ./body --nproc 2 --restarts 1 --log-dir l -- train --dummy --out run --resume run/checkpoint.safetensors --start-epoch 1
(($(wc -l <body.args) == 1)) || fail "--start-epoch: mpirun was started $(wc -l <body.args) times, not once"
# Nor is a run continued that another process writes.
mkdir -p held && touch held/checkpoint.safetensors
flock --no-fork held sleep 1000 &
await 20 bash -c '! flock -n held true'
for from in "" "--resume third/checkpoint.safetensors" "--resume held/checkpoint.safetensors"; do
    # shellcheck disable=SC2086 # two words
    expect 2 launch --comm gloo --nproc 2 --restarts 1 --log-dir h -- train --dummy -a resnet8 --classes 3 --image-size 32 --out held $from
    grep -q "'held' is in use: another process writes its run there" err && ! grep -q restart err || fail "a run of another process, '$from': $(<err)"
done
# A process that is stopped while it waits for the folder is stopped.
"$program" train --dummy -a resnet8 --classes 3 --image-size 32 --threads 1 --out held --resume auto >out 2>err &
sleep 1
code=0
{ kill -TERM $! && wait $!; } || code=$?
((code == 143)) || fail "stopped while it waits: $code, $(<err)"
kill %1 && wait %1 2>/dev/null
# Logs are named after nothing that cannot be looked at.
ln -s runs runs
expect_error 1 "cannot look for 'runs/train-001-logs': Too many levels of symbolic links" launch --comm gloo --nproc 2 -- train --dummy -a resnet8

# launch waits only --start-timeout seconds for an mpirun that starts no rank.
play idle "mpirun (Open MPI) 4.1.4" "exec sleep 300"
expect 1 launch --mpirun ./idle --nproc 2 --start-timeout 1 --log-dir idle-logs -- train --dummy
grep -q "rank 0 of 2 did not start within 1 s: mpirun is still waiting" err || fail "stderr does not say that mpirun is still waiting: $(<err)"

# Hydra waits like that for a host that ssh cannot reach. The rank of the other host has started.
play unreached "mpirun (Open MPI) 4.1.4" "echo 'ampscale: rank 0 (host a, pid 7) has started' >&2
echo 'ssh: connect to host b port 22: Connection timed out' >&2
exec sleep 300"
expect 1 launch --mpirun ./unreached --hosts a,b --start-timeout 1 --log-dir unreached-logs -- train --dummy
grep -q "^mpirun: ssh: connect to host b port 22: Connection timed out$" err || fail "stderr lacks the reason of ssh: $(<err)"
grep -q "rank 1 of 2 did not start within 1 s: mpirun is still waiting; check that ssh reaches each host" err || fail "stderr does not name the rank that did not start: $(<err)"
! grep -q "has started" err || fail "the start of a rank is shown: $(<err)"
finish
