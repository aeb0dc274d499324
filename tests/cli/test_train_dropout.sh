#!/usr/bin/env bash
# Every image of a step has a dropout mask of its own, as in PyTorch: the loss of a step of 16 images is
# the same, however the images are divided into micro-batches, devices and ranks. All images are equal,
# and label smoothing makes their labels equal, so that the loss depends only on the masks.
# With "daily" as the fourth argument, only one device.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"

data=$scratch/data
mkdir -p "$data"/{train,val}/{a,b}
base64 -d >"$data/val/a/1.png" <<'END'
iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAUUlEQVR42u3PMQ0AMAgAMJgaNKEOqVPBQdI6aPZUXPbiOAEBAQEBAQEB
AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAYF9H+qMAaLrhgnUAAAAAElFTkSuQmCC
END
cp "$data/val/a/1.png" "$data/val/b"
for i in {1..8}; do
    cp "$data/val/a/1.png" "$data/train/a/$i.png"
    cp "$data/val/a/1.png" "$data/train/b/$i.png"
done

net=(-a alexnet --image-size 64 --label-smoothing 0.999999 --threads 1 -j 1 --training-only)

# loss RANKS ARGS...: prints the loss of an epoch in units of 1e-9.
loss() {
    local ranks=$1 command=(train)
    shift
    ((ranks == 1)) || command=(launch --nproc "$ranks" -- train)
    rm -rf "$scratch/run"
    "$program" "${command[@]}" "$data" "${net[@]}" --epochs 1 --no-checkpoint --out "$scratch/run" "$@" \
        >"$scratch/log" 2>&1 || { head -n 3 "$scratch/log" >&2 && return; }
    awk 'match($0, /"train_loss":[0-9.]+/) { printf "%.0f\n", 1e9 * substr($0, RSTART + 13, RLENGTH - 13) }' \
        "$scratch/run/epochs.jsonl"
}

# same WANT RANKS ARGS...: checks that the loss is WANT, but for the rounding of the sum.
same() {
    local want=$1 got
    shift
    got=$(loss "$@")
    [[ $got ]] && ((got - want <= 3 && want - got <= 3)) ||
        fail "'train ${*:2}' on $1 ranks: loss ${got:-none}e-9, not ${want}e-9: the masks are others"
}

whole=$(loss 1 -b 16)
half=$(loss 1 -b 8)
((whole - half > 100 || half - whole > 100)) || fail "8 masks and 16 masks give one loss, ${whole}e-9"
same "$whole" 1 -b 8 --accumulate 2
same "$whole" 1 -b 5 --accumulate 4
[[ ${4:-} != daily ]] || finish
same "$whole" 1 -b 8 --accumulate 2 --devices ref
same "$whole" 1 -b 8 --accumulate 2 --mode dp --devices cpu:2
same "$whole" 1 -b 8 --accumulate 2 --mode dp --devices cpu:2 --dp-reduce all
same "$whole" 2 -b 4 --accumulate 2 --mode ddp
same "$whole" 2 -b 3 --accumulate 3 --mode ddp
same "$whole" 2 -b 4 --accumulate 2 --mode ddp2 --devices cpu:2

fake=$build_dir/tests/kernels/cuda/fake/ampscale_cuda_fake.so
if [[ -e $fake ]]; then
    AMPSCALE_CUDA_MODULE=$fake same "$whole" 1 -b 8 --accumulate 2 --devices cuda:0
fi

# A run that is resumed within an epoch draws the same masks.
net+=(-b 2 --accumulate 2 --epochs 2 --lr 0.1)
expect 0 train "$data" "${net[@]}" --out "$scratch/whole"
expect 0 train "$data" "${net[@]}" --out "$scratch/parts" --steps 3
expect 0 train "$data" "${net[@]}" --out "$scratch/parts" --resume auto
same_files "resumed within an epoch" "$scratch/whole" "$scratch/parts" checkpoint.safetensors
finish
