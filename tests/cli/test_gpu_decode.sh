#!/usr/bin/env bash
# Tests `train --decode gpu` on the fake GPU, whose JPEG engines use libjpeg. The images are the
# same as with the CPU, even if the engines refuse a file, omit it, or fail on it. If the engines
# are missing, one line reports it. Runs can be resumed.
. "$(dirname "$0")/common.sh" "$@"

need_fake_gpu input_device_loader
export OMP_NUM_THREADS=1
cd "$scratch"

# The pictures are less than twice as wide and high as the network's images, so the CPU decodes the
# pictures at full size. One picture is damaged and one is truncated.
expect 0 data synth --out set --classes 3 --train 9 --val 2 --size 32 -j 2
mapfile -t images < <(find set/train -type f | sort)
truncate -s -200 "${images[3]}"
size=$(stat -c %s "${images[8]}")
printf '\377\001\377\002\377\003\377\004' | dd of="${images[8]}" bs=1 seek=$((size / 2)) conv=notrunc status=none

# learn NAME FLAG...: trains for an epoch, and writes its losses and counts of bad images to
# NAME.rows.
learn() {
    local name=$1
    shift
    "$program" train set -a resnet8 --image-size 20 -b 6 --epochs 1 --seed 4 -j 3 -p 1 --lr 0.001 --threads 1 \
        --devices cuda:0 --no-checkpoint --out "$name" "$@" >"$name.out" 2>"$name.err" ||
        fail "train $* exited with $?: $(tail -n 1 "$name.err")"
    python3 - "$name" >"$name.rows" <<'PY'
import json, sys
for line in open(sys.argv[1] + "/steps.jsonl"):
    row = json.loads(line)
    print(row["epoch"], row["step"], row["files_read"], row["bad_images"], row["loss"])
PY
}

# same NAME: checks that NAME.rows equals cpu.rows, the rows of the CPU. Losses may differ by a
# thousandth, because pixels may differ by one level.
same() {
    python3 - cpu.rows "$1.rows" <<'PY' || fail "$1.rows differs from the rows of the CPU"
import sys
want, got = [[line.split() for line in open(name)] for name in sys.argv[1:]]
assert len(want) == len(got) > 0, (len(want), len(got))
for a, b in zip(want, got):
    assert a[:4] == b[:4], (a, b)
    assert abs(float(a[4]) - float(b[4])) < 1e-3 * abs(float(a[4])) + 1e-3, (a, b)
PY
}

# warned NAME N PATTERN: checks that N lines of the run's warnings match the pattern.
warned() {
    [[ $(grep -cE "$3" "$1.err") == "$2" ]] || fail "$1: the number of lines that match '$3' is not $2: $(cat "$1.err")"
}

# member NAME FILE: prints the member NAME of a record.
# decodes RUN: prints the decoder that the record of the run names.
member() {
    python3 -c 'import json, sys; print(json.load(open(sys.argv[2])).get(sys.argv[1]))' "$@"
}
decodes() {
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1] + "/run.json"))["config"].get("decode"))' "$1"
}

learn cpu
warned cpu 1 'truncated'
[[ $(decodes cpu) == None ]] || fail "the record of a run without --decode gpu names a decoder"

export AMPSCALE_FAKE_COUNT=$scratch/calls
learn gpu --decode gpu
same gpu
warned gpu "$(grep -c "bad image" cpu.err)" 'bad image'
[[ $(decodes gpu) == gpu ]] || fail "run.json does not name the decoder"
grep -qF 'JPEG images are decoded by nvJPEG 13.3.2 on GPU 0, JPEG engines: 1 x 7' gpu.out ||
    fail "no line names the decoder: $(head -n 4 gpu.out)"
(($(awk '$1 == "nvjpegDecodeBatched" { n += $2 } END { print n + 0 }' calls) > 4)) ||
    fail "the engines were not used: $(grep nvjpeg calls)"
unset AMPSCALE_FAKE_COUNT

AMPSCALE_FAKE_NVJPEG=skips learn skips --decode gpu
same skips
for call in nvjpegDecodeBatched nvjpegJpegStreamParse; do
    AMPSCALE_FAKE_FAIL=$call:2 learn "fail-$call" --decode gpu
    same "fail-$call"
done
warned fail-nvjpegDecodeBatched 1 'cannot decode some images, and the CPU decodes them: nvjpegDecodeBatched: error 6 of nvJPEG, execution failed$'

for lack in absent no-engines; do
    AMPSCALE_FAKE_NVJPEG=$lack learn $lack --decode gpu
    same $lack
    warned $lack 1 '^ampscale: warning: --decode gpu: .*; the CPU decodes$'
    [[ $(decodes $lack) == None ]] || fail "$lack: run.json says that the GPU decodes"
done

# The run's bits depend neither on the number of threads nor on an interruption.
few=(train set -a resnet8 --image-size 20 -b 6 --epochs 1 --seed 4 -p 1 --threads 1 --devices cuda:0 --decode gpu)
expect 0 "${few[@]}" -j 1 --out whole
expect 0 "${few[@]}" -j 4 --steps 2 --out half
expect 0 "${few[@]}" -j 4 --resume auto --out half
for name in whole half; do
    member state_bits $name/summary.json >$name.bits
done
cmp -s whole.bits half.bits || fail "a resumed run has other bits than an uninterrupted run"

expect_error 2 '--decode gpu needs a GPU, not --devices cpu' train set -a resnet8 --image-size 20 -b 6 --decode gpu --out refused

# bench input compares each image with the image that the CPU decodes, and reports missing engines.
expect 0 data synth --out fine --classes 2 --train 6 --val 1 --size 32
small=(bench input --data fine --images 12 --image-size 20 -b 4 -n 1 -w 0 --threads 2 --devices cuda:0)
expect 0 "${small[@]}"
grep -qF 'JPEG engines of cuda:0: nvJPEG 13.3.2 on GPU 0, JPEG engines: 1 x 7' out || fail "bench input does not print the JPEG engines of the GPU: $(cat out)"
expect 0 "${small[@]}" --json
python3 - out <<'PY' || fail "the assertion about the output of bench input --json fails: $(cat out)"
import json, sys
rows = {(row["stage"], row["from"]): row for row in json.load(open(sys.argv[1]))["rows"]}
assert rows["gpu", "warm"]["on_gpu"] == 12 and rows["loader", "warm"]["on_gpu"] == 0, rows
PY
AMPSCALE_FAKE_NVJPEG=no-engines expect 0 "${small[@]}"
grep -qF 'JPEG engines of cuda:0: none: ' out && ! grep -qE '^ +2 +gpu' out || fail "bench input does not say why there are no JPEG engines: $(cat out)"
finish
