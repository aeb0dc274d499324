#!/usr/bin/env bash
# `ampscale amp-report` on a run and on a network: its files and its errors.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"

cd "$scratch" || exit 1
make_data data
expect_train 0 data --out run --epochs 1
expect 0 amp-report run --batches 1 --threads 2
grep -q '^conv1  *weights ' out || fail "the table has no row for the weights of conv1: $(head -c 400 out)"
grep -q '^total  *all ' out || fail "the table has no total: $(tail -n 12 out)"
grep -q 'a loss scaler\|no loss scaler' out || fail "the report has no finding: $(tail -n 12 out)"
[[ -s run/amp-report/amp-report.json ]] || fail "no record"
if command -v gnuplot >/dev/null; then
    for file in run/amp-report/amp.png run/amp-report/amp.svg; do
        [[ -s $file ]] || fail "no figure '$file'"
        grep -qxF "$file" out || fail "'$file' is not named"
    done
fi

# A complete run that kept no checkpoint will not have one later.
cp -r run without && rm without/checkpoint*
expect_error 5 "has no checkpoint: it is complete, and kept none" amp-report without

# The images are decoded as the run decoded them. A record without the key is of a run that did it fast.
expect 0 data synth --out large --classes 3 --train 12 --val 4 --size 200
expect_train 0 large --out exact --epochs 1 --image-size 16 --training-only
cp -r exact fast && sed -i 's/"decode": "exact"/"decode": "fast"/' fast/run.json
cp -r exact old && sed -i '/"decode": "exact"/d' old/run.json
for run in exact fast old; do
    expect 0 amp-report $run --batches 1 --threads 2
    grep -o '"loss": *[0-9.]*' $run/amp-report/amp-report.json >$run.loss || fail "no loss of '$run'"
done
cmp fast.loss old.loss || fail "the old record is not of fast decoding"
! cmp -s fast.loss exact.loss || fail "amp-report ignores the run's --decode"

# After the data set was moved, the command needs its new path. A loss scale of 1e9 makes gradients
# overflow.
mv data elsewhere
expect_error 5 "data of 'run'" amp-report run --batches 1
expect 0 amp-report run elsewhere --batches 1 --loss-scale 1e9 --out moved
grep -q 'makes [0-9]* gradients overflow' out || fail "overflowing gradients are not reported: $(tail -n 5 out)"
[[ -s moved/amp-report.json ]] || fail "amp-report did not write to the folder of --out"

# The loss is a mean over 256 images with 1000 classes, so its gradients are small. Without scaling, fp16
# loses many of them. With dynamic scaling, it loses almost none.
for scale in 1 dynamic; do
    expect_train 0 --dummy --dummy-train 512 --dummy-val 2 --classes 1000 -b 256 --steps 1 --precision amp --loss-scale $scale --out scale-$scale
    expect 0 amp-report scale-$scale --batches 1 --threads 2
    cp out $scale.txt
done
grep -q 'this network needs a loss scaler. The current scale is 1\.' 1.txt || fail "the report says that scale 1 is enough: $(tail -n 5 1.txt)"
grep -qE 'At the current scale, (65536|32768), fp16 loses' dynamic.txt || fail "the report does not use the run's loss scale: $(tail -n 5 dynamic.txt)"
awk '$1 == "total" && $2 == "all" { exit !($4 > 10 && $5 > 10) }' 1.txt || fail "the share of gradients lost at scale 1: $(<1.txt)"
awk '$1 == "total" && $2 == "all" { exit !($4 > 10 && $5 < 0.1) }' dynamic.txt || fail "the share of gradients lost with dynamic scaling: $(<dynamic.txt)"

expect 0 amp-report -a resnet8 --image-size 32 -b 4 --classes 5 --batches 1 --json
grep -q '"recommended_scale"' out || fail "the output is not JSON: $(head -c 300 out)"
! grep -q 'amp\.png' out || fail "--json prints more than JSON"
[[ -s amp-report-resnet8/amp-report.json ]] || fail "amp-report wrote no record of the network"
expect 0 amp-report -a resnet8 --init run/best.safetensors --classes 3 --image-size 32 -b 4 --batches 1

expect_error 2 "give the folder of a run, or -a ARCH" amp-report
expect_error 2 "--init needs -a" amp-report run --init run/best.safetensors
expect_error 5 "no such folder" amp-report nowhere
expect_error 5 "no run in 'elsewhere'" amp-report elsewhere
finish
