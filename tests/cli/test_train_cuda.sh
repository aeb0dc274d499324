#!/usr/bin/env bash
# Training through the CUDA backend on the fake GPU (tests/kernels/cuda/fake), at every precision,
# with and without fused operations, on one device and on two. The losses of the first steps must
# equal those of the CPU, within the error of the precision.
. "$(dirname "$0")/common.sh" "$@"

need_fake_gpu
cd "$scratch" || exit 1

# Four steps. Under sanitizers: two steps with an eighth of the pixels, whose losses differ more
# from those of the CPU.
steps=4 loose=1 net=(--image-size 32 -b 8)
if sanitized; then
    steps=2 loose=10 net=(--image-size 16 -b 4 --lr 0.01)
fi

# losses ARGS...: trains, and prints the loss of each step, one a line.
losses() {
    expect 0 train --dummy -a resnet8 "${net[@]}" --classes 10 --steps "$steps" -p 1 --threads 1 "$@" >&2
    grep -oE 'Loss [0-9.e+-]+' "$scratch/out" | cut -d' ' -f2
}

# near TOLERANCE ARGS...: trains with ARGS, and compares the losses with those in $scratch/want.
near() {
    local tolerance=$1
    shift
    losses "$@" >"$scratch/got"
    paste "$scratch/want" "$scratch/got" | awk -v most="$tolerance" -v loose="$loose" -v steps="$steps" '
        { d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || !(d <= loose * most * $1)) bad = 1 }
        END { exit bad || NR != steps }' ||
        fail "train $* has losses $(paste -sd' ' "$scratch/got") instead of $(paste -sd' ' "$scratch/want")"
}

# whole TOLERANCE ARGS...: does the same as `near`. Under sanitizers it does nothing, because other
# runs execute the same code.
whole() {
    sanitized || near "$@"
}

losses >"$scratch/want"
whole 2e-3 --devices cuda:0 --precision O1
plain=(--deterministic --devices cuda:0) # does not time plans, which takes the fake GPU long
whole 2e-4 "${plain[@]}"
near 2e-4 "${plain[@]}" --fuse all --wgrad-stream on
near 2e-3 "${plain[@]}" --precision tf32
whole 2e-3 "${plain[@]}" --precision O1 --fuse all
near 2e-3 "${plain[@]}" --precision O2 --fuse apply
near 2e-3 --deterministic --devices cuda:2 --precision O2 --wgrad-stream on
whole 2e-2 "${plain[@]}" --precision bf16
near 5e-3 "${plain[@]}" --precision O1 --emulate
whole 5e-3 "${plain[@]}" --precision O3

losses --devices cpu:2 --sync-bn >"$scratch/want"
whole 2e-4 --deterministic --devices cuda:0,1 --sync-bn
near 2e-3 --deterministic --devices cuda:0,1 --sync-bn --precision O1
losses --devices cpu:2 --dp-reduce all >"$scratch/want"
near 2e-4 --deterministic --devices cuda:0,1 --dp-reduce all

# With mixup, each step has another mixing weight and other pairs of images. A replayed graph reads
# the weight and the pairs from device memory.
losses --mixup 0.4 >"$scratch/want"
whole 2e-4 "${plain[@]}" --mixup 0.4
near 2e-3 "${plain[@]}" --mixup 0.4 --precision O1 --fuse all
losses --mixup 0.4 --devices cpu:2 >"$scratch/want"
near 2e-4 --deterministic --devices cuda:0,1 --mixup 0.4

if sanitized; then
    finish
fi
# With delays, a step of ResNet-50 on the fake GPU takes the time that its arithmetic needs. Every
# performance model of an H200 predicts less than 12,500 images/s, so the rate must be lower. The
# buffers of the step must fit in the GPU's memory.
AMPSCALE_FAKE_DELAYS=1 expect 0 train --dummy -a resnet50 -b 256 --steps 2 -p 1 --precision O1 \
    "${plain[@]}" --out "$scratch/delayed"
rate=$(sed -nE 's/^    "median": ([0-9.]+).*/\1/p' "$scratch/delayed/summary.json")
awk -v r="$rate" 'BEGIN { exit !(r > 0 && r < 12500) }' || fail "the measured rate of $rate images/s does not include the delay"
finish
