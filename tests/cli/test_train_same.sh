#!/usr/bin/env bash
# The result of a run depends on its configuration, seed and data. It does not depend on the number
# of worker threads or on time.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"

data=$scratch/data
make_data "$data"

# run_to NAME ARGS...: trains two epochs.
run_to() {
    expect_train 0 "$data" --epochs 2 --out "$scratch/$1" --seed 7 "${@:2}"
}

run_to first
run_to again
same_run "the same command twice" "$scratch/first" "$scratch/again"
run_to one-worker -j 1
same_run "one worker" "$scratch/first" "$scratch/one-worker"
run_to many-workers -j 5
same_run "five workers" "$scratch/first" "$scratch/many-workers"
run_to checkpoints --checkpoint-steps 1
same_run "more checkpoints" "$scratch/first" "$scratch/checkpoints"
run_to rarely -p 100
same_run "fewer log lines" "$scratch/first" "$scratch/rarely"

cp -r "$data" "$scratch/elsewhere"
expect_train 0 "$scratch/elsewhere" --epochs 2 --out "$scratch/moved" --seed 7
same_run "the same data in another place" "$scratch/first" "$scratch/moved"

run_to other-seed --seed 8
! cmp -s "$scratch/first/checkpoint.safetensors" "$scratch/other-seed/checkpoint.safetensors" ||
    fail "another seed gives the same weights"
run_to smoothed --label-smoothing 0.1
! cmp -s "$scratch/first/checkpoint.safetensors" "$scratch/smoothed/checkpoint.safetensors" ||
    fail "another loss gives the same weights"

# Not every library computes the same bits with another number of threads. The test only prints
# whether the bits are the same.
run_to one-thread --threads 1
if cmp -s "$scratch/first/best.safetensors" "$scratch/one-thread/best.safetensors"; then
    echo "one thread and two threads compute the same bits on this machine"
else
    echo "one thread and two threads compute different bits on this machine"
fi
finish
