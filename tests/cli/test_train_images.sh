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
    [[ -z $(find "$dir" -name '*.tmp*') ]] || fail "--max-bad-images $most: a temporary file of the run remains"
done
expect_train 0 "$data" --epochs 1 --out "$scratch/allowed" --max-bad-images 4

# No image of the validation set can be decoded.
for image in "$data"/val/*/*; do
    echo "this is no picture" >"$image"
done
expect_train 5 "$data" --epochs 1 --out "$scratch/blind"
grep -q "^ampscale: no validation image could be decoded" < <(tail -n 1 "$scratch/err") || fail "blind: $(cat "$scratch/err")"
[[ ! -e $scratch/blind/summary.json ]] || fail "the failed run 'blind' wrote a summary"
finish
