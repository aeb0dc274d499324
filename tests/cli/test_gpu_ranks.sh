#!/usr/bin/env bash
# Tests gradients of several ranks and devices on the fake GPU (tests/kernels/cuda/fake). The fake
# GPU has no NCCL, so the gradients go through host memory. Also tests errors of --comm.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"

expect_error 2 "--comm nccl needs GPUs, not --devices cpu" \
    train --dummy -a resnet8 --image-size 16 --steps 1 --comm nccl --out "$scratch/refused"

. "$source_dir/tests/cli/ranks.sh"
need_fake_gpu
cd "$scratch" || exit 1
net=(--dummy --dummy-train 16 --dummy-val 4 --classes 5 -a resnet8 --image-size 16 --epochs 1
    --lr 0.01 --bucket-mb 0.05 -p 1)

# by DIR TEXT: checks the transport of gradients in the record.
by() {
    grep -qF "\"comm\": \"$2\"" "$1/run.json" || fail "the record of '$1' does not say '$2'"
}

# With --devices cuda, the ranks use different GPUs.
mpi_leaks on
expect_ranks 0 2 -b 4 --devices cuda --out ddp
mpi_leaks off
[[ $(grep -c '^ampscale: warning: .*built without NCCL' err) == 1 ]] || fail "not one line says that NCCL is missing: $(cat err)"
by ddp "mpi, staged through host memory"

# With --comm host there is no warning.
expect_ranks 0 2 -b 4 --devices cuda:0,1 --dp-reduce all --comm host --out ddp2
! grep -q 'ampscale:' err || fail "a run with --comm host prints a warning: $(cat err)"
by ddp2 "joint, staged through host memory"

# --multiprocessing-distributed uses all GPUs of the machine.
"$program" info >out
gpus=$(grep '^  cuda:[0-9]' out | grep -vc 'not available')
expect 0 train "${net[@]}" -b 4 --steps 1 --multiprocessing-distributed --devices cuda --comm host --out all
grep -q "^ddp: $gpus ranks" out || fail "--multiprocessing-distributed does not use all $gpus GPUs: $(head -3 out)"

expect_ranks 1 2 -b 4 --devices cuda:0 --comm nccl --out nccl
grep -q 'built without NCCL' err || fail "--comm nccl without NCCL: $(cat err)"

# A rank uses the GPU whose number is its local rank. Here variables of torchrun or Slurm give the
# local ranks, and rank 0 does not have local rank 0.
unset OMPI_COMM_WORLD_RANK PMI_RANK

# on NAME ENV0 ENV1: runs two ranks that connect at an address, with these variables.
on() {
    pair_env=("$2" "$3")
    pair "$1" -b 4 --steps 1 --devices cuda --comm host
}

# took NAME SM: checks the architecture of rank 0's GPU. GPUs 0 and 1 are sm_90, and GPU 2 is sm_75.
took() {
    ((code == 0)) || fail "$1: exited with $code: $(cat err0 err1)"
    grep -qF "fake GPU, $2," "$1/run.json" || fail "$1: rank 0 did not take an $2: $(grep -o 'fake GPU[^\"]*' "$1/run.json")"
}

while IFS='|' read -r name sm first second; do
    on "$name" "$first" "$second"
    took "$name" "$sm"
done <<END
local|sm_75|LOCAL_RANK=2|LOCAL_RANK=0
slurm|sm_75|SLURM_LOCALID=2|SLURM_LOCALID=1
host|sm_90||
narrowed|sm_75|LOCAL_RANK=1 CUDA_VISIBLE_DEVICES=2|LOCAL_RANK=0 CUDA_VISIBLE_DEVICES=0
END

# If one rank cannot replay graphs, all ranks run without graphs. If a step fails on one of several
# ranks, the job ends.
on graphs "LOCAL_RANK=0" "LOCAL_RANK=1 AMPSCALE_FAKE_FAIL=cudaGraphLaunch:2"
took graphs sm_90
grep -q '"rung": "no graph"' graphs/summary.json && grep -q "another rank cannot replay graphs; the run continues on rung 'no graph'" err0 ||
    fail "the message for rank 1, which cannot replay graphs, is wrong: $(cat err0 err1)"
on step "LOCAL_RANK=0" "LOCAL_RANK=1 AMPSCALE_FAKE_FAIL=cudaStreamWaitEvent:1"
((code != 0)) && [[ $(cat err0 err1 | grep -c '^ampscale: [^w]') == 1 && ! -e step ]] &&
    grep -q -- '; try --fuse none --no-graph' err0 err1 ||
    fail "a step failed on rank 1, and the job did not end with one message (exit code $code): $(cat err0 err1)"

only_first=1
# The GPU of a rank does not exist or cannot be used. The rank ends, and does not use another GPU
# instead.
on many "LOCAL_RANK=4" "LOCAL_RANK=0"
((code == 2)) && grep -q "rank 0 has local rank 4, but its host has fewer GPUs" err0 err1 ||
    fail "a rank without a GPU exited with $code: $(cat err0 err1)"
on old "LOCAL_RANK=3" "LOCAL_RANK=0"
((code != 0)) && grep -q "GPU 3, 'fake GPU', is too old" err0 err1 || fail "a rank with a GPU that is too old exited with $code: $(cat err0 err1)"
on strange "LOCAL_RANK=first" "LOCAL_RANK=0"
((code == 2)) && grep -q "LOCAL_RANK='first': not a whole number" err0 err1 || fail "an invalid LOCAL_RANK is not refused with its value (exit code $code): $(cat err0 err1)"
finish
