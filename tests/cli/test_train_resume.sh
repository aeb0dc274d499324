#!/usr/bin/env bash
# A run that was killed or stopped, or whose checkpoint was damaged, is resumed. It must end with
# the same bytes and the same record as an uninterrupted run.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"

RANDOM=20 # the same moments every time, as far as a kill can be aimed
data=$scratch/data
make_data "$data"
reference=$scratch/reference
expect_train 0 "$data" --epochs 3 --out "$reference"
[[ -s $reference/summary.json && -s $reference/best.safetensors ]] || { fail "no reference run" && finish; }

# finish_run NAME ARGS...: resumes the run, checks that it completes, and compares it with the
# reference.
finish_run() {
    local name=$1
    shift
    expect_train 0 "$data" --epochs 3 --out "$scratch/$name" --resume auto "$@"
    same_run "$name" "$reference" "$scratch/$name"
}

# killed_again_and_again NAME MOST ARGS...: kills the run after a random number of batches, at most
# MOST, and resumes it, until an attempt completes. From the last training batch of an epoch to the
# end of its validation there are 7 batches and no checkpoint. If MOST were at most 7, no attempt
# could pass these batches.
killed_again_and_again() {
    local name=$1 most=$2 attempt
    shift 2
    for ((attempt = 1; attempt <= 60; attempt++)); do
        train_signalled KILL $((1 + RANDOM % most)) "$data" --epochs 3 --out "$scratch/$name" --resume auto "$@"
        ((code != 0)) || break
        ((code == 137)) || fail "$name: attempt $attempt exited with $code: $(cat "$scratch/err")"
    done
    ((attempt > 2)) || fail "$name: the run was killed fewer than two times"
    ((code == 0)) || fail "$name: did not end within 60 attempts"
    same_run "$name" "$reference" "$scratch/$name"
}

killed_again_and_again kill-epochs 16
killed_again_and_again kill-1 10 --checkpoint-steps 1
killed_again_and_again kill-3 12 --checkpoint-steps 3

# In fp16, the loss scale grows and a step overflows. The resumed run also restores the loss scaler.
fp32_reference=$reference reference=$scratch/amp-reference
amp=(--precision amp --loss-scale-init 1024 --loss-scale-interval 3 --inject-overflow 7)
expect_train 0 "$data" --epochs 3 --out "$reference" "${amp[@]}"
[[ $(run_values "$reference" | grep -c '^step 7 .* skipped 1 ') == 1 ]] || fail "the uninterrupted run skipped no step"
[[ $(run_values "$reference" | grep -o 'scale [0-9]*' | sort -u | wc -l) -gt 2 ]] || fail "the loss scale of the uninterrupted run did not change"
killed_again_and_again kill-amp-3 12 --checkpoint-steps 3 "${amp[@]}"
reference=$fp32_reference

# The run is killed before its first checkpoint, and during validation (batches 6 to 11).
for after in 1 7 9; do
    train_signalled KILL "$after" "$data" --epochs 3 --out "$scratch/kill-after-$after"
    ((code == 137)) || fail "the run that was killed after batch $after ended with exit code $code"
    finish_run "kill-after-$after"
done

# An orderly stop in training and in validation: one line, a checkpoint, and exit code 128 plus the
# number of the signal.
moments=(2 4 8 13)
for signal in TERM INT USR1 HUP; do
    [[ $signal != [UH]* ]] || moments=(4)
    for after in "${moments[@]}"; do
        name=$signal-after-$after
        train_signalled "$signal" "$after" "$data" --epochs 3 --out "$scratch/$name"
        ((code == 128 + $(kill -l "$signal"))) || fail "$name: the exit code is $code, not that of SIG$signal"
        [[ $(wc -l <"$scratch/err") == 1 ]] || fail "$name: $(cat "$scratch/err")"
        grep -q "^ampscale: stopped by SIG$signal at epoch .*--resume auto --out $scratch/$name$" "$scratch/err" ||
            fail "$name: $(cat "$scratch/err")"
        [[ -s $scratch/$name/checkpoint.safetensors ]] || fail "$name: no checkpoint"
        [[ ! -e $scratch/$name/summary.json ]] || fail "$name: a stopped run has a summary"
        finish_run "$name" -j 1
    done
done

