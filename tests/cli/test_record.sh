#!/usr/bin/env bash
# ampscale record: runs of another program, and the commands that read them.
. "$(dirname "$0")/common.sh" "$@"
cd "$scratch" || exit 1

# has FILE PATTERN: checks that a line of the file matches the extended regular expression.
has() {
    grep -qE -- "$2" "$1" || fail "$1 has no '$2': $(head -c 800 "$1")"
}

# The program prints a value in each of seven steps, of which the last one is far off, and a line
# without a newline.
cat >program <<'END'
#!/usr/bin/env bash
# program PERCENT REPEAT: PERCENT slower than 500 images/s.
if read -r; then echo "stdin is not empty"; fi
awk -v p="$SLOWER" -v r="$REPEAT" 'BEGIN {
    for (i = 1; i <= 6; i++) printf "step %d: %.3f img/s, loss 0.50\n", i, 500 * (1 - p / 100) * (1 + r / 2000) + i - 3.5
    print "step 7: 1e3 img/s, loss 0.25" }'
printf '\rbar 10 tok/s\rbar 30 tok/s\rbar 20 tok/s' >&2
exit "${CODE:-0}"
END
chmod +x program
find=(--metric 'images_per_s=([0-9.e]+) img/s' --metric 'tokens_per_s=([0-9]+) tok/s' --metric 'loss=loss (.*)')
export SLOWER=0 REPEAT=0

# The median of all values counts; the output is passed on and kept.
expect 0 record --name demo --commit 1a2b3c4 "${find[@]}" --out one -- ./program --size 8
[[ $(tr '\r' '\n' <out | grep -c '^step\|^bar') == 10 ]] || fail "the output is not passed on: $(cat out)"
cmp -s out one/output.log || fail "the output is not kept"
! grep -q 'stdin' out || fail "the program's stdin is not empty"
! command -v python3 >/dev/null || python3 - <<'PY' || fail "the record is wrong: $(cat one/run.json one/summary.json)"
import json
run, summary = json.load(open("one/run.json")), json.load(open("one/summary.json"))
assert run["config"]["name"] == "demo" and run["config"]["command"] == ["./program", "--size", "8"]
assert run["host"]["cpu"]["cores"] > 0 and run["device"] and run["started_s"] > 0
metrics = summary["metrics"]
assert metrics["images_per_s"] == 500.5 and metrics["tokens_per_s"] == 20 and metrics["loss"] == 0.5
assert 0 < metrics["seconds"] < summary["elapsed"] < 60
assert summary["commit"] == "1a2b3c4" and summary["noise"]["disturbed"] in (True, False)
assert json.load(open("one/outcome.json"))["outcome"] == "done"
PY

# A command that opens its output anew does not empty what it has printed.
expect 0 record --metric 'loss=loss ([0-9]+)' --out anew -- sh -c 'echo loss 3; echo loss 4; echo warm >/dev/stderr; echo loss 5 | tee /dev/stdout'
[[ $(wc -l <anew/output.log) == 5 ]] && cmp -s out anew/output.log || fail "a command that opens its output anew: $(<anew/output.log)"

# A command ends although nobody has read its output yet, which waits.
"$program" record --out slow -- sh -c 'seq 100000; : >ended' 2>err | {
    for ((i = 0; i < 600; i++)); do
        [[ ! -e ended ]] || break
        sleep 0.1
    done
    [[ ! -e ended ]] || : >ended_unread
    cat >out
}
[[ -e ended_unread ]] || fail "a reader of the output delays the command"
[[ $(wc -l <out) == 100000 ]] && cmp -s out slow/output.log || fail "a slow reader: $(wc -l out slow/output.log)"

# The program's environment is that of the user.
env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY -u KMP_BLOCKTIME "$program" record --out plain -- env >out 2>err || fail "record of env"
! grep GOMP_SPINCOUNT out || fail "record changes the environment of the program"

