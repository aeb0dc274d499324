#!/usr/bin/env bash
# ampscale export: its errors and its output; a folder that is not a run.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"

cd "$scratch" || exit 1
expect_train 0 --dummy --dummy-train 16 --dummy-val 2 --classes 3 --epochs 1 --out a/first \
    --prometheus live.prom
cp -r a b && mkdir c && cp -r a/first c/second

expect_error 2 "no run to export" export
expect_error 2 "no format" export a/first -o x
expect_error 2 "--format 'excel': give tensorboard" export a/first --format excel -o x
expect_error 2 "no place to export to" export a/first --format csv
expect_error 2 "--division 'ajar': give open or closed" export a/first --format mlperf --division ajar -o x
expect_error 2 "have the same name" export a/first b/first --format csv -o x
expect_error 2 "only one run" export a/first c/second --format mlperf -o x
expect_error 5 "there is no such folder" export a/second --format csv -o x
expect_error 1 "cannot write" export a/first --format prometheus -o no/such/folder.prom

expect 0 export a/first --format csv -o tables
[[ $(cat "$scratch/out") == $'tables/steps.csv\ntables/epochs.csv\ntables/ranks.csv\ntables/telemetry.csv' ]] || fail "export printed: $(cat "$scratch/out")"
[[ $(wc -l <tables/steps.csv) == 3 && $(wc -l <tables/epochs.csv) == 2 ]] || fail "the tables do not have the lines of the records"

# An exported run name must not be a formula of a spreadsheet. A report quotes each word of a run's
# command, so that a shell into which the command is pasted does not execute text inside a word.
cp -r a/first "=cmd()"
sed -i 's/"ampscale train"/"$(touch pwned) train"/' "=cmd()/run.json"
expect 0 export "=cmd()" --format csv -o formula
grep -qv "^'=cmd(),[0-9]" < <(sed 1d formula/steps.csv) && fail "the CSV contains a formula: $(sed -n 2p formula/steps.csv)"
expect 0 report "=cmd()" -o report.md
grep -qF "'\$(touch pwned) train'" report.md || fail "a report's command is not quoted: $(grep -F touch report.md)"

# The text file that training updates agrees with the exported one, except for times and the number
# of digits.
expect 0 export a/first --format prometheus -o exported.prom
for file in live exported; do
    grep -v -e timestamp -e seconds -e throughput "$file.prom" | grep -e total -e info -e finished >"$file.txt"
done
cmp live.txt exported.txt || fail "live and exported textfiles differ"
grep -q '^ampscale_run_finished{run="first"} 1$' live.prom || fail "the live textfile does not say that the run ended"

# The next export to the same file removes the temporary file of a killed export.
touch exported.prom.tmp.1 exported.prom.tmp.x
expect 0 export a/first --format prometheus -o exported.prom
[[ $(echo exported.prom*) == "exported.prom exported.prom.tmp.x" ]] || fail "the folder has other files: $(echo exported.prom*)"

# catches PID: whether the process has a handler of SIGTERM, signal 15.
catches() {
    local mask
    mask=$(sed -n 's/^SigCgt:\t//p' "/proc/$1/status" 2>/dev/null)
    [[ -n $mask ]] && ((0x$mask >> 14 & 1))
}

# Exports the weights of the newest checkpoint for PyTorch. Here the newest epoch is the best, so
# the weights equal best.safetensors, which has the names of a state_dict
# (tests/model/interop_peer.py). The export contains nothing else from the checkpoint.
expect_train 0 --dummy --dummy-train 16 --dummy-val 16 --classes 2 --epochs 1 --out weights/run
[[ -e weights/run/best.safetensors ]] || fail "no image was classified correctly: choose another seed"
expect 0 export weights/run --format torch-weights -o weights/out.safetensors
[[ $(<out) == weights/out.safetensors ]] || fail "torch-weights prints $(cat out)"
cmp weights/out.safetensors weights/run/best.safetensors || fail "the exported weights differ from best.safetensors"
grep -qaF momentum/ weights/run/checkpoint.safetensors || fail "the checkpoint has no momentum, so this test cannot show that the export omits it"
before=$(cksum <weights/run/checkpoint.safetensors)
expect_error 2 "is the checkpoint itself" export weights/run --format torch-weights -o weights/run/../run/checkpoint.safetensors
[[ $(cksum <weights/run/checkpoint.safetensors) == "$before" ]] || fail "an export changed the checkpoint"
expect_error 2 "only one run" export weights/run a/first --format torch-weights -o x
rm weights/run/checkpoint.safetensors
expect_error 5 "checkpoint.safetensors" export weights/run --format torch-weights -o x
head -c 1000 weights/run/best.safetensors >weights/run/checkpoint.safetensors
expect_error 5 "checkpoint.safetensors" export weights/run --format torch-weights -o x
[[ ! -e x ]] || fail "a refused export of weights wrote a file"

# A signal ends an export, and no temporary file remains. If the export ends before the signal
# arrives, the test starts it again.
tail -n 1 a/first/steps.jsonl | awk '{ for (i = 2; i < 20000; i++) { sub(/"step": *[0-9]+/, "\"step\": " i); print } }' >more
cat more >>a/first/steps.jsonl
for turn in 1 2 3 4 5; do
    "$program" export a/first --format csv -o ended >out 2>err &
    pid=$!
    until catches "$pid" || ! kill -0 "$pid" 2>/dev/null; do :; done
    kill -TERM "$pid" 2>/dev/null
    code=0
    wait "$pid" 2>/dev/null || code=$?
    ((code == 0)) || break
done
[[ $code == 143 && $(<err) == "ampscale: interrupted by SIGTERM" ]] || fail "after SIGTERM the exit code is $code, or stderr has another message: $(<err)"
[[ -z $(find . -name '*.tmp.[0-9]*') ]] || fail "after SIGTERM, temporary files remain: $(find . -name '*.tmp.*')"
finish
