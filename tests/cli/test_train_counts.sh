#!/usr/bin/env bash
# What a step counts: its images, the bytes that it reads, and its place in the schedule of the learning
# rate.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"
. "$(dirname "$0")/ranks.sh"
cd "$scratch" || exit 1
one=(--threads 1 -j 1)

make_data data
# A step that reads 2.4 GB: 8 names of one JPEG file, with zeros behind its end.
mkdir -p big/{train,val}/class
cp "$(find data/train -type f | head -n 1)" big/train/class/0.JPEG
cp big/train/class/0.JPEG big/val/class/
truncate -s 300M big/train/class/0.JPEG
for i in {1..7}; do ln big/train/class/0.JPEG big/train/class/$i.JPEG; done
expect_train 0 big "${one[@]}" --steps 1 --training-only --out big-run
grep -q '"bytes_read":2516582400,' big-run/steps.jsonl || fail "a step of 2516582400 bytes: $(<big-run/steps.jsonl)"

# In one epoch of 36 images, the number of ranks changes from 2 to 1 and then to 3. Each image is
# read once: the number of bytes read equals the size of all files. The learning rate falls from 0.036
# to 0 by 0.001 per image, whatever the number of ranks.
go=(data "${one[@]}" -b 2 --epochs 1 --lr 0.036 --lr-schedule poly --lr-power 1 --out changed)
expect_ranks 0 2 "${go[@]}" --steps 3
expect_train 0 "${go[@]}" --resume auto --steps 9
expect_ranks 0 3 "${go[@]}" --resume auto
count=$(run_values changed | awk '$1 == "step" { n += $8; bytes += $(NF - 2) } END { print n, bytes }')
want="36 $(find data/train -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')"
[[ $count == "$want" ]] || fail "the images and bytes of the epoch are $count, not $want"
rates=$(sed -nE 's/^\{"epoch".*"images":([0-9]+).*"lr":([0-9.e-]+).*/\1 \2/p' changed/steps.jsonl |
    awk '{ wrong += ($2 - 0.001 * (36 - seen)) ^ 2 > 1e-14; seen += $1 } END { print NR, wrong }')
[[ $rates == "11 0" ]] || fail "the numbers of steps and of wrong learning rates are $rates, not 11 0: $(<changed/steps.jsonl)"
finish
