#!/usr/bin/env bash
# Options that do not change the bits of a step on the fake GPU: programmatic dependent launch
# (--pdl), and weight gradients in half precision.
. "$(dirname "$0")/common.sh" "$@"

need_fake_gpu
cd "$scratch" || exit 1

# Four steps. Under sanitizers two steps on an eighth of the pixels.
steps=4 net=(--image-size 32 -b 8)
if sanitized; then
    steps=2 net=(--image-size 16 -b 4 --lr 0.01)
fi

# losses ARGS...: trains, and prints the loss of each step, one a line.
losses() {
    expect 0 train --dummy -a resnet8 "${net[@]}" --classes 10 --steps "$steps" -p 1 --threads 1 "$@" >&2
    grep -oE 'Loss [0-9.e+-]+' "$scratch/out" | cut -d' ' -f2
}

# Programmatic dependent launch ("early launch") changes no bit. On GPUs that support it, every
# kernel of a captured step is launched early. The fake GPU's kernels cannot access device memory
# before they wait for the previous kernel. If a capture with early launches fails, the run captures
# without them, and still uses graphs.
#
# early_launches ARGS...: trains, and prints three numbers: the early launches outside of captures,
# the early launches inside captures, and all launches inside captures.
early_launches() {
    rm -f "$scratch/count"
    AMPSCALE_FAKE_COUNT=$scratch/count losses --deterministic --precision O1 --fuse all --wgrad-stream on "$@" >"$scratch/got"
    [[ -s $scratch/got ]] || { echo "-1 -1 -1" && return; }
    awk '$1 == "cudaLaunchDependent" { out += $2; in_ += $3 } $1 == "cudaLaunchKernel" { all += $3 }
        END { print out + 0, in_ + 0, all + 0 }' "$scratch/count"
}
read -r outside inside all <<<"$(early_launches --devices cuda:0 --pdl off --out "$scratch/late")"
((outside + inside == 0 && all > 0)) || fail "with --pdl off there are $outside early launches outside of captures, and $inside of $all launches inside captures are early"
cp "$scratch/got" "$scratch/late.losses"
read -r outside inside all <<<"$(early_launches --devices cuda:0 --pdl on --out "$scratch/early")"
((outside > 0 && inside > 0 && inside == all)) || fail "with --pdl on there are $outside early launches outside of captures, and $inside of $all launches inside captures are early"
cmp "$scratch/got" "$scratch/late.losses" || fail "--pdl on changes bits of the losses"
grep -q '"pdl": true' "$scratch/early/run.json" || fail "--pdl on is not in the record"
grep -q '"pdl": false' "$scratch/late/run.json" || fail "--pdl off is not in the record"
read -r outside inside all <<<"$(early_launches --devices cuda:2 --pdl on)"
((outside + inside == 0)) || fail "on a GPU that cannot launch early there are $outside early launches outside of captures, and $inside inside captures"
for machine in old-code driver-12.2; do
    export AMPSCALE_FAKE_GPU=$machine
    read -r outside inside all <<<"$(early_launches --devices cuda:0 --pdl on)"
    ((outside + inside == 0)) || fail "on $machine there are $outside early launches outside of captures, and $inside inside captures"
    unset AMPSCALE_FAKE_GPU
done
AMPSCALE_FAKE_FAIL=cudaLaunchDependent@capture:3 expect 0 train --dummy -a resnet8 --image-size 8 -b 2 \
    --classes 10 --steps 32 -p 99 --threads 1 --devices cuda:0 --wgrad-stream off --out "$scratch/tried"
grep -q '"pdl": false' "$scratch/tried/run.json" || fail "early launches are used although they failed"
grep -q '"rung": "auto"' "$scratch/tried/summary.json" || fail "after early launches failed, the run does not use graphs"

# Every capture becomes a graph, with each option that is tried. The fake GPU refuses to capture cuDNN
# and cuBLASLt on a stream on which they have not executed before.
AMPSCALE_FAKE_COUNT=$scratch/captures expect 0 train --dummy -a resnet8 --image-size 8 -b 2 --classes 10 \
    --steps 32 -p 99 --threads 1 --devices cuda:0 --precision O1 --fuse all --deterministic --out "$scratch/options"
awk '$1 == "cudaStreamEndCapture" { ended += $2 + $3 } $1 == "cudaGraphInstantiate" { made += $2 + $3 }
    END { exit !(made > 0 && ended == made) }' "$scratch/captures" ||
    fail "not every capture became a graph: $(grep -E 'EndCapture|Instantiate' "$scratch/captures" | paste -sd' ')"

# Checkpoints do not have the gradients in half precision. A run that skips a step and is then
# resumed must still be bitwise equal to an uninterrupted run.
narrow=(train --dummy -a resnet8 "${net[@]}" --classes 10 -p 1 --threads 1 --devices cuda:0 --precision O1
    --deterministic --inject-overflow 1)
expect 0 "${narrow[@]}" --steps 4 --out "$scratch/whole"
expect 0 "${narrow[@]}" --steps 2 --out "$scratch/halves"
expect 0 "${narrow[@]}" --steps 4 --resume auto --out "$scratch/halves"
for name in whole halves; do
    grep '"state_bits"' "$scratch/$name/summary.json" >"$scratch/$name.bits" || fail "$name: the record has no hash of the final state"
done
cmp -s "$scratch/whole.bits" "$scratch/halves.bits" || fail "a resumed run at O1 has other bits than an uninterrupted run"
grep -q '"skipped": 1$' "$scratch/whole/summary.json" || fail "no step was skipped"
finish
