#!/usr/bin/env bash
# `ampscale accept`: verdicts as exit codes, a check that takes too long, a test suite that was
# killed, output files, and built-in specs.
. "$(dirname "$0")/common.sh" "$@"

cd "$scratch" || exit 1

# spec CHECKS: prints a spec.
spec() {
    printf '{"schema": 1, "name": "made", "about": "a test", "device": "cpu", "hardware": ["%s"], "checks": [%s]}\n' "${2:-*}" "$1"
}

# memory NAME LIMITS: writes a check that takes a moment.
memory() {
    printf '{"name": "%s", "kind": "memory", "level": 1, "seconds": 1, "limit_s": 60, "args": {"max_mib": 4, "iters": 3, "threads": 1}, "limits": {%s}}' "$1" "$2"
}

# train NAME STEPS LIMIT_S REPEATS LIMITS: writes a check that trains.
train() {
    printf '{"name": "%s", "kind": "train", "level": 2, "seconds": 1, "limit_s": %d, "repeats": %d, "args": {"arch": "resnet8", "image_size": 32, "batch": 8, "classes": 10, "steps": %d, "threads": 1}, "limits": {%s}}' "$1" "$3" "$4" "$2" "$5"
}

right='"wrong": {"max": 0}, "copy": {"min": 0.001}'

# Built-in specs can be listed, printed and planned without their hardware.
expect 0 accept --list
for name in cpu h200 h100 a100 v100 bring-up bring-up-quick; do
    grep -q "^$name " out || fail "--list lacks '$name': $(cat out)"
done
expect 0 accept --spec h200 --print
cp out printed.json
expect 0 accept --spec ./printed.json --dry-run --level 4 --hours 16
grep -q "train-amp.7 .*level 2" out || fail "the plan lacks the eighth GPU: $(cat out)"
grep -q -- "--devices cuda:7" out || fail "the plan lacks the command for the eighth GPU: $(cat out)"
grep -q "about 1[67]\.[0-9] h" out || fail "the plan does not take 16 hours: $(tail -n 1 out)"
expect 0 accept --spec h200 --dry-run --gpus 2 --level 1
! grep -q "cuda:2" out || fail "with --gpus 2 the plan has a third GPU: $(cat out)"

# On a GPU, bring-up takes three passes: two calls of five and seven minutes, and the rest. The passes
# can be planned for any device. Numbers come first, then correctness, then accuracy.
most=(0 300 420 560)
for pass in 1 2 3; do
    expect 0 accept --spec bring-up --pass $pass --dry-run --device cpu
    sum=$(sed -nE '$s/^[0-9]+ checks, about ([0-9]+) s$/\1/p' out)
    ((sum > 0 && sum <= most[pass])) || fail "the planned time of pass $pass is $(tail -n 1 out)"
    grep -q -- '--devices cpu' out || fail "the plan of pass $pass does not use the CPU: $(cat out)"
    cut -d' ' -f1 out | grep -vE '^$|^[0-9]' >>names
done
[[ $(sort -u names | wc -l) == $(expect 0 accept --spec bring-up --dry-run && grep -c level out) ]] || fail "the three passes together do not have all checks of bring-up"
[[ $(head -n 6 names | xargs) == 'hardware facts first nccl operations accuracy' ]] || fail "the order of the first pass: $(<names)"
expect 0 accept --spec bring-up --only first --dry-run
grep -q -- 'bench throughput .*--rows amp:256,fp32:256 .*--rounds 1 --plans 4 --no-compile ' out || fail "the first comparison: $(<out)"
expect 0 accept --spec bring-up --only facts,peak --dry-run
[[ $(grep -c level out) == 3 ]] || fail "the plan does not have the check 'hardware' and the two selected checks: $(cat out)"
grep -q -- '--devices cuda:0' out || fail "the check does not use the first GPU: $(cat out)"

