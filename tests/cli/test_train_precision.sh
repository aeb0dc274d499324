#!/usr/bin/env bash
# Training in fp16 and other precisions. A step whose gradients overflow is skipped, and no other
# step is. A resumed run restores its loss scaler. The CPU and the reference device agree. A run
# that diverges reports it, and its record has no NaN.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"

# Random images, 8 steps per epoch. With this loss scale, gradients overflow only if the test
# injects an overflow.
noise=(--dummy --dummy-train 64 --dummy-val 8 --classes 10 --epochs 2)
scale=(--loss-scale-init 1024)

# noise_run CODE NAME ARGS...: trains into $scratch/NAME, and checks the exit code.
noise_run() {
    expect_train "$1" "${noise[@]}" --out "$scratch/$2" "${@:3}"
}

# checkpoint_of NAME: prints the tensors and the loss scaler in the checkpoint of a run.
checkpoint_of() {
    "$build_dir/tests/runners/checkpoint_values" "$scratch/$1/checkpoint.safetensors"
}

# learnt NAME: prints weights and momentum in the checkpoint. Running statistics are left out,
# because the forward pass of a skipped step also changes them, as in PyTorch.
learnt() {
    checkpoint_of "$1" | grep '^tensor' | grep -v 'running_\|num_batches_tracked'
}

# skipped_steps NAME: prints the numbers of the skipped steps.
skipped_steps() {
    run_values "$scratch/$1" | sed -nE 's/^step ([0-9]+) .* skipped 1 .*/\1/p' | paste -sd' '
}

# scale_at NAME STEP: prints the loss scale of a step.
scale_at() {
    run_values "$scratch/$1" | sed -nE "s/^step $2 .* scale ([^ ]+) clean.*/\1/p"
}

# skips_one NAME AFTER ARGS...: checks that step 2 of 5 overflows and is skipped, and that the loss
# scale is then AFTER.
skips_one() {
    local name=$1 after=$2
    local said="Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to $after.0" # Apex's line
    ((after < 1024)) || said="Gradient overflow.  Skipping step, loss scaler 0 keeps loss scale 1024.0"
    shift 2
    noise_run 0 "$name-5" --inject-overflow 2 --steps 5 "$@"
    [[ $(grep overflow "$scratch/out") == "$said" ]] || fail "$name says '$(grep overflow "$scratch/out")', not '$said'"
    [[ $(skipped_steps "$name-5") == 2 ]] || fail "$name skipped '$(skipped_steps "$name-5")', not step 2"
    [[ $(scale_at "$name-5" 2) == 1024 ]] || fail "$name: the loss scale of step 2 was $(scale_at "$name-5" 2)"
    [[ $(scale_at "$name-5" 3) == "$after" ]] || fail "$name: the loss scale of step 3 is $(scale_at "$name-5" 3), not $after"
    noise_run 0 "$name-2" --inject-overflow 2 --steps 2 "$@"
    noise_run 0 "$name-3" --inject-overflow 2 --steps 3 "$@"
    [[ -n $(learnt "$name-2") ]] || fail "$name: no checkpoint"
    diff <(learnt "$name-2") <(learnt "$name-3") >"$scratch/diff" || fail "$name: a skipped step has changed $(head -n 3 "$scratch/diff")"
    grep -qx 'scaler scale 1024 clean 2 skipped 0' < <(checkpoint_of "$name-2") || fail "$name: $(checkpoint_of "$name-2" | tail -n 1)"
    grep -qx "scaler scale $after clean 0 skipped 1" < <(checkpoint_of "$name-3") || fail "$name: $(checkpoint_of "$name-3" | tail -n 1)"
}

# Precision policies that differ only in types execute the same code. Under sanitizers, the test
# runs one policy of each kind.
scaled=(amp O1 O2) others=(fp32 tf32 bf16 O3)
! sanitized || scaled=(amp) others=(fp32 O3)
for precision in "${scaled[@]}"; do
    skips_one "$precision" 512 --opt-level "$precision" "${scale[@]}"
done
for precision in "${others[@]}"; do
    skips_one "$precision" 512 --opt-level "$precision" --loss-scale dynamic "${scale[@]}"
done
skips_one static 1024 --precision amp --loss-scale 1024

# The same step without the overflow changes the weights. The running statistics are the same with
# and without the overflow, because the forward pass changes them.
noise_run 0 clean --precision amp "${scale[@]}" --steps 3
[[ -z $(skipped_steps clean) ]] || fail "the run skipped steps '$(skipped_steps clean)' although no gradient overflowed"
! diff -q <(learnt amp-2) <(learnt clean) >/dev/null || fail "a step that was not skipped did not change the weights"
[[ $(checkpoint_of amp-3 | grep running_) == $(checkpoint_of clean | grep running_) ]] || fail "the running statistics do not include the batch of the skipped step"

