#!/usr/bin/env bash
# `ampscale compare`: verdicts as exit codes, errors, and output files.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/made_runs.sh"

cd "$scratch" || exit 1

# set_turns DIR SECOND: sets the start times of the runs in DIR one minute apart. SECOND is added to
# every start time.
set_turns() {
    local i
    for i in 1 2 3 4 5 6 7 8 9; do
        sed -i "s/\"schema\": 1, /&\"started_s\": $((1700000000 + 60 * i + $2)).25, /" "$1/r$i/run.json"
    done
}

make_runs base 0
make_runs same 0
make_runs slow 10
make_runs other 0 64

expect 0 compare base same
grep -q '^passed: 0 regressions' out || fail "the last line does not say what passed: $(tail -n 1 out)"
expect 0 compare slow base
grep -q 'better$' out || fail "faster runs are not better"
expect 3 compare base slow
[[ $(grep -c 'REGRESSION$' out) == 1 ]] || fail "the number of regressions is not 1: $(cat out)"
[[ $(grep -c '(worse)$' out) == 5 ]] || fail "the number of metrics reported as worse is not 5: $(cat out)"
[[ ! -s err ]] || fail "a regression is reported as an error: $(cat err)"
expect 3 compare --metric all base slow
[[ $(grep -c 'REGRESSION$' out) == 6 ]] || fail "the number of regressions is not 6: $(cat out)"
expect 3 compare --metric step_s base slow
[[ $(grep -c 'REGRESSION$' out) == 1 ]] || fail "the number of regressions is not 1: $(cat out)"
expect 5 compare --metric comm_s base same
grep -q 'no value of comm_s to compare' out || fail "a missing metric has passed: $(cat out)"
expect_error 2 "--metric 'speed': unknown metric; known: images_per_s, " compare --metric speed base same
expect_error 2 "--pair 'maybe': give auto, never or always" compare --pair maybe base same
expect 5 compare --pair always base same
grep -q 'did not take turns' out || fail "runs that do not form pairs have passed: $(cat out)"

# Runs may be named one by one. Flags are accepted before "--", and refused after it.
expect 3 compare --alpha 0.01 base/r* -- slow/r*
expect_error 2 "'--alpha' follows '--': flags must come before it" compare base/r* -- --alpha 0.01 slow/r*
expect_error 2 "give BASE NEW" compare base
expect_error 2 "give BASE NEW" compare base/r1 base/r2 base/r3
expect_error 2 "give BASE NEW" compare base --
expect_error 2 "unknown metric" compare --threshold speed=3 base same
expect_error 2 "--threshold 'much'" compare --threshold much base same
expect_error 2 "--alpha '0'" compare --alpha 0 base same
expect_error 5 "is neither a run, nor a folder of runs, nor a study" compare base "$TMPDIR"
expect_error 5 "cannot open 'nothing'" compare base nothing

# --threshold for all metrics and --threshold for one metric may be given in any order.
expect 0 compare --threshold 15 base slow
expect 3 compare --threshold images_per_s=5 --threshold 15 base slow
[[ $(grep -c 'REGRESSION$' out) == 1 ]] || fail "the threshold of one metric does not give one regression: $(cat out)"

# Runs that other processes disturbed are counted in every format, and marked in a report.
expect 0 compare base same
! grep -q disturbed out || fail "undisturbed runs are counted as disturbed: $(cat out)"
cp -r same noisy
for i in 2 5; do
    echo '{"schema": 1, "ended_by": "steps", "noise": {"disturbed": true, "reason": "9.0 % of the steps took more than 1.5 times the median"}}' >"noisy/r$i/summary.json"
done
expect 0 compare --json -o noisy.json --markdown noisy.md base noisy
expect 0 compare base noisy
for file in out noisy.md; do
    grep -q "disturbed by other work: 0 of 9 runs of BASE, 2 of 9 of NEW" "$file" || fail "$file does not count disturbed runs: $(cat "$file")"
done
grep -q '"disturbed":{"base":0,"new":2}' < <(tr -d '\n ' <noisy.json) || fail "the record does not count disturbed runs"
expect 0 report noisy -o noisy-report.md --no-figures
[[ $(grep -c 'complete, disturbed: 9.0 % of the steps' noisy-report.md) == 2 ]] || fail "the report does not mark disturbed runs: $(cat noisy-report.md)"

