#!/usr/bin/env bash
# ampscale export: what it refuses, and what it prints; a folder that is no run.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"

cd "$scratch" || exit 1
expect_train 0 --dummy --dummy-train 16 --dummy-val 2 --classes 3 --epochs 1 --out a/first \
    --prometheus live.prom
cp -r a b && mkdir c && cp -r a/first c/second

expect_error 2 "no run to export" export
expect_error 2 "no format" export a/first -o x
expect_error 2 "--format 'excel': give tensorboard" export a/first --format excel -o x
expect_error 2 "nowhere to export to" export a/first --format csv
expect_error 2 "--division 'ajar': give open or closed" export a/first --format mlperf --division ajar -o x
expect_error 2 "have the same name" export a/first b/first --format csv -o x
expect_error 2 "of one run" export a/first c/second --format mlperf -o x
expect_error 5 "there is no such folder" export a/second --format csv -o x
expect_error 1 "cannot write" export a/first --format prometheus -o no/such/folder.prom

expect 0 export a/first --format csv -o tables
[[ $(cat "$scratch/out") == $'tables/steps.csv\ntables/epochs.csv\ntables/ranks.csv\ntables/telemetry.csv' ]] || fail "export printed: $(cat "$scratch/out")"
[[ $(wc -l <tables/steps.csv) == 3 && $(wc -l <tables/epochs.csv) == 2 ]] || fail "the tables have other lines than the records"

# What training kept up to date is what the record says, but for its clock and its digits.
expect 0 export a/first --format prometheus -o exported.prom
for file in live exported; do
    grep -v -e timestamp -e seconds -e throughput "$file.prom" | grep -e total -e info -e finished >"$file.txt"
done
cmp live.txt exported.txt || fail "live and exported textfiles differ"
grep -q '^ampscale_run_finished{run="first"} 1$' live.prom || fail "the live textfile does not say that the run ended"
finish
