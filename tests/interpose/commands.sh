# shellcheck shell=bash disable=SC2034 # its variables are used by sweep.sh
# The commands that sweep.sh runs with failing calls. For each command there are four functions:
#
#     NAME_prepare   makes the inputs; stores a run without a fault in the folder "reference"
#     NAME_run       one attempt, into the folder "victim"; sets `code`, and writes out and err
#     NAME_again     the command that a user would run after a failure; sets `code`
#     NAME_same WHAT checks that "victim" has the same results as "reference"
#
# and two variables. NAME_only is the first argument of the processes whose calls fail. NAME_done is
# the exit code without a fault. The functions write to the current folder. sweep.sh sets `shared`
# to the folder in which it called NAME_prepare, and `fault` to the environment of an attempt.
export OMP_WAIT_POLICY=passive
unset RANK WORLD_SIZE LOCAL_RANK SLURM_PROCID AMPSCALE_SECRET AMPSCALE_JOB
tiny=(-a resnet8 --image-size 32 -b 8 --val-batch-size 2 --threads 1 -j 1 -p 1 --lr 0.05 --epochs 2)
limit_s=${AMPSCALE_SWEEP_LIMIT:-120}

# attempt PROGRAM-ARGS...: runs the program once in the environment of `fault`. Sets `code`, and
# writes out and err.
attempt() {
    code=0
    { timeout -k 5 "$limit_s" env "${fault[@]}" "$program" "$@" >out 2>err </dev/null || code=$?; } 2>/dev/null
}

# plainly PROGRAM-ARGS...: runs the program as `attempt` does, but without a fault.
plainly() {
    local fault=()
    attempt "$@"
}

# record_values DIR: prints the values of a run that do not depend on the clock.
record_values() {
    "$build_dir/tests/runners/run_values" "$1"
}

# same_record WHAT REFERENCE DIR FILE...: checks that the runs in DIR and REFERENCE have the same
# recorded values, and that each FILE has the same bytes.
same_record() {
    local what=$1 reference=$2 dir=$3 file
    for file in "${@:4}"; do
        cmp -s "$reference/$file" "$dir/$file" || fail "$what: '$file' differs"
    done
    [[ -s $reference.values ]] || record_values "$reference" >"$reference.values"
    record_values "$dir" >values 2>&1
    cmp -s "$reference.values" values ||
        fail "$what: the records differ: $(diff "$reference.values" values | head -n 4)"
}

# nothing_left WHAT DIR: checks that DIR has no temporary files.
nothing_left() {
    local left
    left=$(find "$2" -name '*.tmp*')
    [[ -z $left ]] || fail "$1: the temporary file '$left' remains"
}

# reference_of ARGS...: trains without a fault, into the folder "reference".
reference_of() {
    plainly train "$@" --out reference
    ((code == 0)) || fail "the run without a fault ended with exit code $code: $(<err)"
    record_values reference >reference.values
}

train_only=train train_done=0
train_prepare() {
    "$program" data synth --out data --classes 3 --train 12 --val 4 --size 48 >/dev/null || fail "no data"
    reference_of data "${tiny[@]}" --checkpoint-steps 3
}
train_run() {
    attempt train "$shared/data" "${tiny[@]}" --checkpoint-steps 3 --out victim
}
train_again() {
    plainly train "$shared/data" "${tiny[@]}" --checkpoint-steps 3 --out victim --resume auto
}
train_same() {
    same_record "$1" "$shared/reference" victim checkpoint.safetensors best.safetensors
    nothing_left "$1" victim
}

# Resumes a run that was stopped in its second epoch.
resume_only=train resume_done=0
resume_prepare() {
    train_prepare
    plainly train data "${tiny[@]}" --checkpoint-steps 3 --out half --steps 7
    ((code == 0)) || fail "the first half of the run ended with exit code $code: $(<err)"
}
resume_run() {
    cp -r "$shared/half" victim
    attempt train "$shared/data" "${tiny[@]}" --checkpoint-steps 3 --out victim --resume auto
}
resume_again() {
    train_again
}
resume_same() {
    train_same "$@"
}

# Two ranks of this machine connect over TCP. Calls of rank $ddp_rank fail.
ddp=("${tiny[@]}" -b 4 --mode ddp --comm-timeout 4)
ddp_only=train ddp_done=0 ddp_rank=0 ports=0
ddp_pair() {
    local rank port try pids=()
    for ((try = 0; try < 20; try++)); do
        port=$((20000 + (shard * 997 + 31 * ++ports) % 12000))
        for rank in 0 1; do
            local own=()
            ((rank != ddp_rank)) || own=("${fault[@]}")
            RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank timeout -k 5 "$limit_s" env "${own[@]}" "$program" train \
                "$@" --rendezvous "127.0.0.1:$port" >"out$rank" 2>"err$rank" </dev/null &
            pids[rank]=$!
        done
        codes=(0 0)
        for rank in 0 1; do
            wait "${pids[rank]}" || codes[rank]=$?
        done
        ! grep -q 'rank 0 cannot listen at .*in use' err0 || continue
        break
    done
    cat err0 err1 >err
    code=${codes[0]}
    ((code != 0 && codes[1] <= code)) || code=${codes[1]}
}
ddp_prepare() {
    "$program" data synth --out data --classes 3 --train 12 --val 4 --size 48 >/dev/null || fail "no data"
    local fault=() shard=0
    ddp_pair data "${ddp[@]}" --out reference
    ((code == 0)) || fail "the run without a fault ended with exit code $code: $(<err)"
    record_values reference >reference.values
}
ddp_run() {
    ddp_pair "$shared/data" "${ddp[@]}" --out victim
}
ddp_again() {
    local fault=()
    ddp_pair "$shared/data" "${ddp[@]}" --out victim --resume auto
}
ddp_same() {
    train_same "$@"
}
ddp1_only=train ddp1_done=0
ddp1_prepare() {
    ddp_prepare
}
ddp1_run() {
    local ddp_rank=1
    ddp_run
}
ddp1_again() {
    ddp_again
}
ddp1_same() {
    train_same "$@"
}