# A failure of the program is its exit code; the run is incomplete.
CODE=7 expect 7 record "${find[@]}" --out failed -- ./program
has err "^ampscale: './program' ended with exit code 7: the run in 'failed' is not complete$"
[[ ! -e failed/summary.json ]] && grep -q '"outcome": "error"' failed/outcome.json || fail "a failed run: $(ls failed)"
expect 127 record --out none -- ./no-such-program
"${limited[@]}" "$program" record --out stopped -- sleep 100 >out 2>err &
await 20 test -e stopped/output.log
pkill -TERM -P $! && wait $!
[[ $? == 143 ]] || fail "a run that SIGTERM stopped: $(cat err)"
grep -q '"outcome": "signal"' stopped/outcome.json || fail "the outcome of SIGTERM: $(cat stopped/outcome.json)"
expect 5 record --metric 'seconds=took ([0-9]+)' --out lacks -- ./program
one_line "a metric that was not printed" "no line of the output matches --metric 'seconds=took ([0-9]+)'"
[[ ! -e lacks/summary.json ]] || fail "a run without its metric is complete"
expect 5 record --metric 'loss=(bar)' --out lacks2 -- ./program
one_line "a value that is no number" "the first group of '(bar)' is not a number"
# Nor from its middle.
expect 5 record --metric 'images_per_s=([0-9.]+) img/s' --out middle -- echo '2,012.5 img/s'
one_line "a number with a comma before the group" "is not a number from 0 on in '2,012.5 img/s'"
expect 1 record --metric 'loss=loss ([0-9]+)' --out short -- sh -c 'echo loss 3; sleep 0.3; : >short/output.log; echo loss 9; sleep 0.3'
one_line "a log that was shortened" "cannot write 'short/output.log': another program removed or changed it"
# Nor is one that no record can hold.
expect 5 record --metric 'images_per_s=([0-9.e]+) img/s' --out huge -- echo '1e101 img/s'
one_line "a number that is too large" "is not a number from 0 on in '1e101 img/s'"
# A number is read whole, and output that the command may have lost to a full disk counts for nothing.
expect 5 record --metric 'images_per_s=([0-9,.]+) img/s' --out thousands -- echo '1,980.5 img/s'
one_line "a number with a comma" "is not a number from 0 on in '1,980.5 img/s'"
unshare --map-root-user --mount bash -c '
    mkdir small && mount -t tmpfs -o size=40k tmpfs small || exit 99
    "$program" record --out small/r --metric "images_per_s=x ([0-9]+)" -- sh -c "echo x 512; seq 20000; echo x 100; sleep 1; :" &
    sleep 0.5; mount -o remount,size=1m small; wait $!' >out 2>err
code=$?
if ((code == 99)) || grep -q '^unshare:' err; then
    echo "not tested: a disk that is full for a while: unshare may not make a mount namespace"
else
    ((code == 1)) && grep -q "^ampscale: cannot write 'small/r/output.log': No space left on device$" err ||
        fail "a disk that was full for a while: exit code $code: $(<err)"
fi
expect_error 2 "known: images_per_s_mean, images_per_s, " record --metric 'speed=(.*)' --out x -- ./program
expect_error 2 "put the number in parentheses" record --metric 'loss=[0-9]+' --out x -- ./program
expect_error 2 "give NAME=REGEX" record --metric loss --out x -- ./program
expect_error 2 "is given twice" record --metric 'loss=(.)' --metric 'loss=(..)' --out x -- ./program
expect_error 2 "no command" record --out x
expect_error 2 "give --out DIR" record -- ./program
expect_error 2 "already holds a run" record --out one -- ./program
mkdir linked && echo precious >precious && ln -s ../precious linked/output.log
expect_error 1 "cannot write 'linked/output.log': not a regular file" record --out linked -- ./program
[[ $(<precious) == precious ]] || fail "the output was written through a link"
[[ ! -e x ]] || fail "a refused command made its folder"

# Eight runs of two versions, in two folders of the program: 5 % slower is a regression.
mkdir v1 v2
for version in v1 v2; do
    cp program $version/program
    for i in 1 2 3 4 5 6 7 8; do
        SLOWER=$([[ $version == v1 ]] || echo 5) REPEAT=$i expect 0 record --name demo --commit $version "${find[@]}" --out $version/runs/r$i -- $version/program --size 8
    done
done
expect 3 compare --markdown x.md --junit x.xml v1/runs v2/runs
has out '^demo, 8 and 8 runs'
has out '^  images_per_s .* 0\.950[0-9] .*REGRESSION$'
has out '^  loss .* equivalent$'
has out '^  seconds .*\(.*\)$'
has x.md '^\| NEW \| 8 \| v2 \| '
has x.xml '<testcase classname="demo" name="images_per_s"'
expect 0 compare --metric images_per_s v2/runs v1/runs
expect 0 compare --threshold images_per_s=10 v1/runs v2/runs
REPEAT=9 expect 0 record --name demo "${find[@]}" --out other -- v1/program --size 16
expect 5 compare v1/runs other
has out "config.command.2: '8' in the first run of BASE, '16' in another run"
expect 0 record --out timed -- true
expect 5 compare timed v1/runs/r1
has out 'no gating metric|config.name'

# A history: twelve commits, of which the last six are 10 % slower.
for commit in {1..12}; do
    SLOWER=$((commit > 6 ? 10 : 0)) REPEAT=$commit expect 0 record --name demo --commit c$commit "${find[@]}" --out days/$commit/r1 -- v1/program --size 8
    expect 0 compare --record history days/$commit
done
expect 0 trend history
has out '^demo, images_per_s: 12 points'
has out '^demo, tokens_per_s: 12 points .*no change$'
has out ' point 7 +c7 +ratio 0\.9.*worse$'

expect 0 report one --no-figures -o report.md
has report.md '^\*\*demo: seconds .*images.*_s 500.5, .*loss 0.5.* in run one'
has report.md '^\| one \| demo \| – \| – \| – \| – \| .*complete: seconds'
finish
