#!/usr/bin/env bash
# --on-save: a command runs in the background after files were saved. It delays no step. If several
# saves happen before the command starts, it runs once for all of them. A failed command is
# repeated, and failures are counted and recorded. None of its processes remains after the run.
. "$(dirname "$0")/common.sh" "$@"
cd "$scratch" || exit 1
tiny=(train --dummy --dummy-train 32 --dummy-val 8 -a resnet8 --image-size 16 --classes 2 -b 8 --threads 1 --telemetry 0 -p 100)

mark=1$$0$RANDOM # a number by which this test recognises its own processes
lines() { [[ -e $2 && $(wc -l <"$2") -ge $1 ]]; }

# When the command runs for the last time, the folder is complete. The name of the folder may have
# spaces.
expect 0 "${tiny[@]}" --epochs 2 --out "a run" --on-save 'echo "$AMPSCALE_STEP $AMPSCALE_SAVED" >>saves; rm -rf copy; cp -r {} copy'
rm -f "a run/on-save.log" copy/on-save.log
diff -r "a run" copy >log || fail "the saved files differ from the files of the run: $(cat log)"
[[ $(tail -n 1 saves) == "8 "* && $(<saves) == *checkpoint* ]] || fail "the command did not get the path of the last checkpoint: $(<saves)"
[[ ! -s $scratch/err ]] || fail "stderr is not empty although every command succeeded: $(cat "$scratch/err")"
grep -q '"failures": 0' "a run/summary.json" || fail "the summary does not say that there were 0 failures"

# The command does not get the secret with which ranks prove that they belong to the job.
AMPSCALE_SECRET=hidden$mark expect 0 "${tiny[@]}" --epochs 1 --out secret --on-save 'env >>environment'
grep -q '^AMPSCALE_SAVED=' environment && ! grep -qE "AMPSCALE_SECRET|hidden$mark" environment ||
    fail "the command's environment: $(grep AMPSCALE environment)"

# A command that hangs delays no step. After it has ended, it runs only a few times more for all the
# other saves.
: >blocked
"$program" "${tiny[@]}" --epochs 6 --out busy --on-save 'echo >>runs; while [ -e blocked ]; do sleep 0.1; done' >out 2>err &
pid=$!
await 120 lines 6 busy/epochs.jsonl
lines 2 runs && fail "a second run of the command began before the first had ended"
rm blocked
code=0 && wait $pid || code=$?
((code == 0)) || fail "the run with a slow command ended with exit code $code: $(cat err)"
lines 2 runs && ! lines 6 runs || fail "the command ran $(wc -l <runs) times for 12 saves"

# A failed command is repeated. If the last attempt also fails, there is a warning, an event in the
# record, and an entry in the summary.
expect 0 "${tiny[@]}" --epochs 1 --out later --on-save 'echo >>tries; [ $(wc -l <tries) -gt 2 ]'
[[ ! -s $scratch/err ]] && grep -q '"failures": 0' later/summary.json || fail "a command that succeeded when it was repeated is reported as failed: $(cat "$scratch/err")"
expect 0 "${tiny[@]}" --epochs 1 --out never --on-save 'echo "no bucket" >&2; exit 3' --on-save-timeout 100
grep -q '^ampscale: warning: --on-save failed after step 4: exit code 3: no bucket$' "$scratch/err" || fail "no warning: $(cat "$scratch/err")"
grep -q '"event":"on_save","step":4,"code":3,"message":"exit code 3: no bucket"' never/steps.jsonl || fail "steps.jsonl has no event of the failed command: $(cat never/steps.jsonl)"
grep -qE '"failures": [12],' never/summary.json && grep -q '"message": "exit code 3: no bucket"' never/summary.json ||
    fail "the summary does not have the failure: $(cat never/summary.json)"
expect 0 export never --format csv -o never.csv

# --on-save-timeout limits the time of the command, and so also the time that the run waits for it
# at the end. No process remains.
expect 0 "${tiny[@]}" --epochs 1 --out hung --on-save "sleep $mark; true" --on-save-timeout 1
grep -q 'warning: --on-save failed after step 4: ' "$scratch/err" || fail "there is no warning about the time limit: $(cat "$scratch/err")"
nothing_runs() { ! pgrep -f "$1" >/dev/null; }
await 120 nothing_runs "sleep $mark"

# If a run is stopped, the command also runs after outcome.json was written. If a run is killed, its
# helper process and the command end.
expect 0 "${tiny[@]}" --epochs 1 --out deaf --on-save "trap '' TERM; echo; exec sleep $mark" --on-save-timeout 1
await 20 nothing_runs "sleep $mark"
"$program" "${tiny[@]}" --epochs 100000 --out stopped --on-save 'rm -rf copy2; cp -r {} copy2' >out 2>err &
pid=$!
await 120 lines 1 stopped/epochs.jsonl
kill $pid
code=0 && wait $pid || code=$?
((code == 143)) && grep -q '"signal"' copy2/outcome.json || fail "a stopped run was not saved (exit code $code): $(cat err)"
cmp stopped/checkpoint.safetensors copy2/checkpoint.safetensors || fail "the last checkpoint of a stopped run was not saved"
"$program" "${tiny[@]}" --epochs 100000 --out "$scratch/killed" --on-save "sleep $mark; true" >out 2>err &
pid=$!
await 120 lines 1 killed/epochs.jsonl
kill -9 $pid
{ wait $pid; } 2>/dev/null
await 120 nothing_runs "sleep $mark"
await 120 nothing_runs "on-save-helper $scratch/killed"

# Only rank 0 runs the command. With --remote-transfer-cmd, a Python function is called with the
# path of each saved file.
run launch --nproc 2 --nnodes 1 -- "${tiny[@]}" --mode ddp --epochs 1 --out ranks --on-save 'echo $RANK$PPID >>helpers'
((code == 0)) && [[ $(sort -u helpers | wc -l) == 1 ]] || fail "several ranks run the command (exit code $code): $(cat helpers "$scratch/err")"
if command -v python3 >/dev/null; then
    printf 'def save(path):\n    with open("saved", "a") as f:\n        print(path, file=f)\n' >mysave.py
    expect 0 "${tiny[@]}" --epochs 1 --out py --remote_transfer_cmd mysave.save
    grep -qx py/summary.json saved && [[ ! -s $scratch/err ]] || fail "--remote-transfer-cmd: $(cat "$scratch/err" saved)"
fi
expect_error 2 "--on-save-timeout '0.5': give a number from 1" "${tiny[@]}" --on-save true --on-save-timeout 0.5
finish