# In `launch`, calls of the launcher and of its rank supervisors fail. In `ranks`, calls of the
# ranks fail.
launch_only=launch launch_done=0
launch_all() {
    local out=$1
    shift
    "$@" launch --nproc 2 --log-dir "$out.log" -- train "$shared/data" "${ddp[@]}" --out "$out" --resume auto
}
launch_prepare() {
    "$program" data synth --out data --classes 3 --train 12 --val 4 --size 48 >/dev/null || fail "no data"
    local shared=$PWD
    launch_all reference plainly
    ((code == 0)) || fail "the run without a fault ended with exit code $code: $(<err)"
    record_values reference >reference.values
}
launch_run() {
    launch_all victim attempt
}
launch_again() {
    launch_all victim plainly
}
launch_same() {
    train_same "$@"
}
ranks_only=train ranks_done=0
ranks_prepare() {
    launch_prepare
}
ranks_run() {
    launch_run
}
ranks_again() {
    launch_again
}
ranks_same() {
    train_same "$@"
}

# The study has two cells with one run each. For one cell, the study generates image files.
study_only=study study_done=0
study_prepare() {
    cat >study.json <<END
{"schema": 1, "name": "tiny", "about": "for a test", "modes": {"nd": [1]},
 "precisions": ["fp32"], "archs": ["resnet8"], "batch": {"weak": [4]},
 "data": [{"name": "dummy", "classes": 3, "train": 16, "val": 4},
          {"name": "jpeg", "generate": {"classes": 3, "train": 4, "val": 2, "size": 48}}],
 "image_size": 32, "threads": 1, "workers": 1, "repeats": 1, "warmup_steps": 1,
 "measured_steps": 2, "limit_s": 60, "train": ["--lr", "0.05"]}
END
    plainly study study.json --no-report --out reference
    study_done=$code
    ((code == 0)) || [[ $(find reference -name summary.json | wc -l) == 2 ]] || fail "the run without a fault ended with exit code $code: $(<err)"
    study_list reference >reference.list
}
# study_list DIR: prints the files of the study in DIR, except lock files.
study_list() {
    (cd "$1" && find . -type f -not -name '*.lock' | sort)
}
study_run() {
    attempt study "$shared/study.json" --no-report --out victim
}
study_again() {
    plainly study "$shared/study.json" --no-report --out victim --retry
}
study_same() {
    local run
    study_list victim >list
    cmp -s "$shared/reference.list" list || fail "$1: other files: $(diff "$shared/reference.list" list | head -n 4)"
    for run in "$shared"/reference/cells/*/r1; do
        run=${run#"$shared/reference/"}
        same_record "$1, $run" "$shared/reference/$run" "victim/$run"
    done
    diff -rq -x "*.log" "$shared/reference/data" victim/data >diff || fail "$1: the generated data differ: $(head -n 2 diff)"
    nothing_left "$1" victim
}
studied_only=train studied_done=0
studied_prepare() {
    study_prepare
    studied_done=$study_done
}
studied_run() {
    study_run
}
studied_again() {
    study_again
}
studied_same() {
    study_same "$@"
}

# `accept` tests the memory, and trains twice for a few steps. Both losses must have the same bits.
accept_only=accept accept_done=0
accept_prepare() {
    cat >spec.json <<'END'
{"schema": 1, "name": "made", "about": "a test", "device": "cpu", "hardware": ["*"], "checks": [
 {"name": "memory", "kind": "memory", "level": 1, "seconds": 1, "limit_s": 60,
  "args": {"max_mib": 4, "iters": 1, "threads": 1}, "limits": {"wrong": {"max": 0}}},
 {"name": "bits", "kind": "train", "level": 1, "seconds": 1, "limit_s": 60, "repeats": 2,
  "args": {"arch": "resnet8", "image_size": 32, "batch": 2, "classes": 10, "steps": 2, "threads": 1},
  "limits": {"loss_bits": {"same": true}}}]}
END
    plainly accept --spec ./spec.json --out reference
    ((code == 0)) || fail "the run without a fault ended with exit code $code: $(<err)"
    accept_values reference >reference.values
}
# accept_values DIR: prints the names of the files in DIR, the verdicts, and the bits of the losses.
accept_values() {
    (cd "$1" && find . -type f | sort)
    python3 - "$1/accept.json" <<'END'
import json, sys

for check in json.load(open(sys.argv[1]))["checks"]:
    print(check["name"], check["verdict"])
    for metric in check.get("metrics", []):
        exact = metric["name"] in ("wrong", "loss_bits")
        print(" ", metric["name"], metric["verdict"], metric.get("values") if exact else "")
END
}
accept_run() {
    attempt accept --spec "$shared/spec.json" --out victim
}
accept_again() {
    if [[ -e victim/spec.json ]]; then
        plainly accept --spec "$shared/spec.json" --out victim --resume
    else
        plainly accept --spec "$shared/spec.json" --out victim
    fi
}
accept_same() {
    accept_values victim >values 2>&1
    cmp -s "$shared/reference.values" values || fail "$1: other results: $(diff "$shared/reference.values" values | head -n 8)"
    nothing_left "$1" victim
}
accepted_only=train accepted_done=0
accepted_prepare() {
    accept_prepare
}
accepted_run() {
    accept_run
}
accepted_again() {
    accept_again
}
accepted_same() {
    accept_same "$@"
}
