#!/usr/bin/env bash
# Settings of a recipe: how often to validate and to save, weight decay, the limit of the gradient's
# norm, mixup, and a last layer with another number of classes. With each setting, a resumed run is
# bitwise equal to an uninterrupted run.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
data=$scratch/data
make_data "$data"
cd "$scratch" || exit 1

# validated DIR: prints the numbers of the epochs that had a validation, on one line.
validated() {
    run_values "$1" | awk '$1 == "epoch" && $12 > 0 { printf "%s ", $2 }'
}
# kept DIR: prints the weight files in the folder.
kept() {
    (cd "$1" && echo *.safetensors)
}
# steps_of DIR: prints the recorded values of the run's steps.
steps_of() {
    run_values "$1" | grep '^step '
}

expect_train 0 "$data" --epochs 5 --out plain
expect_train 0 "$data" --epochs 5 --val-every 2 --checkpoint-every 2 --keep-checkpoints 2 --warmup-steps 3 --out sparse
grep -q '"val_images":0' <(sed -n 1p sparse/epochs.jsonl) || fail "--val-every 2: epoch 0 was validated: $(sed -n 1p sparse/epochs.jsonl)"
for line in 1:0 2:12 3:0 4:12 5:12; do
    grep -qE "\"val_images\": ?${line#*:}[,}]" <(sed -n "${line%:*}p" sparse/epochs.jsonl) ||
        fail "--val-every 2: line ${line%:*} of the record does not have ${line#*:} images: $(sed -n "${line%:*}p" sparse/epochs.jsonl)"
done
[[ $(kept sparse) == "best.safetensors checkpoint-epoch-0004.safetensors checkpoint-epoch-0005.safetensors checkpoint-prev.safetensors checkpoint.safetensors" ]] ||
    fail "--keep-checkpoints 2 --checkpoint-every 2 keep other files: $(kept sparse)"
cmp sparse/checkpoint-epoch-0005.safetensors sparse/checkpoint.safetensors || fail "the last kept checkpoint differs from the latest checkpoint"
[[ $(steps_of plain) == "$(steps_of sparse)" ]] || fail "validating and saving less often changed the steps"

