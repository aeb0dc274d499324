#!/usr/bin/env bash
# Runs of several ranks: each image is read once, and a signal stops the run in an orderly way.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"
. "$(dirname "$0")/jobs.sh"
cd "$scratch" || exit 1
one=(--threads 1 -j 1)

# images NAME: prints the number of training images, the number of validation images, and the top-1
# of the last epoch.
images() {
    run_values "$1" | awk '$1 == "epoch" { line = $8 " " $13 " " $15 } END { print line }'
}

# 40 training and 25 validation images, which 3 ranks cannot divide evenly. Training repeats images
# until there are 42; validation reads each once, on any number of ranks.
"$program" data synth --out odd --classes 5 --train 8 --val 5 --size 48 >log 2>&1 || fail "$(<log)"
for ranks in 2 3; do
    expect_ranks 0 "$ranks" odd "${one[@]}" -b 4 --epochs 2 --lr 0.02 --out "odd-$ranks"
done
[[ $(images odd-2) == "40 25 "* ]] || fail "2 ranks: the images are $(images odd-2), not 40 and 25"
[[ $(images odd-3) == "42 25 "* ]] || fail "3 ranks: the images are $(images odd-3), not 42 and 25"
[[ $(grep -o '"images": *[0-9]*' odd-3/ranks.jsonl | sort -u | grep -o '[0-9]*$') == 14 ]] || fail "3 ranks: not 14 images each"
evaluate=(odd "${one[@]}" --evaluate --resume odd-2/checkpoint.safetensors)
accuracy=$(printf %.3f "$(images odd-2 | cut -d' ' -f3)")
seen() {
    grep -qE "^ \* +Acc@1 $accuracy" <(tr '\r' '\n' <out) || fail "$1: the accuracy is not $accuracy: $(tail -n 1 out)"
}
expect_train 0 "${evaluate[@]}" --devices cpu:2
seen "two devices"
expect_ranks 0 3 "${evaluate[@]}"
seen "three ranks"

# The record has the share of other processes on the ranks' host, which is not that of another rank.
grep -q '"others": *[0-9]' odd-2/summary.json || fail "2 ranks: no share of other processes: $(<odd-2/summary.json)"
grep -q "\"host\": \"$(hostname)\"" odd-2/summary.json || fail "2 ranks: no host of the counters: $(<odd-2/summary.json)"

# More threads than cores on the host are one warning, from rank 0.
expect_ranks 0 2 odd --threads "$(nproc)" -b 4 --steps 1 --training-only --out crowded
[[ $(grep -c "warning: .* threads on .* fewer devices or ranks$" err) == 1 ]] || fail "two ranks with all cores each: $(<err)"
grep -q '"oversubscribed": true' crowded/run.json || fail "two ranks with all cores each: $(<crowded/run.json)"

# A data set of one class is one warning, from rank 0.
mkdir -p single/train && cp -r odd/train/c0000-* single/train
expect_ranks 0 2 single "${one[@]}" -b 4 --steps 1 --training-only --out single-2
[[ $(grep -c "warning: 'single/train' has only one class, 'c0000-" err) == 1 ]] || fail "one class: $(<err)"

# The record has the number of cores that the ranks of a host use together.
mapfile -t allowed < <(taskset -cp $$ | sed 's/.*://' | grep -oE '[0-9]+')
for last in 0 $((${#allowed[@]} > 1)); do
    export core0=${allowed[0]} core1=${allowed[last]}
    # shellcheck disable=SC2016 # the shell of each rank expands these variables
    mpi_run 100 2 bash -c 'core=core${OMPI_COMM_WORLD_RANK-$PMI_RANK}; taskset -c "${!core}" "$@"' \
        - "$program" train "${net[@]}" odd "${one[@]}" -b 4 --steps 1 --out "cores-$last"
    grep -q "\"host_cores\": *$((last + 1))\b" "cores-$last/run.json" || fail "the record does not say $((last + 1)) cores: $(<err)"
done

# A launcher of another MPI library: its ranks cannot find each other.
PMIX_RANK=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 expect_error 2 \
    "the launcher started 2 ranks, but they cannot find each other" train "${net[@]}" odd "${one[@]}" -b 4 --epochs 1 --out unseen

# After a signal to launch, the job prints one line and writes a checkpoint of the last step. mpirun
# forwards the signal to the ranks, and kills them a second later: nothing hangs.
endless=(--dummy --dummy-train 480 --dummy-val 8 --classes 3 "${one[@]}" --epochs 1000)
for launcher in launch mpirun; do
    touch before
    job_start $launcher 2 "${endless[@]}" --out $launcher
    job_until $launcher/epochs.jsonl
    kill -TERM "$job"
    job_end 15
    [[ $launcher == mpirun ]] || { ((code == 143)) && grep -q '^ampscale: stopped by .* continue with --resume auto --out launch' err; } ||
        fail "after SIGTERM to $launcher: $code: $(<err)"
    ((code != 0)) || fail "after SIGTERM to $launcher, the job exited with 0"
    at=$(run_values $launcher | grep -c '^step')
    expect_ranks 0 2 "${endless[@]}" --out $launcher --resume auto --steps $((at + 1))
done
finish
