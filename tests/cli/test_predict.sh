#!/usr/bin/env bash
# `ampscale predict` from published tables and from runs, and its errors.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"

cd "$scratch" || exit 1
hal=$source_dir/results/published/hal_v100.csv

# The model is fitted to the points up to 32 ranks. The largest point, 64 ranks, is not used in the
# fit, and is compared with its forecast. The output has a row for every measured point.
expect 0 predict "$hal:feb" --fit-up-to 32 --ranks 32..128
grep -q 'fitted *to 5 points, up to 32 ranks' out || fail "the output does not describe the fit: $(head -n 6 out)"
[[ $(grep -c ' fitted$' out) == 5 ]] || fail "not 5 fitted points"
[[ $(grep -c '^ *64 .* held out$' out) == 1 ]] || fail "the point with 64 ranks was used in the fit: $(tail -n 7 out)"
awk '$1 == 128 && $3 < 65 { found = 1 } END { exit !found }' out || fail "the forecast for 128 ranks has no efficiency below 65 %"

# The same results as JSON. A second call prints the same bytes.
expect 0 predict "$hal:feb" --fit-up-to 32 --ranks 32..128 --json
cp out first
expect 0 predict "$hal:feb" --fit-up-to 32 --ranks 32..128 --json
cmp -s first out || fail "a second call gave another prediction"
grep -q '"record": "predict"' out || fail "the output is not a record: $(head -n 3 out)"

# `plot` draws the same figure from the record.
expect 0 predict "$hal:feb" --fit-up-to 32 --ranks 32..128 --out drawn
if command -v gnuplot >/dev/null; then
    grep -qxF drawn/forecast.png out || fail "the output does not name the picture: $(tail -n 2 out)"
    cp drawn/forecast.svg first.svg
    expect 0 plot drawn/predict.json --out again --format svg
    cmp -s first.svg again/forecast.svg || fail "the figure that plot draws from the record differs"
fi

# The storage delivers only half of the images per second that 64 GPUs need.
expect 0 predict "$hal:may" --network 20,10 --ranks 64 --input-bandwidth 2.15625 --image-bytes 115000
awk '$1 == 64 && $2 == "18750.0" && $NF == "input" { found = 1 } END { exit !found }' out ||
    fail "storage is not the limit of throughput: $(grep '^ *64' out)"

# A forecast from a single run. Two runs with the same number of ranks are refused.
expect_train 0 --dummy --dummy-train 32 --dummy-val 2 --steps 4 -b 4 --out one
expect 0 predict one --network 20,1 --ranks 2,48
grep -q . < <(awk '$1 == 48' out) || fail "there is no forecast for 48 ranks: $(cat out)"
expect_error 5 "two points of 'one' have 1 ranks" predict one one --network 20,1

# Two runs with different numbers of devices form one measurement with two points.
expect_train 0 --dummy --dummy-train 32 --dummy-val 2 --steps 4 -b 8 --mode dp --devices cpu:2 --out two
expect 0 predict one two --fit --ranks 4
[[ $(awk '/ fitted$/ { print $1 }' out | tr '\n' ' ') == "1 2 " ]] || fail "the forecast does not have two measured points: $(cat out)"

expect_error 2 'no measurement to start from' predict --fit
expect_error 2 'no network to forecast for' predict "$hal:feb"
expect_error 2 'known: feb, may' predict "$hal" --fit
expect_error 2 'known: feb, may' predict "$hal:june" --fit
expect_error 2 'a fit needs at least two' predict "$hal:feb" --fit-up-to 3
expect_error 2 'ascending order' predict "$hal:feb" --fit --ranks 4,2
expect_error 2 '--network' predict "$hal:feb" --network 5
expect_error 2 'give ring, tree or auto' predict "$hal:feb" --fit --algorithm star
expect_error 2 'several sources must all be folders of runs' predict "$hal:feb" "$hal:may" --fit
expect_error 5 "cannot open 'none.csv'" predict none.csv --fit
expect_error 5 'none' predict none --fit
expect_error 5 'lists fewer than two ranks' predict "$hal:feb" --nccl-table "$hal"
finish