# The statistics of throughput leave out the first steps: 3 with --warmup-steps 3, and 10 by
# default.
for run in sparse:3 plain:10; do
    first=${run#*:} run=${run%:*}
    want=$(sed -nE 's/.*"images":([0-9]+),.*"total_s":([^,]+),.*/\1 \2/p' "$run/steps.jsonl" | tail -n +$((first + 1)) |
        awk '{ print $1 / $2 }' | sort -g | awk '{ x[NR] = $1 } END { print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2, NR }')
    got=$(tr -d '\n' <"$run/summary.json" | sed -nE 's/.*"images_per_s": \{ *"median": ([0-9.]+),.*"steps": ([0-9]+) *\}.*/\1 \2/p')
    [[ ${got#* } == $((25 - first)) ]] || fail "$run: the statistics are over ${got#* } steps, not $((25 - first))"
    awk -v got="${got% *}" -v want="${want% *}" 'BEGIN { exit !(got > 0 && got - want < 1e-4 * want && want - got < 1e-4 * want) }' ||
        fail "$run: the median is ${got% *}, but ${want% *} without the first $first steps"
done

# A run killed between two checkpoints resumes from the last checkpoint. The result is bitwise equal
# to that of an uninterrupted run.
train_signalled KILL 24 "$data" --epochs 5 --val-every 2 --checkpoint-every 2 --keep-checkpoints 2 --out killed
((code == 137)) || fail "was not killed: $code"
expect_train 0 "$data" --epochs 5 --val-every 2 --checkpoint-every 2 --keep-checkpoints 2 --warmup-steps 3 --out killed --resume auto
same_run "every second epoch" sparse killed

# Training without validation needs no validation images.
mkdir only && ln -s "$data/train" only/train
expect_train 0 only --epochs 2 --training-only --out trained
! grep -q "^Test:" "$scratch/out" || fail "--training-only validated"
[[ $(steps_of trained) == "$(steps_of plain | head -n 10)" ]] || fail "--training-only changed the steps"
expect_error 2 "--training-only leaves out validation, which --desired-acc needs" train "${net[@]}" only --training-only --desired-acc 50 --out none

# A run that writes no weights.
expect_train 0 "$data" --epochs 2 --no-checkpoint --out bare
[[ $(kept bare) == "*.safetensors" && -e bare/summary.json ]] || fail "--no-checkpoint: $(kept bare)"
train_signalled TERM 3 "$data" --epochs 2 --no-checkpoint --out stopped
((code == 143)) && grep -q "no checkpoint to resume from was written" "$scratch/err" || fail "--no-checkpoint, stopped: $code: $(cat "$scratch/err")"
expect_error 2 "--no-checkpoint writes no checkpoints: leave out --checkpoint-every" train "${net[@]}" "$data" --no-checkpoint --checkpoint-every 2 --out none

# Each setting changes the result. With each setting, a resumed run is bitwise equal to an
# uninterrupted run.
for flags in "--lr-milestones 1,2" "--lr-schedule poly --lr-end 1e-4" "--norm-weight-decay 0 --wd 0.05" "--clip-grad-norm 0.5" \
    "--clip-grad-norm 0.5 --precision amp --loss-scale-init 1024" "--mixup 0.4 --label-smoothing 0.1" \
    "--mixup 0.4 --precision amp --loss-scale-init 1024"; do
    read -ra more <<<"$flags"
    name=run${flags//[^a-z0-9]/-}
    expect_train 0 "$data" --epochs 3 --out "$name" "${more[@]}"
    train_signalled TERM 7 "$data" --epochs 3 --out "$name-again" "${more[@]}"
    expect_train 0 "$data" --epochs 3 --out "$name-again" --resume auto "${more[@]}"
    same_run "$flags" "$name" "$name-again"
    [[ $(steps_of "$name") != "$(steps_of plain | head -n 15)" ]] || fail "$flags: has no effect"
done
expect_train 0 "$data" --epochs 3 --wd 0.05 --out decays
! cmp -s decays/checkpoint.safetensors run--norm-weight-decay-0---wd-0-05/checkpoint.safetensors || fail "--norm-weight-decay 0 has no effect"
expect_train 0 "$data" --epochs 3 --wd 0.05 --norm-weight-decay 0.05 --out same-decay
[[ $(steps_of decays) == "$(steps_of same-decay)" ]] || fail "--norm-weight-decay with the value of --wd gives other results than --wd alone"
# A limit that is larger than the norm of every gradient changes nothing.
expect_train 0 "$data" --epochs 2 --clip-grad-norm 1e9 --out unclipped
[[ $(steps_of unclipped) == "$(steps_of plain | head -n 10)" ]] || fail "a limit above every gradient's norm changed the steps"

# Mixup is recorded if it is on, and changes nothing if it is off. Two devices compute one loss from
# both halves of a batch. Their steps equal those of one device that accumulates the gradients of
# the two halves.
! grep -q '"mixup"' plain/run.json || fail "run.json has mixup although it is off"
grep -q '"mixup": *0.4' run--mixup-0-4---label-smoothing-0-1/run.json || fail "run.json lacks --mixup"
expect_train 0 "$data" --epochs 2 --mixup 0 --out unmixed
[[ $(steps_of unmixed) == "$(steps_of plain | head -n 10)" ]] || fail "--mixup 0 changed the steps"
for bad in -1 nan inf 1e4 x; do
    expect_error 2 "--mixup" train "${net[@]}" "$data" --mixup="$bad" --out none
done
expect_error 2 "torchvision's; here --mixup" train "${net[@]}" "$data" --mixup_alpha 0.2 --out none

# Weights for 3 classes initialise a network for 5 classes. Its last layer is new.
"$program" data synth --out five --classes 5 --train 4 --val 2 --size 48 >log 2>&1 || fail "data synth failed: $(cat log)"
expect_train 0 five --epochs 1 --init plain/best.safetensors --lr 0 --out transferred
grep -q "has 3 classes, but the data have 5: training starts with a new last layer" "$scratch/err" || fail "--init: $(cat "$scratch/err")"
expect 5 train "${net[@]}" five --evaluate --init plain/best.safetensors
grep -q "check -a and the number of classes" "$scratch/err" || fail "--evaluate: $(cat "$scratch/err")"
expect_error 2 "give only one of them" train "${net[@]}" "$data" --lars 0.001 --clip-grad-norm 1 --out none
finish
