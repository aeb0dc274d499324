#!/usr/bin/env bash
# Damaged images: each causes a warning and is counted. Training continues, as long as there are at
# most --max-bad-images of them.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"

data=$scratch/data
make_data "$data"
mapfile -t images < <(find "$data/train" -type f | sort)
((${#images[@]} == 36)) || fail "the data set has ${#images[@]} training images, not 36"

# start_of_frame FILE: prints the position of the frame header of a JPEG, which has the image's
# height and width.
start_of_frame() {
    LC_ALL=C grep -obUaP '\xff[\xc0\xc2]\x00\x11' "$1" | sed -n 1p | cut -d : -f 1
}

# A file that is not a JPEG, a truncated one, an empty one, and one whose header claims 65500 x
# 65500 pixels.
echo "this is no picture" >"${images[0]}"
head -c $(($(stat -c %s "${images[12]}") / 2)) "${images[12]}" >"$scratch/cut" && mv "$scratch/cut" "${images[12]}"
: >"${images[20]}"
bomb=${images[30]}
at=$(start_of_frame "$bomb")
[[ -n $at ]] || fail "'$bomb' has no frame header"
printf '\xff\xdc\xff\xdc' | dd of="$bomb" bs=1 seek=$((at + 5)) conv=notrunc status=none

expect_train 0 "$data" --epochs 2 --out "$scratch/run"
for i in 0 12 20 30; do
    grep -q "^ampscale: warning: bad image '${images[i]}': ." "$scratch/err" || fail "stderr has no warning for '${images[i]}'"
done
[[ $(wc -l <"$scratch/err") == 4 ]] || fail "two epochs do not give 4 warnings: $(cat "$scratch/err")"

# The records of steps and epochs count the bad images. The means of loss and accuracy do not
# include them.
run_values "$scratch/run" >"$scratch/values"
for epoch in 0 1; do
    bad=$(awk -v e="$epoch" '$1 == "step" && $4 == e { n += $NF } END { print n }' "$scratch/values")
    [[ $bad == 4 ]] || fail "the records of the steps of epoch $epoch have $bad bad images"
    grep -q "^epoch $epoch .* train 32 .* val 12 .* bad 4$" "$scratch/values" ||
        fail "epoch $epoch: $(grep "^epoch $epoch" "$scratch/values")"
done
grep -q "^completed$" "$scratch/values" || fail "no summary"

# A run on bad images that was stopped and resumed is bitwise equal to an uninterrupted run.
train_signalled TERM 3 "$data" --epochs 2 --out "$scratch/resumed"
expect_train 0 "$data" --epochs 2 --out "$scratch/resumed" --resume auto
same_run "resumed over bad images" "$scratch/run" "$scratch/resumed"

# The record of each attempt says how images are decoded. Pixels differ only for crops that are at
# least twice as large as the network's images.
decoding() { grep -oE '"decode": ?"[a-z]*"' "$1" | tr -d ' ' | sort -u; }
small=(--epochs 1 --image-size 16)
expect_train 0 "$data" "${small[@]}" --out "$scratch/exact"
expect_train 0 "$data" "${small[@]}" --out "$scratch/same" --decode cpu
expect_train 0 "$data" "${small[@]}" --out "$scratch/fast" --decode fast
[[ $(decoding "$scratch/exact/run.json") == '"decode":"exact"' ]] || fail "run.json does not say how images are decoded"
[[ $(decoding "$scratch/fast/run.json") == '"decode":"fast"' ]] || fail "run.json does not say --decode fast"
same_run "--decode cpu is exact" "$scratch/exact" "$scratch/same"
! cmp -s <(run_values "$scratch/exact") <(run_values "$scratch/fast") || fail "--decode fast has no effect"
expect_train 0 "$data" "${small[@]}" --epochs 2 --resume auto --out "$scratch/exact" --decode fast
[[ $(decoding "$scratch/exact/steps.jsonl") == '"decode":"fast"' ]] || fail "the record of the resumed run does not say --decode fast"
expect_train 0 --dummy --dummy-train 16 --dummy-val 8 --classes 3 "${small[@]}" --out "$scratch/dummy"
[[ -z $(decoding "$scratch/dummy/run.json") ]] || fail "a run without images names a decoding"
expect_error 2 "--decode 'gray'" train "${net[@]}" "$data" --decode gray --out "$scratch/none"

# With more bad images than the limit, the run exits with code 5. After the warnings, one line names
# the last image.
for most in 0 3; do
    dir=$scratch/stopped-$most
    expect_train 5 "$data" --epochs 2 --out "$dir" --max-bad-images "$most"
    [[ $(wc -l <"$scratch/err") == $((most + 2)) ]] || fail "--max-bad-images $most: $(cat "$scratch/err")"
    tail -n 1 "$scratch/err" |
        grep -q "^ampscale: $((most + 1)) bad images are more than the allowed $most; the last one is '$data/train/" ||
        fail "--max-bad-images $most has another last line: $(tail -n 1 "$scratch/err")"
    [[ ! -e $dir/summary.json ]] || fail "--max-bad-images $most: a failed run wrote a summary"
    [[ -z $(find "$dir" -name '*-tmp.*') ]] || fail "--max-bad-images $most: a temporary file of the run remains"
done
expect_train 0 "$data" --epochs 1 --out "$scratch/allowed" --max-bad-images 4

# ---- batches without a valid image ----

few=$scratch/few
"$program" data synth --out "$few" --classes 2 --train 4 --val 2 --size 48 >"$scratch/log" 2>&1 || fail "data synth: $(cat "$scratch/log")"
mapfile -t images < <(find "$few/train" -type f | sort)
cp "${images[5]}" "$scratch/intact"
echo "this is no picture" >"${images[2]}"
one=(--threads 1 --epochs 3 --training-only)

# launched NP DIR ARGS...: trains the small network with NP processes.
launched() {
    local np=$1 dir=$2
    shift 2
    if ((np == 1)); then
        expect_train 0 "$few" "${one[@]}" --out "$dir" "$@"
    else
        expect 0 launch --np "$np" -- train "${net[@]}" "$few" "${one[@]}" --check-replicas 1 --out "$dir" "$@"
    fi
}

# changes_nothing NAME NP ARGS...: finds the first step without a valid image. Weights, momentum,
# statistics and loss scale are the same before and after this step. A run that is resumed before it
# or after it ends like an uninterrupted run.
changes_nothing() {
    local name=$1 np=$2 dir=$scratch/$1 step steps key at
    shift 2
    launched "$np" "$dir" "$@"
    step=$(grep -m 1 '"images":0,' "$dir/steps.jsonl" | grep -o '"step":[0-9]*' | cut -d : -f 2)
    [[ -n $step ]] || { fail "$name: every step has a valid image" && return; }
    grep -q "\"step\":$step,.*\"loss\":null,.*\"bad_images\":[12]," "$dir/steps.jsonl" ||
        fail "$name: $(grep "\"step\":$step," "$dir/steps.jsonl")"
    grep -q $'\tLoss - (.*\tAcc@1      - (' "$scratch/out" || fail "$name: no line without a loss: $(cat "$scratch/out")"
    for ((at = step; at <= step + 1; at++)); do
        launched "$np" "$dir-$at" "$@" --steps "$at"
    done
    for key in state_bits loss_scale; do
        steps=$(for ((at = step; at <= step + 1; at++)); do
            grep -o "\"$key\": *[^,]*" "$dir-$at/summary.json"
        done | sort | uniq -c | awk '{ print $1 }')
        [[ -z $steps || $steps == 2 ]] || fail "$name: step $step changes $key"
    done
    [[ $(metadata "$dir-$step" loss_scale_clean) == "$(metadata "$dir-$((step + 1))" loss_scale_clean)" ]] ||
        fail "$name: step $step counts for the loss scale"
    for ((at = step; at <= step + 1; at++)); do
        launched "$np" "$dir-$at" "$@" --resume auto
        same_files "$name, resumed at step $at" "$dir" "$dir-$at" checkpoint.safetensors
    done
}

# metadata DIR KEY: prints a value of the checkpoint's metadata.
metadata() {
    LC_ALL=C grep -ao -m 1 "\"$2\":\"[^\"]*\"" "$1/checkpoint.safetensors"
}

changes_nothing alone 1 -b 1
changes_nothing alone-amp 1 -b 1 --precision amp
changes_nothing alone-lars 1 -b 1 --lars 0.001
changes_nothing tail 1 -b 7 --epochs 4
[[ $(metadata "$scratch/alone-amp" loss_scale_clean) == '"loss_scale_clean":"21"' ]] ||
    fail "of 24 steps, 3 have no image: $(metadata "$scratch/alone-amp" loss_scale_clean)"

# Both of two processes have a damaged image in the same step.
echo "this is no picture" >"${images[5]}"
changes_nothing both 2 -b 1 --epochs 12
changes_nothing both-devices 1 -b 2 --devices cpu:2 --epochs 12
changes_nothing both-devices-all 1 -b 2 --devices cpu:2 --dp-reduce all --epochs 12
changes_nothing both-sync 2 -b 1 --epochs 12 --sync-bn
cp "$scratch/intact" "${images[5]}"

# One of two processes has only the damaged image, or one of two batches of a step has. The ranks stay
# in step; the other image counts. In the last case, batch norm has a single value.
for flags in "" "--accumulate 2" "--precision amp" "--sync-bn" "--sync-bn -a resnet18"; do
    rm -rf "$scratch/half"
    # shellcheck disable=SC2086 # several flags
    launched 2 "$scratch/half" -b 1 $flags
    grep -q '"images":0,' "$scratch/half/steps.jsonl" && fail "half $flags: a step without images"
    grep -q '"images":[13],.*"bad_images":1,' "$scratch/half/steps.jsonl" || fail "half $flags: $(cat "$scratch/half/steps.jsonl")"
done

# No image of the training set can be decoded.
for image in "${images[@]}"; do
    echo "this is no picture" >"$image"
done
expect_train 5 "$few" --epochs 1 --out "$scratch/dark"
grep -q "^ampscale: epoch 0: none of its images can be decoded; 'ampscale data scan' lists bad files$" \
    < <(tail -n 1 "$scratch/err") || fail "dark: $(cat "$scratch/err")"

# The epoch's last batch has one image, and a layer has one value per channel.
tail="an epoch's last batch leaves a device one image, of which batch norm has only one value per channel; give another -b or a larger --image-size, or --drop-last"
expect_error 1 "$tail" train "${net[@]}" "$few" -a resnet18 -b 7 --out "$scratch/last"
expect_error 1 "$tail" train "${net[@]}" "$few" -a resnet18 -b 6 --devices cpu:2 --out "$scratch/last"

# No image of the validation set can be decoded.
for image in "$data"/val/*/*; do
    echo "this is no picture" >"$image"
done
expect_train 5 "$data" --epochs 1 --out "$scratch/blind"
grep -q "^ampscale: no validation image could be decoded" < <(tail -n 1 "$scratch/err") || fail "blind: $(cat "$scratch/err")"
[[ ! -e $scratch/blind/summary.json ]] || fail "the failed run 'blind' wrote a summary"

# An image that has lost its tables is not decoded with those of the image before it.
make_data "$scratch/tables"
mapfile -t images < <(find "$scratch/tables/train" -type f | sort)
for i in 5 15 25; do LC_ALL=C sed -i 's/\xff\xdb/\xff\xfe/g' "${images[i]}"; done
expect_train 0 "$scratch/tables" --epochs 1 --out "$scratch/tableless"
for i in 5 15 25; do
    grep -qF "bad image '${images[i]}': Quantization table" "$scratch/err" || fail "'${images[i]}' has no tables: $(<"$scratch/err")"
done
finish