# Usage.
expect_error 2 "give --spec" accept
expect_error 2 "give --out DIR" accept --spec cpu
expect_error 2 "known: cpu, h200, h100, a100, v100" accept --spec b300 --out x
expect_error 2 "is not built in" accept --spec ./printed.json --print
expect_error 2 "no check 'speed' in 'cpu'; its checks are selftest, same-bits" accept --spec cpu --only speed --out x
expect_error 2 "--pass '0'" accept --spec cpu --pass 0 --out x
expect_error 2 "must be cpu, ref, cuda or one GPU" accept --spec cpu --device tpu --out x
expect_error 2 "--level '5'" accept --spec cpu --level 5
expect_error 2 "'cpu' has no burn-in check up to level 2" accept --spec cpu --out x --hours 1
spec "$(memory a '"copy": {"mni": 1}')" >typo.json
expect_error 2 "unknown key 'checks[0].limits.copy.mni'; did you mean 'min'?" accept --spec ./typo.json --out x
expect_error 5 "cannot open './none.json'" accept --spec ./none.json --out x
[[ ! -e x ]] || fail "a suite with an invalid spec made its folder"

# All checks pass. A warning passes, except with --strict.
spec "$(memory a "$right")" >good.json
expect 0 accept --spec ./good.json --out good
grep -q '^accepted: checks: 2 passed, .*; metrics with a limit: 4 passed, ' out || fail "the last line does not say how many checks passed: $(tail -n 1 out)"
expect_error 2 "--resume continues them" accept --spec ./good.json --out good
spec "$(memory a '"copy": {"warn_min": 1e9}')" >warn.json
expect 0 accept --spec ./warn.json --out warn
expect 4 accept --spec ./warn.json --out strict --strict
grep -q '^NOT ACCEPTED' out || fail "with --strict, the last line is: $(tail -n 1 out)"

# A metric that was not measured is missing; a metric that may be absent is skipped.
spec "$(memory a '"speed": {"min": 1}')" >missing.json
expect 5 accept --spec ./missing.json --out missing
grep -q '^incomplete: ' out || fail "the output does not report a missing metric: $(cat out)"
spec "$(memory a "$right"', "speed": {"min": 1, "absent": "skip"}, "scale": {"fleet_within": 5}')" >skip.json
expect 0 accept --spec ./skip.json --out skip
[[ $(grep -c '^  SKIP' out) == 2 ]] || fail "the number of skipped metrics is not 2: $(cat out)"
grep -q '^accepted: checks: .* 0 skipped, .*limit: .* 2 skipped, 0 missing$' out || fail "the skipped metrics are not counted: $(tail -n 1 out)"
grep -qx '1 metric needs a fleet baseline and was not judged here' out || fail "the output does not say which limits need a fleet baseline: $(cat out)"
grep -q '"note": "1 metric needs a fleet' skip/accept.json || fail "the record has no note"
# If only a fleet's results can judge speed, the message says that speed was not judged.
spec "$(memory a '"wrong": {"max": 0}, "*": {"fleet_within": 5}')" >alone.json
expect 0 accept --spec ./alone.json --out alone
grep -q '^4 metrics need a fleet .* correctness and reproducibility only, no speed$' out || fail "the output does not say that speed was not judged: $(cat out)"
grep -q 'reproducibility only, no speed' alone/accept.md || fail "the report does not say that speed was not judged"

# If the device is absent, the checks are missing. --resume runs them when the device is present. A
# resume with another device is refused.
spec "$(memory a "$right")" | sed 's/"device": "cpu"/"device": "cuda:63"/' >absent.json
expect 5 accept --spec ./absent.json --out absent
grep -q "^MISSING hardware.*: no device 'cuda:63': " out || fail "the output does not say that the device is missing: $(cat out)"
grep -q '^MISSING a: not run' out || fail "check 'a' was run although its device is absent: $(cat out)"
expect 5 accept --spec ./absent.json --out absent --resume
expect_error 2 "are of a spec that differs from" accept --spec ./absent.json --device cpu --out absent --resume

