#!/usr/bin/env bash
# Tests `bench step --predict`, which predicts a step on a GPU from a description of the GPU. First
# tests usage errors. Then, with the CUDA module and a cuDNN that plans from descriptions, tests the
# table, the CSV and the record.
. "$(dirname "$0")/common.sh" "$@"

cd "$scratch" || exit 1
gpus=$source_dir/kernels/gpus

# A wrong name or file gives an error of one line.
names=$(cd "$gpus" && for file in *.json; do printf '%s, ' "${file%.json}"; done)
expect_error 2 "unknown GPU 'h300'; known are ${names%, }; or give a file" bench step --predict h300
expect_error 5 "cannot open './absent.json'" bench step --predict ./absent.json
echo '{"deviceName": "x"' >cut.json
expect_error 5 "cut.json" bench step --predict cut.json
echo '{"device": "x"}' >other.json
expect_error 5 "'other.json' does not describe a GPU: it has no 'deviceName'" bench step --predict other.json
while IFS='|' read -r field change; do
    sed "s/\"$field\": [0-9.e]*/\"$field\": $change/" "$gpus/h200.json" >wrong.json
    expect_error 5 "'$field' is missing or not a number above 0" bench step --predict wrong.json
done <<'END'
multiProcessorCount|0
share|1.5
bytes_per_s|-1
END
expect_error 2 "exclude each other" bench step --predict h200 --json --csv

# Without the module nothing can be planned.
AMPSCALE_CUDA_MODULE=$scratch/absent.so expect_error 1 "does not exist" bench step --predict h200

# cuDNN unloads a compiler that it has loaded. The leak sanitizer would report the compiler's
# memory.
! sanitized || export LSAN_OPTIONS=detect_leaks=0
small=(bench step --predict h200 --net resnet18 -b 16 --precision amp)
[[ -e $(dirname "$program")/ampscale_cuda.so ]] || skip "no CUDA module was built; usage errors were tested"
run "${small[@]}"
if ((code != 0)); then
    grep -qE 'cannot plan for|needs the library' err || fail "the prediction failed for an unknown reason: $(cat err)"
    skip "$(cat err)"
fi
grep -q '^Predicted, not measured: resnet18, 224 px, batch 16, amp, fuse auto on NVIDIA H200 (described)' out ||
    fail "the heading is wrong: $(head -n 1 out)"
grep -qE '^Predicted: [0-9]+ kernels a step, [0-9.]+ MB an image' out || fail "the sums are missing: $(tail -n 1 out)"
grep -q '; at most [0-9]* images/s, as published results reach ' out || fail "the sums do not say what published results reach: $(tail -n 1 out)"

# A copy of a built-in description gives the same prediction. No file of plans is written.
cp "$gpus/h200.json" mine.json
cp out named
XDG_CACHE_HOME=$scratch/cache expect 0 bench step --predict mine.json "${small[@]:4}"
cmp -s out named || fail "the file of a GPU gives another prediction than the GPU's name"
[[ ! -e $scratch/cache ]] || fail "a prediction wrote a file of plans"

command -v python3 >/dev/null || skip "no python3 to read the record"
expect 0 "${small[@]}" --csv
cp out table.csv
expect 0 "${small[@]}" --json
python3 - out table.csv <<'PY' || fail "the record differs from the table"
import csv, json, math, sys
record = json.load(open(sys.argv[1]))
rows = list(csv.DictReader(open(sys.argv[2])))
kernels, sums = record["kernels"], record["sums"]
assert len(rows) == len(kernels) == sums["kernels"], (len(rows), len(kernels), sums["kernels"])
for row, kernel in zip(rows, kernels):
    assert row["kernel"] == kernel["kernel"] and row["layer"] == kernel["layer"]
near = lambda a, b: math.isclose(a, b, rel_tol=1e-6)
total = lambda key: sum(k[key] for k in kernels)
assert near(total("predicted_s"), sums["predicted_step_s"])
assert near(total("share"), 1)
assert near((total("read_bytes") + total("written_bytes")) / 16, sums["bytes_per_image"])
assert near(total("flops") / 16, sums["flops_per_image"])
assert near(16 / sums["predicted_step_s"], sums["predicted_images_per_s"])
assert near(sums["published_share"] * sums["predicted_images_per_s"], sums["at_most_images_per_s"])
# ResNet-18 has 1.814e9 multiply-adds per image and pass, and three passes. conv1 does not compute
# the gradient of the image, so the multiply-adds of this gradient are subtracted.
assert near(sums["flops_per_image"], 2 * (3 * 1814073344 - 118013952)), sums["flops_per_image"]
assert all(k["dram_bytes"] <= k["read_bytes"] + k["written_bytes"] for k in kernels)
assert record["rates"]["bytes_per_s"] == 4.3e12
PY

# A forecast starts from the same step, by name or from the record.
expect 0 "${small[@]}" --json
cp out step.json
expect 0 predict step.json --network 2,50 --ranks 8
cp out from_record
expect 0 predict --gpu h200 -a resnet18 -b 16 --precision amp --network 2,50 --ranks 8
cmp -s out from_record || fail "--gpu gives another forecast than the record of the step: $(<out)"

expect_error 1 "'NVIDIA H200' has no memory for another" bench step --predict h200 -b 65536

# A GPU without measured rates or published results.
expect 0 "${small[@]/h200/a100}" --fuse none
grep -q '; at most that: no published results of this GPU and precision' out || fail "a GPU has results: $(tail -n 1 out)"
finish