# The loss scale grows, and a step overflows. The run is stopped at several steps. Each time, the
# resumed run has the same bytes as the run without a stop.
counting=(--precision amp "${scale[@]}" --loss-scale-interval 3 --inject-overflow 5)
noise_run 0 whole "${counting[@]}" --steps 12
grep -q '^step 11 .* scale 2048 clean 2 skipped 0 ' < <(run_values "$scratch/whole") || fail "step 11 was skipped, or does not have the loss scale 2048 and 2 clean steps: $(run_values "$scratch/whole")"
for stop in 2 5 6 8; do
    noise_run 0 "parts-$stop" "${counting[@]}" --steps "$stop"
    noise_run 0 "parts-$stop" "${counting[@]}" --steps 12 --resume auto
    same_run "amp stopped after step $stop" "$scratch/whole" "$scratch/parts-$stop"
done

# The reference device adds in another order, so a few values are rounded differently. In three
# steps, that changes the loss far less than a wrong rounding, scale or layer would.
for device in cpu ref; do
    noise_run 0 "on-$device" --precision amp "${scale[@]}" --steps 3 -b 4 --devices "$device"
    run_values "$scratch/on-$device" | sed -nE 's/^step .* loss ([^ ]+) .*/\1/p' >"$scratch/losses-$device"
done
paste "$scratch/losses-cpu" "$scratch/losses-ref" |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 0.01 * $2) bad = 1 } END { exit bad || NR != 3 }' ||
    fail "cpu and ref differ: $(paste "$scratch/losses-cpu" "$scratch/losses-ref")"

# diverged NAME PRECISION TEXT WAY_OUT ARGS...: checks that the run exits with code 1 and one line
# with the precision, TEXT and WAY_OUT. The outcome must be "diverged". There must be no NaN in the
# record, no summary and no checkpoint.
diverged() {
    local name=$1 precision=$2 text=$3 way_out=$4
    shift 4
    noise_run 1 "$name" "$@"
    [[ $(grep -vc '^ampscale: warning: ' "$scratch/err") == 1 ]] || fail "$name: $(cat "$scratch/err")"
    grep -q '"outcome": "diverged"' "$scratch/$name/outcome.json" || fail "$name: no outcome"
    grep -qE "^ampscale: training diverged at precision $precision: $text; lower --lr, lengthen --warmup-epochs$way_out\$" "$scratch/err" ||
        fail "$name: $(cat "$scratch/err")"
    ! grep -iwE 'nan|inf|infinity' "$scratch/$name"/*.jsonl || fail "$name: the record has values that are not finite"
    [[ -s $scratch/$name/steps.jsonl ]] || fail "$name: no step was recorded"
    [[ ! -e $scratch/$name/summary.json ]] || fail "$name: has a summary"
    [[ -z $(find "$scratch/$name" -name '*.safetensors*') ]] || fail "$name: has a checkpoint"
}

# Runs that diverge: a deep network entirely in fp16; weights that overflow in the last step,
# without and with a validation after it; a network in fp32; and gradients that overflow at every
# loss scale. When weights overflow in the last step, the error is found when the checkpoint is
# written.
not_finite='(not a number|infinite)'
sanitized || diverged deep O3 "the loss of epoch 0, step [0-9]+, at learning rate 100, is $not_finite" ", or use --precision amp" \
    -a resnet101 --opt-level O3 --lr 100
diverged last-step O3 "'[a-z0-9.]+' holds (infinite values|NaN values)" ", or use --precision amp" \
    --opt-level O3 --lr 1e6 --steps 1
diverged validation O3 "'[a-z0-9.]+' holds (infinite values|what is not a number)" ", or use --precision amp" \
    --opt-level O3 --lr 1e6 --dummy-train 8
grep -qE "^ampscale: warning: epoch 0: the validation loss is $not_finite\$" "$scratch/err" || fail "validation: $(cat "$scratch/err")"
grep -qE '^Test: .*Loss (nan|inf)' "$scratch/out" || fail "validation: the log shows $(grep '^Test:' "$scratch/out")"
sanitized || diverged full fp32 "the loss of epoch 0, step [0-9]+, at learning rate 1e\+06, is $not_finite" "" -a resnet18 --lr 1e6
diverged collapse amp "the loss scale has collapsed: .* even at the scale 1, .*" ", or use --precision bf16 or fp32" \
    -a resnet18 --precision amp --lr 1e6 --dummy-train 400
grep -q '"loss":null' "$scratch/collapse/steps.jsonl" || fail "no loss was infinite when the loss scale collapsed, so the record was not tested"

# Evaluation at precision O3 of weights that fp32 can represent and fp16 cannot.
noise_run 0 large --lr 1e6 --steps 1
expect_train 1 "${noise[@]}" --opt-level O3 --evaluate --resume "$scratch/large/checkpoint.safetensors"
grep -q '^ampscale: at precision O3 these weights give no valid result: the validation loss is' "$scratch/err" ||
    fail "the message for weights that overflow in an evaluation is wrong: $(cat "$scratch/err")"
finish
