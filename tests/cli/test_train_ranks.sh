#!/usr/bin/env bash
# Runs of several ranks: each image is read once, a resumed run has the same bytes, the number of
# ranks may change in the middle of an epoch, and a signal stops the run in an orderly way.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"
. "$(dirname "$0")/modes.sh"
. "$(dirname "$0")/jobs.sh"
cd "$scratch" || exit 1
one=(--threads 1 -j 1)

# images NAME: prints the number of training images, the number of validation images, and the top-1
# of the last epoch.
images() {
    run_values "$1" | awk '$1 == "epoch" { line = $8 " " $13 " " $15 } END { print line }'
}

# 40 training and 25 validation images, which 3 ranks cannot divide evenly. In training, images are
# repeated until there are 42. Validation reads each image once, and so does --evaluate on any
# number of ranks.
"$program" data synth --out odd --classes 5 --train 8 --val 5 --size 48 >log 2>&1 || fail "$(<log)"
mpi_leaks on
for ranks in 2 3; do
    expect_ranks 0 "$ranks" odd "${one[@]}" -b 4 --epochs 2 --lr 0.02 --out "odd-$ranks"
done
mpi_leaks off
[[ $(images odd-2) == "40 25 "* ]] || fail "2 ranks: the images are $(images odd-2), not 40 and 25"
[[ $(images odd-3) == "42 25 "* ]] || fail "3 ranks: the images are $(images odd-3), not 42 and 25"
[[ $(grep -o '"images": *[0-9]*' odd-3/ranks.jsonl | sort -u | grep -o '[0-9]*$') == 14 ]] ||
    fail "3 ranks: not every rank has 14 images: $(<odd-3/ranks.jsonl)"
# Each line of ranks.jsonl has sums over the steps of a rank, and medians of the compute time of a
# step.
[[ $(grep -cE '"own_median_s": *[^,]+,.*"forward_median_s": *[0-9].*"backward_median_s": *[0-9]' odd-3/ranks.jsonl) == 6 ]] ||
    fail "3 ranks: the record does not have six lines with medians: $(<odd-3/ranks.jsonl)"
