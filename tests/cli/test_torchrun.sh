#!/usr/bin/env bash
# torchrun, which comes with PyTorch, starts ranks, and starts them again after one was killed: the
# bits are those of the same job under `ampscale launch`.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
cd "$scratch" || exit 1
# The torchrun of Debian 12 does not work, so it is first tried with the command "true".
timeout 60 torchrun --standalone --no_python --nproc_per_node 1 true >/dev/null 2>&1 || skip "there is no torchrun of PyTorch that works"
unset "${!SLURM_@}" "${!PMI_@}" "${!OMPI_COMM_@}" "${!TORCHELASTIC_@}" RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT AMPSCALE_SECRET AMPSCALE_JOB
own_program
ranks=(train --dummy --dummy-train 640 --dummy-val 4 --classes 5 -a resnet8 --image-size 16 --epochs 1 -b 4 --devices ref
    --mode ddp --comm-timeout 100 -p 1 --telemetry 0 --threads 1 --checkpoint-steps 5 --resume auto)
timeout 250 torchrun --standalone --no_python --nproc_per_node 2 --max_restarts 2 "$program" "${ranks[@]}" --out restarted >out 2>err </dev/null &
job=$!
await 60 test -e restarted/checkpoint.safetensors
kill -KILL "$(own_ranks | sed -n 's/^1 //p')"
code=0
wait "$job" || code=$?
((code == 0)) && grep -q "^Resuming at epoch 0, step" out || fail "torchrun did not restart the job: $code: $(<err)"
expect 0 launch --nnodes 1 --nproc 2 -- "${ranks[@]}" --out whole
same_run "a restart by torchrun" whole restarted
finish
