# shellcheck shell=bash disable=SC2034,SC2154 # sweep.sh uses and sets its variables
# The commands that sweep.sh runs with failing calls. For each command there are four functions:
#
#     NAME_prepare   makes the inputs; stores a run without a fault in the folder "reference"
#     NAME_run       one attempt, into the folder "victim"; sets `code`, and writes out and err
#     NAME_again     the command that a user would run after a failure; sets `code`
#     NAME_same WHAT checks that "victim" has the same results as "reference"
#
# The functions write to the current folder. sweep.sh sets `shared` to the folder in which it called
# NAME_prepare, and `fault` to the environment of an attempt. NAME_prepare sets `done_code` if the
# exit code without a fault is not 0. Source this file after cli/train.sh.
unset RANK WORLD_SIZE LOCAL_RANK SLURM_PROCID AMPSCALE_SECRET AMPSCALE_JOB
tiny=(-a resnet8 --image-size 32 -b 8 --val-batch-size 2 --threads 1 -j 1 -p 1 --lr 0.05 --epochs 2)
limit_s=${AMPSCALE_SWEEP_LIMIT:-120} done_code=0

# attempt PROGRAM-ARGS...: runs the program once in the environment of `fault`. Sets `code`, and
# writes out and err.
attempt() {
    code=0
    { timeout -k 5 "$limit_s" env "${fault[@]}" "$program" "$@" >out 2>err </dev/null || code=$?; } 2>/dev/null
}

# plainly COMMAND...: runs the command, a function of this file, without a fault.
plainly() {
    local fault=()
    "$@"
}

# works COMMAND...: runs the command without a fault; it must succeed.
works() {
    plainly "$@"
    ((code == 0)) || fail "'$*' without a fault ended with exit code $code: $(<err)"
}

# nothing_left WHAT DIR: checks that DIR has no temporary files.
nothing_left() {
    local left
    left=$(find "$2" -name '*-tmp.*')
    [[ -z $left ]] || fail "$1: the temporary file '$left' remains"
}

train_prepare() {
    make_data data
    works attempt train data "${tiny[@]}" --checkpoint-steps 3 --out reference
}
train_run() {
    attempt train "$shared/data" "${tiny[@]}" --checkpoint-steps 3 --out victim "$@"
}
train_again() {
    plainly train_run --resume auto
}
train_same() {
    same_run "$1" "$shared/reference" victim
}

# Resumes a run that was stopped in its second epoch.
resume_prepare() {
    train_prepare
    works attempt train data "${tiny[@]}" --checkpoint-steps 3 --out half --steps 7
}
resume_run() {
    cp -r "$shared/half" victim
    train_run --resume auto
}
resume_again() {
    train_again
}
resume_same() {
    train_same "$@"
}

# Two ranks of this machine connect over TCP, for Gloo. Calls of rank $ddp_rank fail.
ddp=("${tiny[@]}" -b 4 --mode ddp --comm-timeout 4)
ddp_rank=0 ports=0
ddp_pair() {
    local rank port try pids=() codes own
    for ((try = 0; try < 20; try++)); do
        port=$((20000 + (shard * 997 + 31 * ++ports) % 12000)) codes=(0 0)
        for rank in 0 1; do
            own=()
            ((rank != ddp_rank)) || own=("${fault[@]}")
            RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank timeout -k 5 "$limit_s" env "${own[@]}" "$program" train \
                "$@" --rendezvous "127.0.0.1:$port" >"out$rank" 2>"err$rank" </dev/null &
            pids[rank]=$!
        done
        for rank in 0 1; do
            wait "${pids[rank]}" || codes[rank]=$?
        done
        grep -q 'rank 0 cannot listen at .*in use' err0 || break
    done
    cat err0 err1 >err
    code=${codes[0]}
    ((code != 0 && codes[1] <= code)) || code=${codes[1]}
}
ddp_prepare() {
    make_data data
    works ddp_pair data "${ddp[@]}" --out reference
}
ddp_run() {
    ddp_pair "$shared/data" "${ddp[@]}" --out victim "$@"
}
ddp_again() {
    plainly ddp_run --resume auto
}
ddp_same() {
    train_same "$@"
}

