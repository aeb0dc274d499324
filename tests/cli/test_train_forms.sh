#!/usr/bin/env bash
# Training on the fake GPU with the fused operations of a stem (batch norm, ReLU and pooling). The
# losses are those of the CPU, and a run that was killed and resumed is bitwise equal to an
# uninterrupted run. Other tests train resnet8, which has no pooling.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
need_fake_gpu runners_async

net=(--dummy --dummy-train 8 --dummy-val 2 --classes 5 -a resnet18 --image-size 64 -b 4 -p 1
    --threads 1 --lr 0.01 --seed 3 --epochs 1)
gpu=(--devices cuda:0 --precision O1 --fuse all --deterministic --loss-scale-init 1024 --checkpoint-steps 1)

# losses: prints the losses of the last run, one a line.
losses() {
    grep -oE 'Loss [0-9.e+-]+' <(grep ^Epoch "$scratch/out") | cut -d' ' -f2
}

expect_train 0 --training-only --no-checkpoint --out "$scratch/cpu"
losses >"$scratch/want"
expect_train 0 --out "$scratch/first" "${gpu[@]}"
losses >"$scratch/got"
paste "$scratch/want" "$scratch/got" | awk '
    { d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || !(d <= 2e-2 * $1)) bad = 1 }
    END { exit bad || NR != 2 }' ||
    fail "losses $(paste -sd' ' "$scratch/got") instead of $(paste -sd' ' "$scratch/want")"

train_signalled KILL 1 --out "$scratch/killed" "${gpu[@]}"
((code == 137)) || fail "the run that was killed after its first batch ended with exit code $code"
expect_train 0 --out "$scratch/killed" --resume auto "${gpu[@]}"
same_run "killed after the first batch" "$scratch/first" "$scratch/killed"
finish
