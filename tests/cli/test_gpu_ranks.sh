#!/usr/bin/env bash
# Gradients of GPUs: several ranks and devices on the fake GPU (tests/kernels/cuda/fake), which has
# no NCCL, so that they pass through the memory of the host; and what --comm refuses.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"

expect_error 2 "--comm nccl is for GPUs, not for --devices cpu" \
    train --dummy -a resnet8 --image-size 16 --steps 1 --comm nccl --out "$scratch/refused"

. "$source_dir/tests/cli/modes.sh"
fake=$build_dir/tests/kernels/cuda/fake/ampscale_cuda_fake.so
if [[ ! -e $fake ]]; then
    echo "skipped: no C++ compiler, no fake GPU"
    exit $((failures > 0 ? 1 : 77))
fi
export AMPSCALE_CUDA_MODULE=$fake XDG_CACHE_HOME=$scratch/cache
cd "$scratch" || exit 1
net=(--dummy --dummy-train 16 --dummy-val 4 --classes 5 -a resnet8 --image-size 16 --epochs 1
    --lr 0.01 --bucket-mb 0.05 -p 1)

# by DIR TEXT: the record says what gradients travelled by.
by() {
    grep -qF "\"comm\": \"$2\"" "$1/run.json" || fail "the record of '$1' does not say '$2'"
}

# Ranks that are told "cuda" take a GPU each.
expect_ranks 0 2 -b 4 --devices cuda --out ddp
grep -qE '^gradients between devices: mpi, staged through host memory \(rank 0 \(host .*\) has no NCCL\)$' out ||
    fail "the run does not say how gradients travel: $(head -c 500 out)"
[[ $(grep -c '^ampscale: warning: ' err) == 1 ]] && grep -qF 'built without NCCL' err ||
    fail "not one line says that NCCL is missing: $(cat err)"
by ddp "mpi, staged through host memory"

# Asked for, it is no surprise.
expect_ranks 0 2 -b 4 --devices cuda:0,1 --dp-reduce all --comm host --out ddp2
grep -qx 'gradients between devices: joint, staged through host memory' out ||
    fail "the run does not say how gradients travel: $(head -c 500 out)"
! grep -q 'ampscale:' err || fail "a run that was asked to use the host complains: $(cat err)"
by ddp2 "joint, staged through host memory"

# Two steps and one validation, as on the reference.
expect_ranks 0 2 -b 4 --devices ref --out ref
follows "the fake GPU and the reference" ref ddp 1e-4 3

expect_ranks 1 2 -b 4 --devices cuda:0 --comm nccl --out nccl
[[ $(grep -c '^ampscale: ' err) == 1 ]] && grep -qF 'built without NCCL' err ||
    fail "--comm nccl does not end in one line: $(cat err)"
finish