# If runs of both sides take turns, they form pairs. If one side ran after the other, there are no
# pairs.
make_runs before 0
make_runs between 0
make_runs behind 0
set_turns before 0
set_turns between 30
set_turns behind 600
expect 0 compare --pair always before between
grep -q 'compared in pairs' out || fail "runs that took turns were not compared in pairs: $(cat out)"
expect 0 compare --pair never before between
grep -q 'without pairs, by --pair never' out || fail "--pair never does not say why there are no pairs: $(cat out)"
expect 0 compare before behind
grep -q 'did not take turns' out || fail "the output does not say that the runs did not take turns: $(cat out)"

# The runs vary too much to show a slowdown of 10 %. The verdict is inconclusive, and the message
# says what to do.
for i in 1 2 3 4 5 6 7 8 9; do
    make_run "uneven/r$i" "$(awk -v i=$i 'BEGIN { print i % 3 ? 0.11 : 0.09 }')"
done
expect 5 compare base uneven
grep -q '^inconclusive: 0 regressions' out || fail "the last line does not count the inconclusive metrics: $(tail -n 1 out)"
grep -qE "^ampscale: [0-9] of [0-9] metrics are inconclusive: images_per_s of .* may be up to [0-9.]+ % worse, and the limit is 3 %; give about [0-9]+ runs per side" err ||
    fail "the message does not say how to get a conclusive verdict: $(cat err)"

# A comparison of too few runs exits with 5. The message says how many runs are needed.
expect 5 compare base/r* -- slow/r[1-4]
grep -q '4 repeats of NEW; at least 5 are needed' out || fail "metrics with too few repeats are not counted: $(cat out)"
grep -q 'give at least 5 complete runs' err || fail "the message does not say how many repeats are needed: $(cat err)"

# A damaged record is named, and its run is left out. The other runs are still compared, but the
# comparison does not pass. Runs of another configuration need --allow-different.
cp -r same torn
cp -r torn/r1 torn/r10
echo 'x' >>torn/r3/steps.jsonl
expect 5 compare --json -o torn.json base torn
expect 5 compare base torn
grep -qF "incomplete: 1 damaged run of NEW left out: 'torn/r3/steps.jsonl' line 21: not valid JSON" out ||
    fail "a damaged record is not named: $(cat out err)"
grep -q '^resnet18.*9 and 9 runs$' out && grep -q 'equivalent$' out || fail "because of one damaged run, the other runs were not compared: $(cat out)"
grep -qF 'torn/r3/steps.jsonl' torn.json || fail "the file does not name the damaged record"
expect 5 compare torn/r3 base
expect 5 compare base other
grep -q "config.batch_size: '32' in the first run of BASE, '64' in another" out || fail "the output does not name the field that differs: $(cat out)"
grep -q -e '--allow-different' err || fail "the message does not name --allow-different: $(cat err)"
expect 0 compare --allow-different config.batch_size base other
rm same/r6/summary.json
expect 5 compare base same
grep -q "1 of 9 runs of NEW are incomplete" out || fail "an incomplete run is not reported: $(cat out)"

# The files of a comparison can be read by other programs; a file that cannot be written is an
# error.
expect 3 compare --markdown x.md --junit x.xml --json -o x.json --benchmark-action x.bench base slow
# shellcheck disable=SC2016 # the backquotes are Markdown's
grep -q '| `images_per_s` | .* | \*\*REGRESSION\*\* |' x.md || fail "Markdown reports no regression"
if command -v python3 >/dev/null; then
    python3 - <<'PY' || fail "other programs cannot read the files"
import json, xml.etree.ElementTree as tree
suite = tree.parse("x.xml").getroot().find("testsuite")
cases = suite.findall("testcase")
assert len(cases) == int(suite.get("tests")) == 6
assert len(suite.findall("testcase/failure")) == int(suite.get("failures")) == 1
assert suite.get("errors") == "0" and not suite.findall("testcase/error")
record = json.load(open("x.json"))
assert record["record"] == "compare" and record["schema"] == 4 and not record["passed"]
step = [m for m in record["cells"][0]["metrics"] if m["name"] == "step_s"][0]
assert abs(step["ratio"] - 1.1) < 1e-6 and step["verdict"] == "worse" and step["base"]["n"] == 9
bench = json.load(open("x.bench"))
assert [b["name"] for b in bench] == ["resnet18: images_per_s", "resnet18: images_per_s_max", "resnet18: images_per_s_wall"]
assert all(isinstance(b["value"], float) and isinstance(b["unit"], str) for b in bench)
PY
fi
expect 1 compare --json -o no/such/folder.json base slow
[[ ! -e no ]] || fail "a folder was made"
finish