# The first call runs one check, and the next call runs the other checks. A check that exceeds the
# budget is missing.
spec "$(memory a "$right"),$(train long 100000000 60 1 ''),$(memory b "$right")" | sed 's/"level": 2/"level": 1/' >parts.json
expect 0 accept --spec ./parts.json --out parts --only b
grep -qx 'SKIP    not selected: a, long' out || fail "the output does not name the checks that are not selected: $(cat out)"
expect 5 accept --spec ./parts.json --out parts --resume --budget 4
grep -qE '^MISSING long.*: stopped after [1-4] s, the rest of the budget|^MISSING long: not run: the budget' out || fail "the output does not name the budget: $(cat out)"
[[ $(grep -c '^PASS ' out) == 3 ]] || fail "the number of checks that passed is not 3: $(cat out)"
grep -q '"note"' parts/accept.json || fail "the record has no note"

# If the hardware does not match the spec, the test suite fails and no further check runs. A check's
# name must not have special characters.
spec "$(memory a "$right")" "*no such processor*" >other.json
expect 4 accept --spec ./other.json --out other
grep -q 'MISSING *a: not run' out || fail "checks ran on hardware that does not match: $(cat out)"
spec "$(memory 'a<b' "$right")" >name.json
expect_error 2 "letters, digits" accept --spec ./name.json --out x

# A run that takes too long fails, and so does a metric below its limit. The later checks are
# measured nevertheless. The losses of repeated runs have the same bits.
spec "$(memory a '"copy": {"min": 1e9}'),$(train long 100000000 1 1 ''),$(train bits 4 60 2 '"loss_bits": {"same": true}, "images_per_s": {"min": 0.001}, "temperature_c": {"max": 1000, "absent": "skip"}')" >fail.json
expect 4 accept --spec ./fail.json --out fail --level 2
grep -q 'FAIL *long, .*not done within the limit of 1 s' out || fail "a check that exceeds its time limit has not failed: $(cat out)"
grep -q 'is below 1e+09' out || fail "a metric below its limit has not failed: $(cat out)"
grep -q 'PASS *loss_bits' out || fail "check 'bits', which follows the check 'long', was not measured: $(cat out)"
[[ ! -e fail/checks/bits/r1/run/checkpoint.safetensors ]] || fail "the suite did not remove a checkpoint of a check that trains"

# With --resume, a killed test suite runs only the checks that have no result. It waits until the
# command of the killed suite has ended.
spec "$(memory a "$right"),$(train long 100000000 60 1 ''),$(memory b "$right")" >killed.json
"$program" accept --spec ./killed.json --out killed --level 2 >out 2>err </dev/null &
suite=$!
for ((i = 0; i < 600; i++)); do
    [[ -e killed/checks/long/r1/run/steps.jsonl ]] && break
    sleep 0.1
done
[[ -e killed/checks/a.json && ! -e killed/checks/long.json ]] || fail "the result of the first check is not stored while the second runs"
expect_error 1 "another 'ampscale accept' is using 'killed'" accept --spec ./killed.json --out killed --resume
kill -KILL $suite
wait $suite 2>/dev/null
kept=$(stat -c %i killed/checks/a.json)
sed -i 's/"steps": 100000000/"steps": 4/' killed.json killed/spec.json
expect 0 accept --spec ./killed.json --out killed --level 2 --resume
[[ $(stat -c %i killed/checks/a.json) == "$kept" ]] || fail "a complete check was run again"
[[ -e killed/checks/b.json && -e killed/accept.json ]] || fail "a missing check was not run"

# A test suite that gets SIGTERM prints that it was interrupted, and can be resumed.
spec "$(memory a "$right"),$(train long 100000000 60 1 '')" >asked.json
"$program" accept --spec ./asked.json --out asked --level 2 >out 2>err </dev/null &
suite=$!
for ((i = 0; i < 600; i++)); do
    [[ -e asked/checks/long/r1/run/steps.jsonl ]] && break
    sleep 0.1