# The record has the number of cores that the ranks of a host use together: 1 if both ranks are
# bound to the same core, 2 if they are bound to different cores.
mapfile -t allowed < <(taskset -cp $$ | sed 's/.*://' | grep -oE '[0-9]+')
for last in 0 $((${#allowed[@]} > 1)); do
    export core0=${allowed[0]} core1=${allowed[last]}
    # shellcheck disable=SC2016 # the shell of each rank expands these variables
    mpi_run 100 2 bash -c 'core=core${OMPI_COMM_WORLD_RANK-$PMI_RANK}; taskset -c "${!core}" "$@"' \
        - "$program" train "${net[@]}" odd "${one[@]}" -b 4 --steps 1 --out "cores-$last"
    grep -q "\"host_cores\": *$((last + 1))\b" "cores-$last/run.json" ||
        fail "the record does not say $((last + 1)) cores (exit code $code): $(grep -o '"host_cores[^,}]*' "cores-$last/run.json") $(<err)"
done

# The MPI library cannot find the other ranks, for example because srun started them with the PMI of
# another library.
PMIX_RANK=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 expect_error 2 \
    "the launcher started 2 ranks, but they cannot find each other" \
    train "${net[@]}" odd "${one[@]}" -b 4 --epochs 1 --out unseen

evaluate=(odd "${one[@]}" --evaluate --resume odd-2/checkpoint.safetensors)
accuracy=$(images odd-2 | cut -d' ' -f3)
seen() {
    grep -qE "^ \* +Acc@1 $(printf %.3f "$accuracy")" <(tr '\r' '\n' <out) ||
        fail "$1: the accuracy is not $accuracy: $(tail -n 1 out)"
}
expect_train 0 "${evaluate[@]}"
seen "one device"
expect_train 0 "${evaluate[@]}" --devices cpu:2
seen "two devices"
for ranks in 2 3; do
    expect_ranks 0 "$ranks" "${evaluate[@]}"
    seen "$ranks ranks"
done

# A run of two ranks that was interrupted twice ends with the same bytes as an uninterrupted run,
# also in mixed precision after an overflow. --steps ends the first part in the middle of an epoch.
# A SIGKILL to rank 1 ends the second part. The third part continues for some steps.
make_data data
for precision in fp32 amp; do
    run=(data "${one[@]}" --epochs 100000 --precision "$precision" --checkpoint-steps 2)
    [[ $precision == fp32 ]] ||
        run+=(--loss-scale-interval 3 --loss-scale-init 1024 --inject-overflow 4)
    expect_ranks 0 2 "${run[@]}" --out "$precision-resumed" --steps 8
    touch before
    job_start mpirun 2 "${run[@]}" --out "$precision-resumed" --resume auto
    job_until "$precision-resumed/checkpoint.safetensors"
    job_kill KILL 1 >pid
    job_end 15
    ((code != 0)) || fail "$precision: the job exited with code 0 although rank 1 was killed"
    steps=$(($(run_values "$precision-resumed" | grep -c '^step') + 10))
    expect_ranks 0 2 "${run[@]}" --out "$precision-resumed" --resume auto --steps "$steps"
    expect_ranks 0 2 "${run[@]}" --out "$precision" --steps "$steps"
    same_run "$precision" "$precision" "$precision-resumed"
done
[[ $(run_values amp | grep -c '^step 4 .* skipped 1 ') == 1 ]] || fail "amp: no step was skipped"

# In one epoch of 36 images, the number of ranks changes from 2 to 1 and then to 3. Each image is
# read once: the number of bytes read equals the size of all files.
go=(data "${one[@]}" -b 2 --epochs 1 --out changed)
expect_ranks 0 2 "${go[@]}" --steps 3
expect_train 0 "${go[@]}" --resume auto --steps 9
expect_ranks 0 3 "${go[@]}" --resume auto
count=$(run_values changed | awk '$1 == "step" { n += $8; bytes += $(NF - 2) } END { print n, bytes }')
want="36 $(find data/train -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')"
[[ $count == "$want" ]] || fail "the images and bytes of the epoch are $count, not $want"
[[ $(images changed) == "36 12 "* ]] || fail "the record of the epoch does not have 36 training and 12 validation images: $(images changed)"

# A run whose number of ranks changes learns as well as a run with a fixed number of ranks: both
# reach a top-1 of 100 %.
learn=(data "${one[@]}" --epochs 100 --lr 0.02 --desired-acc 100)
learns() {
    expect_ranks 0 2 "${learn[@]}" --out learnt
    expect_ranks 0 2 "${learn[@]}" --out moved --steps 7
    expect_train 0 "${learn[@]}" --out moved --resume auto --steps 15
    expect_ranks 0 3 "${learn[@]}" --out moved --resume auto
    for name in learnt moved; do
        [[ $(images "$name") == *" 12 100" ]] || fail "$name: $(images "$name"), not 100 % of 12 images"
    done
}
sanitized || learns

# After a signal to the launcher, the job prints one line and writes a checkpoint of the last step.
endless=(--dummy --dummy-train 480 --dummy-val 8 --classes 3 "${one[@]}" --epochs 1000)
touch before
job_start launch 2 "${endless[@]}" --out stopped
job_until stopped/epochs.jsonl
kill -TERM "$job"
job_end 15
((code == 143)) || fail "after SIGTERM to the launcher, the job exited with $code, not 143"
grep -q '^ampscale: stopped by .* continue with --resume auto --out stopped' err || fail "$(<err)"
at=$(sed -nE 's/.*stopped by .*, step ([0-9]+);.*/\1/p' err)
[[ $(run_values stopped | grep -c '^step') == "$at" ]] || fail "the run stopped at step $at, but its record has another number of steps"
expect_ranks 0 2 "${endless[@]}" --out stopped --resume auto --steps $((at + 1))
grep -q "step $at" <(tr '\r' '\n' <out) || fail "the run does not resume at step $at: $(<out)"

# mpirun forwards the signal to the ranks, and kills them a second later. Whatever the ranks are
# doing then, nothing hangs, and the run can be resumed.
touch before
job_start mpirun 2 "${endless[@]}" --out killed
job_until killed/epochs.jsonl
kill -TERM "$job"
job_end 15
((code != 0)) || fail "after SIGTERM to mpirun, the job exited with 0"
at=$(run_values killed | grep -c '^step')
expect_ranks 0 2 "${endless[@]}" --out killed --resume auto --steps $((at + 1))
finish