# The launcher, its rank supervisors and two ranks.
launch_all() {
    attempt launch --nproc 2 --log-dir "$1.log" -- train "$shared/data" "${ddp[@]}" --out "$1" --resume auto
}
launch_prepare() {
    make_data data
    works launch_all reference
}
launch_run() {
    launch_all victim
}
launch_again() {
    plainly launch_run
}
launch_same() {
    train_same "$@"
}

# The study has two cells with one run each. For one cell, the study generates image files.
study_prepare() {
    cat >study.json <<END
{"schema": 1, "name": "tiny", "about": "for a test", "modes": {"nd": [1]},
 "precisions": ["fp32"], "archs": ["resnet8"], "batch": {"weak": [4]},
 "data": [{"name": "dummy", "classes": 3, "train": 16, "val": 4},
          {"name": "jpeg", "generate": {"classes": 3, "train": 4, "val": 2, "size": 48}}],
 "image_size": 32, "threads": 1, "workers": 1, "repeats": 1, "warmup_steps": 1,
 "measured_steps": 2, "limit_s": 60, "train": ["--lr", "0.05"]}
END
    plainly attempt study study.json --no-report --out reference
    done_code=$code # such a small study may fail its own verdict
    [[ $(find reference -name summary.json | wc -l) == 2 ]] || fail "the study without a fault ended with exit code $code: $(<err)"
}
# study_list DIR: prints the files of the study in DIR, except lock files.
study_list() {
    (cd "$1" && find . -type f -not -name '*.lock' | sort)
}
study_run() {
    attempt study "$shared/study.json" --no-report --out victim "$@"
}
study_again() {
    plainly study_run --retry
}
study_same() {
    local run
    diff <(study_list "$shared/reference") <(study_list victim) >diff || fail "$1: other files: $(head -n 4 diff)"
    for run in "$shared"/reference/cells/*/r1; do
        diff <(run_values "$run") <(run_values "victim/${run#"$shared/reference/"}") >diff 2>&1 ||
            fail "$1, $run: the records differ: $(head -n 4 diff)"
    done
    diff -rq -x "*.log" "$shared/reference/data" victim/data >diff || fail "$1: the generated data differ: $(head -n 2 diff)"
    nothing_left "$1" victim
}

# `accept` tests the memory, and trains twice for a few steps. Both losses must have the same bits.
accept_prepare() {
    cat >spec.json <<'END'
{"schema": 1, "name": "made", "about": "a test", "device": "cpu", "hardware": ["*"], "checks": [
 {"name": "memory", "kind": "memory", "level": 1, "seconds": 1, "limit_s": 60,
  "args": {"max_mib": 4, "iters": 1, "threads": 1}, "limits": {"wrong": {"max": 0}}},
 {"name": "bits", "kind": "train", "level": 1, "seconds": 1, "limit_s": 60, "repeats": 2,
  "args": {"arch": "resnet8", "image_size": 32, "batch": 2, "classes": 10, "steps": 2, "threads": 1},
  "limits": {"loss_bits": {"same": true}}}]}
END
    works attempt accept --spec ./spec.json --out reference
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
    attempt accept --spec "$shared/spec.json" --out victim "$@"
}
accept_again() {
    local resume=()
    # A check that fails for the host's storage counts as failed hardware (docs/explanation/reliability.md).
    [[ $only != train || $code != 4 ]] || rm -rf victim
    [[ ! -e victim/spec.json ]] || resume=(--resume)
    plainly accept_run "${resume[@]}"
}
accept_same() {
    diff <(accept_values "$shared/reference") <(accept_values victim) >diff 2>&1 || fail "$1: other results: $(head -n 8 diff)"
    nothing_left "$1" victim
}