done
kill -TERM $suite
code=0
wait $suite || code=$?
((code == 143)) || fail "after SIGTERM the suite exits with $code"
grep -q 'interrupted by Terminated; --resume runs the remaining checks' err || fail "the message does not say that the suite was interrupted: $(cat err)"
[[ ! -e asked/accept.json ]] || fail "an interrupted suite has a verdict"
sed -i 's/"steps": 100000000/"steps": 4/' asked.json asked/spec.json
expect 0 accept --spec ./asked.json --out asked --level 2 --resume

# A check whose command is killed has the results of its finished turns, and the records and logs of
# its runs, but no weights. With --resume it keeps them, and runs what is missing.
spec '{"name": "speed", "kind": "throughput", "level": 1, "seconds": 1, "limit_s": 100, "args": {"rows": "fp32:4", "net": "resnet8", "image_size": 32, "steps": 4, "rounds": 64}, "limits": {"images_per_s_fp32_4": {"min": 0.001}}}' >turns.json
"$program" accept --spec ./turns.json --out turns >out 2>err </dev/null &
suite=$!
work=turns/checks/speed/r1/work
for ((i = 0; i < 600; i++)); do
    grep -qs '"median"' $work/throughput.json && break
    sleep 0.1
done
pkill -KILL -P $suite
code=0
wait $suite || code=$?
((code == 5)) || fail "with a killed check the suite exits with $code: $(cat out err)"
grep -qE '^MISSING +speed, .*: ended by a signal: Killed; the values are those of its partial record, throughput.json$' out || fail "the check is not partial: $(cat out)"
grep -qE '^  PASS +images_per_s_fp32_4 ' out || fail "the finished turns are lost: $(cat out)"
[[ -s $work/runs/fp32-4-ampscale-r1/summary.json && -s $work/runs/fp32-4-ampscale-r1.log ]] || fail "the records of the runs: $(find $work)"
[[ -z $(find turns -name '*.safetensors*' -o -type f -size +200k) ]] || fail "large files remain: $(find turns -type f -size +200k)"
first=$(stat -c %i $work/runs/fp32-4-ampscale-r1/summary.json)
sed -i 's/"rounds": 64/"rounds": 3/' turns.json turns/spec.json
expect 0 accept --spec ./turns.json --out turns --resume
[[ $(stat -c %i $work/runs/fp32-4-ampscale-r1/summary.json) == "$first" ]] || fail "a finished turn was run again: $(find $work)"
grep -q '"rounds": 3' turns/checks/speed/r1/output.json || fail "a missing turn was not run: $(<turns/checks/speed/r1/output.json)"

# A spec is made from the results of good hardware. The same hardware passes this spec.
expect 0 accept --make-spec good
grep -q 'a.copy: .*twice as wide' err || fail "stderr does not say that limits made from few values are twice as wide: $(cat err)"
cp out made.json
grep -q '"baseline"' made.json || fail "the made spec has no baseline: $(cat made.json)"
expect 0 accept --spec ./made.json --dry-run
expect_error 2 "are of different specs" accept --make-spec good warn
expect_error 5 "holds no results" accept --make-spec good "$TMPDIR"

# Each of three suites must have written these files.
for dir in good fail missing; do
    for file in accept.json accept.md accept.html accept.xml spec.json; do
        [[ -s $dir/$file ]] || fail "no $dir/$file"
    done
    if command -v xmllint >/dev/null; then
        xmllint --noout --schema "$source_dir/tests/accept/junit.xsd" $dir/accept.xml 2>err ||
            fail "$dir/accept.xml is not valid JUnit: $(cat err)"
    fi
done
grep -q '"passed": *false' fail/accept.json || fail "the JSON of a failed suite says that it passed"
grep -q 'ampscale train --dummy' <(tr -d '\n' <fail/accept.md) || fail "the report lacks the command of a check that trains"
finish
