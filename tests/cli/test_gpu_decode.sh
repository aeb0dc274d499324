#!/usr/bin/env bash
# Tests `train --decode gpu` on the fake GPU, whose JPEG engines use libjpeg. The images are the
# same as with the CPU, even if the engines fail. If the engines are missing, one line reports it.
# Runs can be resumed. (input_device_loader tests the files that the engines refuse or omit.)
. "$(dirname "$0")/common.sh" "$@"

need_fake_gpu input_device_loader
export OMP_NUM_THREADS=1
cd "$scratch" || exit 1

# The pictures are less than twice as wide and high as the network's images, so the CPU decodes the
# pictures at full size. One picture is damaged and one is truncated.
expect 0 data synth --out set --classes 3 --train 9 --val 2 --size 32 -j 2
mapfile -t images < <(find set/train -type f | sort)
truncate -s -200 "${images[3]}"
size=$(stat -c %s "${images[8]}")
printf '\377\001\377\002\377\003\377\004' | dd of="${images[8]}" bs=1 seek=$((size / 2)) conv=notrunc status=none

# learn NAME FLAG...: trains for an epoch, and writes its warnings to NAME.err, its losses to
# NAME.losses and its counts of images to NAME.counts.
few=(train set -a resnet8 --image-size 20 -b 6 --epochs 1 --seed 4 -p 1 --lr 0.001 --threads 1 --devices cuda:0)
learn() {
    expect 0 "${few[@]}" -j 3 --no-checkpoint --out "$1" "${@:2}"
    cp err "$1.err"
    sed -nE 's/.*"loss": ?([^,}]*).*/\1/p' "$1/steps.jsonl" >"$1.losses"
    grep -oE '"(files_read|bad_images)": ?[0-9]+' "$1/steps.jsonl" >"$1.counts" || fail "$1: no counts of images"
}

# same NAME: checks that the run read the images that the run with the CPU read. Losses may differ by
# a thousandth, because pixels may differ by one level.
same() {
    cmp cpu.counts "$1.counts" || fail "$1: other files or bad images than with the CPU: $(diff cpu.counts "$1.counts")"
    paste cpu.losses "$1.losses" | awk '{ d = $1 - $2; if (NF != 2 || d * d > (1e-3 * $1 + 1e-3) ^ 2) bad = 1 } END { exit bad || !NR }' ||
        fail "$1: other losses than with the CPU: $(paste cpu.losses "$1.losses")"
}

# warned NAME N PATTERN: checks that N lines of the run's warnings match the pattern.
warned() {
    [[ $(grep -cE "$3" "$1.err") == "$2" ]] || fail "$1: the number of lines that match '$3' is not $2: $(cat "$1.err")"
}

# by_gpu RUN: whether the record says that the GPU decodes.
by_gpu() { grep -qE '"decode": ?"gpu"' "$1/run.json"; }

learn cpu
warned cpu 1 'truncated'
! by_gpu cpu || fail "the record of a run without --decode gpu names a decoder"

export AMPSCALE_FAKE_COUNT=$scratch/calls
learn gpu --decode gpu
same gpu
warned gpu "$(grep -c "bad image" cpu.err)" 'bad image'
by_gpu gpu || fail "run.json does not name the decoder"
grep -qF 'JPEG images are decoded by nvJPEG 13.3.2 on GPU 0, JPEG engines: 1 x 7' out || fail "no line names the decoder: $(head -n 4 out)"
(($(awk '$1 == "nvjpegDecodeBatched" { n += $2 } END { print n + 0 }' calls) > 4)) ||
    fail "the engines were not used: $(grep nvjpeg calls)"
unset AMPSCALE_FAKE_COUNT

AMPSCALE_FAKE_FAIL=nvjpegDecodeBatched:2 learn fail --decode gpu
same fail
warned fail 1 'cannot decode some images, and the CPU decodes them: '

AMPSCALE_FAKE_NVJPEG=no-engines learn lack --decode gpu
same lack
warned lack 1 '^ampscale: warning: --decode gpu: .*; the CPU decodes$'
! by_gpu lack || fail "run.json says that the GPU decodes, but it has no JPEG engines"

# The run's bits depend neither on the number of threads nor on an interruption.
expect 0 "${few[@]}" --decode gpu -j 1 --out whole
expect 0 "${few[@]}" --decode gpu -j 4 --steps 2 --out half
expect 0 "${few[@]}" --decode gpu -j 4 --resume auto --out half
bits=$(grep -o '"state_bits": *"[^"]*"' whole/summary.json)
[[ -n $bits ]] && grep -qF "$bits" half/summary.json ||
    fail "a resumed run has other bits than an uninterrupted run"

expect_error 2 '--decode gpu needs a GPU, not --devices cpu' "${few[@]}" --devices cpu --decode gpu --out refused

# bench input compares each image with the image that the CPU decodes, and reports missing engines.
expect 0 data synth --out fine --classes 2 --train 6 --val 1 --size 32
small=(bench input --data fine --images 12 --image-size 20 -b 4 -n 1 -w 0 --threads 2 --devices cuda:0)
expect 0 "${small[@]}"
grep -qF 'JPEG engines of cuda:0: nvJPEG 13.3.2 on GPU 0, JPEG engines: 1 x 7' out && grep -qE '^ +2 +gpu' out ||
    fail "bench input does not print the JPEG engines of the GPU: $(cat out)"
finish
