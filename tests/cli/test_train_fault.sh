#!/usr/bin/env bash
# The fake GPU (tests/kernels/cuda/fake) fails during a run. The run exits with code 4 and one line
# that names the GPU. The record and the last checkpoint remain. The resumed run ends with the same
# bytes as an undisturbed run.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"

need_fake_gpu
cd "$scratch" || exit 1
# 24 images are six steps. The fault comes after the second checkpoint, which is written after step 4.
net=(--dummy --dummy-train 24 --dummy-val 4 --classes 5 -a resnet8 --image-size 8 -b 4 --epochs 1
    --lr 0.01 --bucket-mb 0.05 -p 1 --threads 1 --checkpoint-steps 2)

# faulty NAME WHOLE KIND GPU LINE ARGS...: trains on a GPU that fails after the second checkpoint,
# and checks that the message begins with LINE. Resumes without the fault, and compares the result
# with the run WHOLE.
faulty() {
    local name=$1 whole=$2 kind=$3 gpu=$4 line=$5
    shift 5
    AMPSCALE_FAKE_FAULT=$kind:$gpu:$name/checkpoint-prev.safetensors expect_train 4 "$@" --out "$name"
    [[ $(grep -c '^ampscale: ' err) == 1 ]] || fail "$name: ampscale did not print exactly one line: $(cat err)"
    grep -qE -- "^ampscale: $line" err || fail "$name: no line says '$line': $(cat err)"
    [[ ! -e $name/summary.json ]] || fail "$name: a run that failed has a summary"
    (($(run_values "$name" | grep -c '^step') >= 4)) || fail "$name: recorded steps are lost"
    expect_train 0 "$@" --out "$name" --resume auto
    same_run "$name" "$whole" "$name"
}

# The message may begin with the phase whose graph was being launched.
phase='(the [a-z]+ phase as a graph: )?'
damaged='is damaged: cannot .*: uncorrectable ECC error encountered'
cards=(--devices cuda:0,1 --dp-reduce all --comm host)
expect_train 0 --devices cuda:0 --out whole-1
faulty alone whole-1 lost 0 "${phase}GPU 0 $damaged" --devices cuda:0
expect_train 0 "${cards[@]}" --out whole-2
faulty second whole-2 lost 1 "${phase}GPU 1 $damaged" "${cards[@]}"
faulty silent whole-2 flip 1 "the weights of rank 0, device 1 differ from those of rank 0, device 0" "${cards[@]}"

# One of several ranks has the fault.
. "$source_dir/tests/cli/ranks.sh"
AMPSCALE_FAKE_FAULT=lost:1:ranks/checkpoint-prev.safetensors expect_ranks 4 2 --dummy-train 40 --devices cuda --comm host --out ranks
[[ $(grep -c '^ampscale: ' <(grep -v warning: err)) == 1 ]] && grep -qE "^ampscale: rank 1: .*GPU 1 $damaged" err ||
    fail "ranks: there is not exactly one line that names the GPU: $(cat err)"
finish
