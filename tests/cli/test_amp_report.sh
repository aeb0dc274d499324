#!/usr/bin/env bash
# `ampscale amp-report` on a run and on a network, its files, and what it refuses.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"

cd "$scratch" || exit 1
make_data data
expect_train 0 data --out run --epochs 1
expect 0 amp-report run --batches 1 --threads 2
grep -q '^conv1  *weights ' out || fail "no row of conv1's weights: $(head -c 400 out)"
grep -q '^total  *all ' out || fail "no total: $(tail -n 12 out)"
grep -q 'a loss scaler\|no loss scaler' out || fail "no finding: $(tail -n 12 out)"
[[ -s run/amp-report/amp-report.json ]] || fail "no record"
if command -v gnuplot >/dev/null; then
    for file in run/amp-report/amp.png run/amp-report/amp.svg; do
        [[ -s $file ]] || fail "no figure '$file'"
        grep -qxF "$file" out || fail "'$file' is not named"
    done
fi

# The data has moved; and gradients that overflow at an absurd scale.
mv data elsewhere
expect_error 5 "data of 'run'" amp-report run --batches 1
expect 0 amp-report run elsewhere --batches 1 --loss-scale 1e9 --out moved
grep -q 'makes [0-9]* gradients overflow' out || fail "overflow goes unnoticed: $(tail -n 5 out)"
[[ -s moved/amp-report.json ]] || fail "--out was not taken"

expect 0 amp-report -a resnet8 --image-size 32 -b 4 --classes 5 --batches 1 --json
grep -q '"recommended_scale"' out || fail "no JSON: $(head -c 300 out)"
! grep -q 'amp\.png' out || fail "--json prints more than JSON"
[[ -s amp-report-resnet8/amp-report.json ]] || fail "no record of the network"
expect 0 amp-report -a resnet8 --init run/best.safetensors --classes 3 --image-size 32 -b 4 --batches 1

expect_error 2 "give the folder of a run, or -a ARCH" amp-report
expect_error 2 "'c'" amp-report a b c
expect_error 2 "'extra'" amp-report -a resnet8 elsewhere extra
expect_error 2 "--init needs -a" amp-report run --init run/best.safetensors
expect_error 2 "--batches '0'" amp-report run --batches 0
expect_error 2 "'nonesuch'; known are" amp-report -a nonesuch
expect_error 5 "no such folder" amp-report nowhere
expect_error 5 "no run in 'elsewhere'" amp-report elsewhere
touch file
expect_error 1 "cannot make folder 'file'" amp-report -a resnet8 --image-size 32 -b 4 --batches 1 --out file
finish