# The first call trains 2 epochs. The second call resumes the run, and trains up to 3 epochs.
expect_train 0 "$data" --epochs 2 --out "$scratch/longer"
finish_run longer
grep -q "Resuming at epoch 2, step 10" "$scratch/out" || fail "longer: $(head -n 4 "$scratch/out")"
[[ -s $scratch/longer/summary-10.json ]] || fail "longer: the summary of the first call was removed"

# Resuming a complete run changes nothing.
finish_run longer

# The run resumes from a checkpoint in another folder. It ends with the same weights, and has a
# record of its own.
train_signalled TERM 9 "$data" --epochs 3 --out "$scratch/elsewhere"
expect_train 0 "$data" --epochs 3 --out "$scratch/onward" --resume "$scratch/elsewhere/checkpoint.safetensors"
same_files "another folder" "$reference" "$scratch/onward" checkpoint.safetensors

# Images were removed, repaired or added after the run had been stopped within an epoch. The run
# resumes only with --data-changed, and records the fingerprints. If the epoch now has fewer batches, it
# is over.
changed() {
    local name=$1 steps=$2 epochs=$3 had
    expect_train 0 "$data" --epochs 3 --out "$scratch/$name" --steps "$steps"
    mv "$data" "$scratch/unchanged"
    cp -r "$scratch/unchanged" "$data"
    "${@:4}"
    expect_error 2 "was trained on other data than the data on the command line; give the same data, --data-changed if images were repaired, added or removed, or start" \
        train "${net[@]}" "$data" --epochs 3 --out "$scratch/$name" --resume auto
    expect_train 0 "$data" --epochs 3 --out "$scratch/$name" --resume auto --data-changed
    had=$(grep '"event":"resume"' "$scratch/$name/steps.jsonl" | grep -c '"data_changed":{"from":"[0-9a-f]\{16\}","to":"[0-9a-f]\{16\}"}')
    [[ $had == 1 ]] || fail "$name: $had attempts with changed data: $(grep '"event":"resume"' "$scratch/$name/steps.jsonl")"
    [[ $(run_values "$scratch/$name" | grep -c "^step") == "$epochs" ]] || fail "$name: $(run_values "$scratch/$name")"
    expect_train 0 "$data" --epochs 4 --out "$scratch/$name" --resume auto
    [[ $(grep '"event":"resume"' "$scratch/$name/steps.jsonl" | tail -n 1) != *data_changed* ]] ||
        fail "$name: the last attempt has unchanged data"
    rm -r "$data" && mv "$scratch/unchanged" "$data"
}
one_less() { rm "$(find "$data/train" -type f | sort | head -n 1)"; }
half() { find "$data/train" -type f | sort | sed -n 'n;p' | xargs rm; }
repaired() { cp "$(find "$data/train" -type f | sort | tail -n 1)" "$(find "$data/train" -type f | sort | head -n 1)"; }
changed one-less 7 15 one_less
changed repaired 7 15 repaired
changed half 9 12 half
expect_error 2 "classes 3, not 2" train "${net[@]}" --dummy --classes 2 --epochs 4 --out "$scratch/half" --resume auto --data-changed

# damage FILE: overwrites a few bytes in the middle of the file.
damage() {
    printf 'not these bytes' | dd of="$1" bs=1 seek=$(($(stat -c %s "$1") / 2)) conv=notrunc status=none
}

# The newest checkpoint is damaged. A warning says so, and the run resumes from the previous
# checkpoint.
train_signalled TERM 20 "$data" --epochs 3 --out "$scratch/damaged"
damage "$scratch/damaged/checkpoint.safetensors"
finish_run damaged
[[ $(wc -l <"$scratch/err") == 1 ]] || fail "damaged: $(cat "$scratch/err")"
grep -q "^ampscale: warning: '$scratch/damaged/checkpoint.safetensors' is damaged" "$scratch/err" ||
    fail "damaged: $(cat "$scratch/err")"

# Both checkpoints are damaged. The run fails, and does not change its folder.
train_signalled TERM 20 "$data" --epochs 3 --out "$scratch/lost"
damage "$scratch/lost/checkpoint.safetensors"
damage "$scratch/lost/checkpoint-prev.safetensors"
cp -r "$scratch/lost" "$scratch/before"
expect_train 5 "$data" --epochs 3 --out "$scratch/lost" --resume auto
grep -q "^ampscale: .*'$scratch/lost/checkpoint.*is damaged" < <(tail -n 1 "$scratch/err") || fail "lost: $(cat "$scratch/err")"
diff -r "$scratch/before" "$scratch/lost" || fail "lost: the folder has changed"
finish
