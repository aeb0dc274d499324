#!/usr/bin/env bash
# Training through the CUDA backend on the fake GPU (tests/kernels/cuda/fake): at every precision,
# fused or not, on one device and on two, the losses of the first steps are those of the CPU, within
# what the precision's roundings make of them.
. "$(dirname "$0")/common.sh" "$@"

need_fake_gpu

# Four steps. Under sanitizers two, of an eighth of the pixels, whose losses scatter more.
steps=4 loose=1 net=(--image-size 32 -b 8)
if sanitized; then
    steps=2 loose=10 net=(--image-size 16 -b 4 --lr 0.01)
fi

# losses ARGS...: trains; the loss of each step, a line.
losses() {
    expect 0 train --dummy -a resnet8 "${net[@]}" --classes 10 --steps "$steps" -p 1 --threads 1 "$@" >&2
    grep -oE 'Loss [0-9.e+-]+' "$scratch/out" | cut -d' ' -f2
}

# near TOLERANCE ARGS...: the losses on the device that ARGS name, against those in $scratch/want.
near() {
    local tolerance=$1
    shift
    losses "$@" >"$scratch/got"
    paste "$scratch/want" "$scratch/got" | awk -v most="$tolerance" -v loose="$loose" -v steps="$steps" '
        { d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || !(d <= loose * most * $1)) bad = 1 }
        END { exit bad || NR != steps }' ||
        fail "train $*: losses $(paste -sd' ' "$scratch/got") instead of $(paste -sd' ' "$scratch/want")"
}

losses >"$scratch/want"
near 2e-4 --devices cuda:0
near 2e-4 --devices cuda:0 --fuse all --wgrad-stream on
near 2e-4 --devices cuda:0 --deterministic
near 2e-3 --devices cuda:0 --precision tf32
near 2e-3 --devices cuda:0 --precision O1
near 2e-3 --devices cuda:0 --precision O1 --fuse all
near 2e-3 --devices cuda:0 --precision O2 --fuse apply
near 2e-3 --devices cuda:2 --precision O2 --wgrad-stream on
near 2e-2 --devices cuda:0 --precision bf16
near 5e-3 --devices cuda:0 --precision O1 --emulate
near 5e-3 --devices cuda:0 --precision O3

# Early launches change no bit. Every kernel of a captured step is launched early, on GPUs that can; the
# fake's kernels cannot touch device memory before they wait. A capture that fails as a run tries them
# leaves it with its graphs.
early_launches() { # ARGS...: launches, early ones outside of captures and inside, and of all inside
    rm -f "$scratch/count"
    AMPSCALE_FAKE_COUNT=$scratch/count losses --precision O1 --fuse all --wgrad-stream on "$@" >"$scratch/got"
    awk '$1 == "cudaLaunchDependent" { out += $2; in_ += $3 } $1 == "cudaLaunchKernel" { all += $3 }
        END { print out + 0, in_ + 0, all + 0 }' "$scratch/count"
}
read -r outside inside all <<<"$(early_launches --devices cuda:0 --pdl off --out "$scratch/late")"
((outside + inside == 0 && all > 0)) || fail "--pdl off: $outside and $inside early launches of $all"
cp "$scratch/got" "$scratch/late.losses"
read -r outside inside all <<<"$(early_launches --devices cuda:0 --pdl on --out "$scratch/early")"
((outside > 0 && inside > 0 && inside == all)) || fail "--pdl on: $outside and $inside early launches, $all captured"
cmp "$scratch/got" "$scratch/late.losses" || fail "--pdl on: losses of other bits"
grep -q '"pdl": true' "$scratch/early/run.json" || fail "--pdl on is not in the record"
grep -q '"pdl": false' "$scratch/late/run.json" || fail "--pdl off is not in the record"
read -r outside inside all <<<"$(early_launches --devices cuda:2 --pdl on)"
((outside + inside == 0)) || fail "a GPU without early launches has $outside and $inside of them"
for machine in old-code driver-12.2; do
    export AMPSCALE_FAKE_GPU=$machine
    read -r outside inside all <<<"$(early_launches --devices cuda:0 --pdl on)"
    ((outside + inside == 0)) || fail "$machine: $outside and $inside early launches"
    unset AMPSCALE_FAKE_GPU
done
AMPSCALE_FAKE_FAIL=cudaLaunchDependent@capture:3 expect 0 train --dummy -a resnet8 --image-size 8 -b 2 \
    --classes 10 --steps 32 -p 99 --threads 1 --devices cuda:0 --wgrad-stream off --out "$scratch/tried"
grep -q '"pdl": false' "$scratch/tried/run.json" || fail "early launches that failed are in use"
grep -q '"rung": "auto"' "$scratch/tried/summary.json" || fail "early launches that failed cost the graphs"

losses --devices cpu:2 --sync-bn >"$scratch/want"
near 2e-4 --devices cuda:0,1 --sync-bn
near 2e-3 --devices cuda:0,1 --sync-bn --precision O1
losses --devices cpu:2 --dp-reduce all >"$scratch/want"
near 2e-4 --devices cuda:0,1 --dp-reduce all

# Mixup: a replayed graph reads each step's weight and pairs from device memory.
losses --mixup 0.4 >"$scratch/want"
near 2e-4 --devices cuda:0 --mixup 0.4
near 2e-3 --devices cuda:0 --mixup 0.4 --precision O1 --fuse all
losses --mixup 0.4 --devices cpu:2 >"$scratch/want"
near 2e-4 --devices cuda:0,1 --mixup 0.4

# Gradients in half precision, which are in no checkpoint: a run that skipped a step and one that was
# resumed after it have the bits of one that was not interrupted.
narrow=(train --dummy -a resnet8 "${net[@]}" --classes 10 -p 1 --threads 1 --devices cuda:0 --precision O1
    --inject-overflow 1)
expect 0 "${narrow[@]}" --steps 4 --out "$scratch/whole"
expect 0 "${narrow[@]}" --steps 2 --out "$scratch/halves"
expect 0 "${narrow[@]}" --steps 4 --resume auto --out "$scratch/halves"
for name in whole halves; do
    grep '"state_bits"' "$scratch/$name/summary.json" >"$scratch/$name.bits" || fail "$name: no bits of its state"
done
cmp -s "$scratch/whole.bits" "$scratch/halves.bits" || fail "a resumed run at O1 has other bits"
grep -q '"skipped": 1$' "$scratch/whole/summary.json" || fail "no step was skipped"

# A step of ResNet-50 takes the fake with delays what its arithmetic says (12,500 images/s would be
# above every model of an H200), and all of it fits.
AMPSCALE_FAKE_DELAYS=1 expect 0 train --dummy -a resnet50 -b 256 --steps 2 -p 1 --precision O1 \
    --devices cuda:0 --out "$scratch/delayed"
rate=$(sed -nE 's/^    "median": ([0-9.]+).*/\1/p' "$scratch/delayed/summary.json")
awk -v r="$rate" 'BEGIN { exit !(r > 0 && r < 12500) }' || fail "a delayed step: $rate images/s"
finish
