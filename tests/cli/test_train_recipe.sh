#!/usr/bin/env bash
# Settings of a recipe: how often to validate and to save, weight decay, the limit of the gradient's
# norm, mixup, and a last layer with another number of classes. With each setting, a resumed run is
# bitwise equal to an uninterrupted run.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
cd "$scratch" || exit 1
make_data data

# kept DIR: prints the weight files in the folder.
kept() {
    (cd "$1" && echo *.safetensors)
}
# steps_of DIR [N]: prints the recorded values of the run's first N steps (default: all).
steps_of() {
    run_values "$1" | grep '^step ' | head -n "${2:-1000}"
}

every=(data --epochs 5 --val-every 2 --checkpoint-every 2 --keep-checkpoints 2 --warmup-steps 3)
expect_train 0 data --epochs 5 --out plain
expect_train 0 "${every[@]}" --out sparse
[[ $(run_values sparse | awk '$1 == "epoch" { print $13 }' | xargs) == "0 12 0 12 12" ]] || fail "--val-every 2: $(run_values sparse | grep ^epoch)"
[[ $(kept sparse) == "best.safetensors checkpoint-epoch-0004.safetensors checkpoint-epoch-0005.safetensors checkpoint-prev.safetensors checkpoint.safetensors" ]] ||
    fail "--keep-checkpoints 2 --checkpoint-every 2 keep other files: $(kept sparse)"
cmp sparse/checkpoint-epoch-0005.safetensors sparse/checkpoint.safetensors || fail "the last kept checkpoint differs from the latest checkpoint"
[[ $(steps_of plain) == "$(steps_of sparse)" ]] || fail "validating and saving less often changed the steps"

