#!/usr/bin/env bash
# Loss scaling: a step whose gradients overflow is skipped, as in PyTorch, and no other step is. A
# resumed run restores its loss scaler. A run that diverges says so, and its record has no NaN.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"
cd "$scratch" || exit 1

# Random images, 8 steps per epoch. With this loss scale, only an injected overflow is one.
noise=(--dummy --dummy-train 64 --dummy-val 8 --classes 10 --epochs 2)
scale=(--loss-scale-init 1024)

# noise_run CODE NAME ARGS...: trains into NAME, and checks the exit code.
noise_run() {
    expect_train "$1" "${noise[@]}" --out "$2" "${@:3}"
}

# checkpoint_of NAME: prints the tensors and the loss scaler in the checkpoint of a run.
checkpoint_of() {
    "$build_dir/tests/runners/checkpoint_values" "$1/checkpoint.safetensors"
}

# learnt NAME: prints weights and momentum. A skipped step changes neither. The running statistics,
# which its forward pass changes, are left out.
learnt() {
    checkpoint_of "$1" | grep '^tensor' | grep -v 'running_\|num_batches_tracked'
}

# skips_one AFTER ARGS...: step 2 of 5 overflows. It alone is skipped, changes no weight, and leaves
# the loss scale AFTER.
skips_one() {
    local after=$1 said="Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to $1.0" # Apex's line
    ((after < 1024)) || said="Gradient overflow.  Skipping step, loss scaler 0 keeps loss scale 1024.0"
    shift
    rm -rf two three five
    noise_run 0 five --inject-overflow 2 --steps 5 "$@"
    grep -qxF "$said" out || fail "$*: no line '$said'"
    [[ $(run_values five | sed -nE 's/^step ([0-9]+) .* skipped 1 .*/\1/p') == 2 ]] || fail "$*: other steps are skipped"
    [[ $(run_values five | sed -nE 's/^step [23] .* scale ([^ ]+) .*/\1/p' | xargs) == "1024 $after" ]] || fail "$*: other loss scales"
    noise_run 0 two --inject-overflow 2 --steps 2 "$@"
    noise_run 0 three --inject-overflow 2 --steps 3 "$@"
    [[ -n $(learnt two) ]] && diff <(learnt two) <(learnt three) >diff || fail "$*: a skipped step has changed $(head -n 3 diff)"
    grep -qx "scaler scale $after clean 0 skipped 1" < <(checkpoint_of three) || fail "$*: $(checkpoint_of three | tail -n 1)"
}
skips_one 512 --opt-level O3 --loss-scale dynamic "${scale[@]}"
skips_one 1024 --precision amp --loss-scale 1024
skips_one 512 --precision amp "${scale[@]}"

# The same step without the overflow changes weights, and the same running statistics.
noise_run 0 clean --precision amp "${scale[@]}" --steps 3
! diff -q <(learnt two) <(learnt clean) >/dev/null || fail "a step that was not skipped did not change the weights"
statistics=$(checkpoint_of clean | grep running_)
[[ -n $statistics && $(checkpoint_of three | grep running_) == "$statistics" ]] || fail "the running statistics lack the batch of the skipped step"

# The loss scale grows after 3 clean steps, and step 5 overflows. A run stopped before or after has
# the bits of the one that was not.
counting=(--precision amp "${scale[@]}" --loss-scale-interval 3 --inject-overflow 5)
noise_run 0 whole "${counting[@]}" --steps 12
grep -q '^step 11 .* scale 2048 clean 2 skipped 0 ' < <(run_values whole) || fail "the loss scale does not grow: $(run_values whole)"
for stop in 2 5 6; do
    noise_run 0 "parts-$stop" "${counting[@]}" --steps "$stop"
    noise_run 0 "parts-$stop" "${counting[@]}" --steps 12 --resume auto
    same_run "amp stopped after step $stop" whole "parts-$stop"
done

# diverged NAME TEXT ARGS...: the run exits with code 1 and a line with TEXT. It has its outcome, no
# NaN, no summary and no checkpoint.
diverged() {
    noise_run 1 "$1" "${@:3}"
    grep -qE "^ampscale: training diverged at precision .*: $2; lower --lr" err || fail "$1: $(<err)"
    grep -q '"outcome": "diverged"' "$1/outcome.json" || fail "$1: no outcome"
    [[ -s $1/steps.jsonl ]] && ! grep -iwE 'nan|inf|infinity' "$1"/*.jsonl || fail "$1: values that are not finite, or none"
    [[ ! -e $1/summary.json && -z $(find "$1" -name '*.safetensors*') ]] || fail "$1: has a summary or a checkpoint"
}
diverged loss "the loss of epoch 0, step [0-9]+, .*, is (not a number|infinite)" -a resnet18 --lr 1e6
diverged last-step "'[a-z0-9.]+' holds .*" --opt-level O3 --lr 1e6 --steps 1
diverged collapse "the loss scale has collapsed: .* at the scale 1, .*" -a resnet18 --precision amp --lr 1e6 --dummy-train 400
grep -q '"loss":null' collapse/steps.jsonl || fail "no loss was infinite when the loss scale collapsed, so the record was not tested"

# Weights that fp32 can represent and fp16 cannot.
noise_run 0 large --lr 1e6 --steps 1
expect_train 1 "${noise[@]}" --opt-level O3 --evaluate --resume large/checkpoint.safetensors
grep -q '^ampscale: at precision O3 these weights give no valid result' err || fail "$(<err)"
finish
