#!/usr/bin/env bash
# A rank of a run is killed or stopped at a random moment, several times (argument after the usual
# three, default 20). Each time the job must end within a time limit, no finished epoch may be lost,
# and the resumed run must have the bytes of an uninterrupted one, also its loss scaler.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"
. "$(dirname "$0")/jobs.sh"
job_may_lose
cd "$scratch" || exit 1

RANDOM=4 # the same victims every time, and the same moments as far as they can be aimed
make_data data
run=(data --threads 1 -j 1 --epochs 100000 --checkpoint-steps 3 --comm-timeout 2
    --precision amp --loss-scale-interval 3 --loss-scale-init 1024 --inject-overflow 4)
epochs=0
kills=${4:-20}
for ((i = 0; i < kills; i++)); do
    victim=$((RANDOM % 2)) signal=KILL
    ((RANDOM % 3 > 0)) || signal=STOP
    touch before
    job_start mpirun 2 "${run[@]}" --out run --resume auto
    job_until run/checkpoint.safetensors
    sleep "0.$((RANDOM % 4))"
    job_kill "$signal" "$victim" >pid
    job_end 15
    ((code != 0)) || fail "attempt $i: exited with 0"
    job_says_lost mpirun "$signal" "$victim" "$(<pid)" "(did not .*; it may have died or be stuck|was lost (in|after) operation .*)"
    run_values run >values || fail "attempt $i: the record cannot be read"
    now=$(grep -c '^epoch' values)
    ((now >= epochs)) || fail "attempt $i: the record has $now epochs, but had $epochs before"
    epochs=$now
done
((epochs >= kills / 2)) || fail "the attempts together trained only $epochs epochs"
steps=$(($(grep -c '^step' values) + 10))
expect_ranks 0 2 "${run[@]}" --out run --resume auto --steps "$steps"
expect_ranks 0 2 "${run[@]}" --out reference --steps "$steps"
same_run "killed $kills times" reference run
finish