# The median throughput leaves out the first steps: 3 with --warmup-steps 3, and 10 by default.
for run in sparse:3 plain:10; do
    want=$(sed -nE 's/.*"images":([0-9]+),.*"total_s":([^,]+),.*/\1 \2/p' "${run%:*}/steps.jsonl" | tail -n +$((${run#*:} + 1)) |
        awk '{ print $1 / $2 }' | sort -g | awk '{ x[NR] = $1 } END { print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2, NR }')
    got=$(tr -d '\n' <"${run%:*}/summary.json" | sed -nE 's/.*"images_per_s": \{ *"median": ([0-9.]+),.*"steps": ([0-9]+) *\}.*/\1 \2/p')
    awk -v got="$got" -v want="$want" 'BEGIN { split(got, g); split(want, w); exit !(g[2] == w[2] && g[1] > 0 && (g[1] / w[1] - 1) ^ 2 < 1e-8) }' ||
        fail "$run: median and steps are $got, but $want without the first steps"
done

# A run killed between two checkpoints resumes from the last one.
train_signalled KILL 24 "${every[@]}" --out killed
((code == 137)) || fail "was not killed: $code"
expect_train 0 "${every[@]}" --out killed --resume auto
same_run "every second epoch" sparse killed

# Training without validation needs no validation images.
mkdir only && ln -s "$scratch/data/train" only/train
expect_train 0 only --epochs 2 --training-only --out trained
! grep -q "^Test:" out || fail "--training-only validated"
[[ $(steps_of trained) == "$(steps_of plain 10)" ]] || fail "--training-only changed the steps"
expect_error 2 "--training-only leaves out validation, which --desired-acc needs" train "${net[@]}" only --training-only --desired-acc 50 --out none

# A run that writes no weights.
expect_train 0 data --epochs 2 --no-checkpoint --out bare
[[ $(kept bare) == "*.safetensors" && -e bare/summary.json ]] || fail "--no-checkpoint: $(kept bare)"
train_signalled TERM 3 data --epochs 2 --no-checkpoint --out stopped
((code == 143)) && grep -q "no checkpoint to resume from was written" err || fail "--no-checkpoint, stopped: $code: $(<err)"
expect_error 2 "--no-checkpoint writes no checkpoints: leave out --checkpoint-every" train "${net[@]}" data --no-checkpoint --checkpoint-every 2 --out none

# Each setting changes the result, and resumes.
for flags in "--lr-milestones 1,2" "--lr-schedule poly --lr-end 1e-4" "--norm-weight-decay 0 --wd 0.05" \
    "--clip-grad-norm 0.5 --precision amp --loss-scale-init 1024" "--mixup 0.4 --label-smoothing 0.1" "--interpolation bicubic"; do
    read -ra more <<<"$flags"
    name=run${flags//[^a-z0-9]/-}
    expect_train 0 data --epochs 3 --out "$name" "${more[@]}"
    train_signalled TERM 7 data --epochs 3 --out "$name-again" "${more[@]}"
    expect_train 0 data --epochs 3 --out "$name-again" --resume auto "${more[@]}"
    same_run "$flags" "$name" "$name-again"
    [[ $(steps_of "$name") != "$(steps_of plain 15)" ]] || fail "$flags: has no effect"
done
# Settings that say nothing new change nothing.
expect_train 0 data --epochs 2 --norm-weight-decay 1e-4 --clip-grad-norm 1e9 --mixup 0 --out same
[[ $(steps_of same) == "$(steps_of plain 10)" ]] || fail "settings without effect changed the steps"
for bad in -1 nan inf 1e4 x; do
    expect_error 2 "--mixup" train "${net[@]}" data --mixup="$bad" --out none
done
expect_error 2 "torchvision's; here --mixup" train "${net[@]}" data --mixup_alpha 0.2 --out none
expect_error 2 "give only one of them" train "${net[@]}" data --lars 0.001 --clip-grad-norm 1 --out none

# The size from which validation crops changes validation alone; timm's fraction is another way to say
# it, and the record has the size.
expect_train 0 data --epochs 2 --val-resize 42 --out cropped
expect_train 0 data --epochs 2 --val-crop-pct 0.75 --out fraction
expect_train 0 data --epochs 2 --val-resize 37 --out usual # 32 * 256 / 224
[[ $(run_values cropped) == "$(run_values fraction)" ]] || fail "--val-crop-pct 0.75 is not --val-resize 42"
[[ $(run_values usual) == "$(run_values same)" && $(run_values usual) != "$(run_values cropped)" ]] ||
    fail "--val-resize: validation does not depend on it as it should"
[[ $(steps_of cropped) == "$(steps_of plain 10)" ]] || fail "--val-resize changed the steps"
grep -q '"val_resize": *42' fraction/run.json && ! grep '"val_resize"\|"interpolation"' plain/run.json usual/run.json ||
    fail "run.json: $(grep -h '"val_resize"' fraction/run.json plain/run.json usual/run.json)"
expect_error 2 "give --val-resize 32 or more" train "${net[@]}" data --val-resize 31 --out none
expect_error 2 "--val-resize and --val-crop-pct both set" train "${net[@]}" data --val-resize 42 --val-crop-pct 0.75 --out none
expect_error 2 "--val-crop-pct '87.5'" train "${net[@]}" data --val-crop-pct 87.5 --out none
expect_error 2 "leave out --decode gpu or --interpolation bicubic" train "${net[@]}" data --decode gpu --interpolation bicubic --out none

# Weights for 3 classes initialise a network for 5 classes. Its last layer is new.
"$program" data synth --out five --classes 5 --train 4 --val 2 --size 48 >log 2>&1 || fail "data synth failed: $(<log)"
expect_train 0 five --epochs 1 --init plain/best.safetensors --lr 0 --out transferred
grep -q "^ampscale: warning: .* has 3 classes, but the data have 5: training starts with a new last layer" err || fail "--init: $(<err)"
expect_error 5 "has 3 classes, not 5; check the number of classes" train "${net[@]}" five --evaluate --init plain/best.safetensors
finish
