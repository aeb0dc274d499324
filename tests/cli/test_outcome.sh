#!/usr/bin/env bash
# Checks outcome.json after each way in which a run can end, how watch, report, plot and amp-report
# describe an incomplete run, watch while a run grows, and exports of weights.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
cd "$scratch" || exit 1
few=(--dummy --dummy-train 40 --dummy-val 4 --classes 3)

# ended DIR OUTCOME CODE MESSAGE: checks the outcome of the run.
ended() {
    grep -qF "\"outcome\": \"$2\"" "$1/outcome.json" && grep -qF "\"exit_code\": $3" "$1/outcome.json" &&
        grep -qE "\"message\": \"$4" "$1/outcome.json" || fail "$1: $(cat "$1/outcome.json")"
}

# watched DIR TEXT: checks that the output of `watch --once` matches TEXT.
watched() {
    expect 0 watch "$1" --once --ascii
    grep -qE -- "$2" <<<"$(tr '\n' ' ' <out)" || fail "watch $1: $(tail -n 4 out)"
}

TZ=east-9 expect_train 0 "${few[@]}" --epochs 2 --out done --prometheus live.prom
[[ $(date -u -d "$(sed -nE 's/.*"started": "(.*)".*/\1/p' done/run.json)" +%s) == $(sed -nE 's/.*"started_s": ([0-9]+).*/\1/p' done/run.json) ]] ||
    fail "east of Greenwich, the run started at $(grep started done/run.json)"
grep -q "^ampscale_run_finished.* 1$" live.prom || fail "the text file that training updates: $(<live.prom)"
ended done done 0 epochs
expect_train 0 "${few[@]}" --epochs 9 --desired-acc 1 --out accurate
ended accurate "desired accuracy" 0 "desired accuracy"

# A run is stopped by a signal, resumed, and then killed. The outcome of the first attempt is not
# reported as the outcome of the second attempt.
train_signalled TERM 7 "${few[@]}" --epochs 400 --out stopped
ended stopped signal 143 'stopped by SIGTERM at epoch'
watched stopped 'ended after [0-9]+ steps in .*signal, exit code 143: stopped by SIGTERM'
train_signalled KILL 3 "${few[@]}" --epochs 400 --resume auto --out stopped
watched stopped 'killed: process [0-9]+ of host .* ended and wrote no outcome'
expect 0 plot stopped --format svg --out figures
grep -q "^note: run 'stopped' is not complete: killed: process" err || fail "plot: $(<err)"
expect 0 report --no-figures -o report.md stopped
grep -q '^| stopped .* incomplete |$' report.md || fail "report: $(grep stopped report.md)"
expect_train 0 "${few[@]}" --epochs 400 --steps 60 --resume auto --out stopped
ended stopped done 0 steps

# A record that lacks rows is not taken as complete.
expect_train 0 "${few[@]}" --epochs 4 --no-checkpoint --out whole
for lost in epochs:2d epochs:1d epochs:\$d 'epochs:$s/\(.*\)"epoch":3\(.*\)/&\n\1"epoch":4\2/' steps:3d steps:1,7d steps:1d steps:\$d; do
    rm -rf lossy base && mkdir lossy base && cp -r whole base/r1 && cp -r whole lossy/r1 && sed -i 's/"started_s": /&1/' lossy/r1/run.json
    sed -i "${lost#*:}" "lossy/r1/${lost%%:*}.jsonl"
    expect 5 compare base lossy
    grep -q "1 damaged run of NEW left out: 'lossy/r1' lacks rows" out || fail "compare without a row, $lost: $(<out)"
    expect 0 report --no-figures -o report.md lossy
    grep -q '^| r1 .* rows are missing' report.md || fail "report without a row, $lost: $(grep r1 report.md)"
done
# A run that is complete, or another program's, is not continued without a checkpoint.
expect 2 train "${net[@]}" "${few[@]}" -b 4 --epochs 4 --no-checkpoint --resume auto --out whole
one_line "resuming a complete run" "'whole' holds a run without a checkpoint"
expect 0 record --out other -- true
expect 2 train "${net[@]}" "${few[@]}" --resume auto --out other
one_line "resuming another program" "'other' holds a run without a checkpoint"
expect_train 0 "${few[@]}" --seed 3 --epochs 1 --out another
for folder in whole other; do
    expect 2 train "${net[@]}" "${few[@]}" --seed 3 --epochs 2 --resume another/checkpoint.safetensors --out $folder
    one_line "continuing a run in the folder of another" "'$folder' already holds a run; name another folder by --out"
done
# A run that began at another one's checkpoint and has none of its own begins there again.
from=(--seed 3 --epochs 2 --resume another/checkpoint.safetensors)
expect_train 0 "${few[@]}" "${from[@]}" --out undisturbed
cp -r undisturbed killed
rm killed/*.safetensors killed/{summary,outcome}.json killed/{steps,epochs}.jsonl
expect_train 2 "${few[@]}" --seed 3 --epochs 2 --resume auto --out killed
one_line "resuming a run that has only begun" "'killed' began at 'another/checkpoint.safetensors' and has no checkpoint yet: give --resume another/checkpoint.safetensors again"
expect_train 0 "${few[@]}" "${from[@]}" --out killed
cmp {undisturbed,killed}/checkpoint.safetensors || fail "a run that began at another one's checkpoint again ends with other weights"
expect_train 2 "${few[@]}" "${from[@]}" --out killed
# Also if the name of that checkpoint is no UTF-8.
name=$'another/caf\xe9.safetensors'
cp another/checkpoint.safetensors "$name"
expect_train 0 "${few[@]}" --seed 3 --epochs 2 --resume "$name" --out named
rm named/*.safetensors named/{summary,outcome}.json named/{steps,epochs}.jsonl
expect_train 0 "${few[@]}" --seed 3 --epochs 2 --resume "$name" --out named
# A new run is refused where it would be continued from the checkpoint of another.
for name in checkpoint checkpoint-prev; do
    rm -rf stale && mkdir stale && cp another/checkpoint.safetensors stale/$name.safetensors
    expect_error 2 "'stale' already holds a run" train "${net[@]}" "${few[@]}" --seed 3 --epochs 2 --out stale
done
# Of two runs that begin in one folder at once, one says that the other is there.
for i in {1..6}; do
    "$program" train "${net[@]}" "${few[@]}" "${from[@]}" --out "race-$i" >out.2 2>err.2 &
    run train "${net[@]}" "${few[@]}" --lr 0.01 "${from[@]}" --out "race-$i"
    other=0
    wait $! || other=$?
    [[ $code-$other == 0-2 || $code-$other == 2-0 ]] || fail "two runs in one folder, round $i: $code and $other: $(cat err err.2)"
done
# Without --out, each takes a name of its own; that of a link which leads nowhere is taken.
mkdir runs && ln -s /lost/run runs/resnet8-001
pids=()
for i in {1..4}; do
    "$program" train "${net[@]}" "${few[@]}" "${from[@]}" >out.$i 2>err.$i &
    pids+=($!)
done
for i in {1..4}; do
    wait "${pids[i - 1]}" || fail "one of four runs that name their folders: $(<err.$i)"
done
[[ $(ls runs) == $'resnet8-001\nresnet8-002\nresnet8-003\nresnet8-004\nresnet8-005' ]] || fail "four runs name their folders: $(ls runs)"
expect_train 0 "${few[@]}" --seed 3 --epochs 2 --resume "$PWD/another/checkpoint.safetensors" --out ./another/
expect_train 0 "${few[@]}" --seed 3 --epochs 3 --steps 12 --resume another/checkpoint.safetensors --out within
expect 0 report --no-figures -o report.md within
grep -q '^| within .* complete' report.md || fail "a run within an epoch, from the checkpoint of another: $(grep within report.md)"
# A run that goes back to an older checkpoint, and is lost before its next one, continues there.
longer=("${few[@]}" --dummy-train 400 --epochs 2)
expect_train 0 "${longer[@]}" --keep-checkpoints 2 --out first
cp -r first back && cp -r first ended
expect_train 0 "${longer[@]}" --lr 0.01 --resume back/checkpoint-epoch-0001.safetensors --out back
for folder in ended fresh; do
    train_signalled KILL 1 "${longer[@]}" --lr 0.01 --resume first/../${folder/fresh/first}/checkpoint-epoch-0001.safetensors --out $folder
    expect_train 0 "${longer[@]}" --lr 0.01 --resume auto --out $folder
    cmp {back,$folder}/checkpoint.safetensors || fail "$folder: a run that went back and was lost ends with other weights"
done
# Also the same command continues there, even from the previous checkpoint, which each new one replaces.
back=("${longer[@]}" --lr 0.01 --resume prev/checkpoint-prev.safetensors --out prev)
cp -r first prev
train_signalled KILL 1 "${back[@]}"
expect_train 0 "${back[@]}"
cmp {back,prev}/checkpoint.safetensors || fail "a run that went back to the previous checkpoint ends with other weights"
# One that goes back where nothing is left to train would only lose the newest checkpoint.
for left in "--epochs 1" "--steps 2" "--desired-acc 0.1"; do
    # shellcheck disable=SC2086 # two words
    expect_error 2 "leaves nothing to train" train "${net[@]}" "${longer[@]}" $left --resume prev/checkpoint-epoch-0001.safetensors --out prev
done
cmp {back,prev}/checkpoint.safetensors || fail "a refused run has changed the newest checkpoint"
# So does one that goes back within its newest checkpoint.
cp -r first newest && cp -r first newest-lost
begun=("${longer[@]}" --lr 0.01 --start-epoch 1)
expect_train 0 "${begun[@]}" --resume newest/checkpoint.safetensors --out newest
train_signalled KILL 1 "${begun[@]}" --resume newest-lost/checkpoint.safetensors --out newest-lost
expect_train 0 "${begun[@]}" --resume auto --out newest-lost
cmp newest{,-lost}/checkpoint.safetensors || fail "a run that went back by --start-epoch ends with other weights"
# --start-epoch is where a run begins, not where it continues.
begun=("${few[@]}" --epochs 400 --steps 60 --start-epoch 1)
expect_train 0 "${begun[@]}" --out epoch1
train_signalled KILL 30 "${begun[@]}" --out epoch1-again
expect_train 0 "${begun[@]}" --out epoch1-again --resume auto
cmp epoch1{,-again}/checkpoint.safetensors || fail "a run continues at --start-epoch"
# Weights that are not finite are not written, and so are not missing.
expect_train 0 "${few[@]}" --lr 1e6 --on-nan continue --epochs 3 --out nan
expect 2 train "${net[@]}" "${few[@]}" --lr 1e6 --on-nan continue --epochs 4 --resume auto --out nan
# A run that continued with other settings is a run of neither.
rm -rf base changed && mkdir base changed
train_signalled TERM 9 "${few[@]}" --epochs 4 --out changed/r1
expect_train 0 "${few[@]}" --epochs 4 --out base/r1
expect_train 0 "${few[@]}" --lr 0.01 --momentum 0.5 --epochs 4 --out changed/r1 --resume auto
expect 0 report changed/r1 -o changed.md
grep -q '1 of them resumed with other settings' changed.md || fail "a report of a run with two settings: $(grep Quality changed.md)"
expect 0 compare --record history changed/r1
expect 0 compare --record history base/r1
expect 0 trend history
grep -q 'images_per_s' out || fail "a history with a resumed run: $(<out)"
# A run that a history could not hold leaves it as it was.
cp -r base/r1 deep
sed -i '0,/"libraries": {/s//&"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": 1}}}}}}}}, /' deep/run.json
cp history/history.jsonl was
expect_error 5 "'deep' has values that no history can hold" compare --record history deep
cmp was history/history.jsonl || fail "a run that was refused changed the history"
# A full one takes no further run, but has those that it has.
mkdir full
sed -nE '$s/^(.*"added_s":)[0-9.]+(,"started_s":)[0-9.]+(.*)$/\1\t\2\t\3/p' history/history.jsonl |
    awk -F'\t' '{ for (i = 2; i <= 100000; i++) print $1 i $2 i $3 }' >full/history.jsonl
tail -n 1 history/history.jsonl >>full/history.jsonl
cp full/history.jsonl was
expect 0 compare --record full base/r1
expect_error 5 "'full/history.jsonl' is full: begin another history" compare --record full changed/r1
cmp was full/history.jsonl || fail "a full history was changed"
rm -r full was
expect 5 compare base changed
grep -q "config.lr: '0.05' .*'0.05, then 0.01'" out && grep -q "config.momentum" out || fail "a run with two settings: $(<out)"
# An attempt that trained nothing says nothing of the run.
expect_train 0 "${few[@]}" --epochs 4 --out base/r2
expect_train 0 "${few[@]}" --threads 2 --epochs 4 --out base/r2 --resume auto
expect 5 compare base/r1 base/r2
grep -q "refused" out && fail "an attempt that trained nothing changes a run: $(<out)"
cp -r base/r1 base/alone && expect_train 0 "${few[@]}" --epochs 5 --resume base/r1/checkpoint.safetensors --out base/later
expect_train 0 "${few[@]}" --epochs 5 --resume base/r1/checkpoint.safetensors --out base/again --expect base/later
# While a run continues, no outcome is shown.
train_signalled KILL 9 "${few[@]}" --epochs 400 --out another --seed 3 --resume auto
[[ ! -e another/outcome.json ]] || fail "a killed run has the outcome of the attempt before it"
# A process that waits for the one before it continues from what that writes at its end.
for process in 1 2; do
    "${limited[@]}" "$program" train "${net[@]}" "${few[@]}" --epochs 100000 --out queued --resume auto >out$process 2>&1 </dev/null &
    queued[process]=$!
    await 30 grep -qsF -- '"epoch"' queued/epochs.jsonl
done
sleep 1
kill -TERM "${queued[1]}"
wait "${queued[1]}"
await 30 grep -qs '^Resuming at epoch' out2
kill -TERM "${queued[2]}"
wait "${queued[2]}"
stopped=$(sed -nE 's/.*stopped by SIGTERM at (epoch [0-9]+, step [0-9]+);.*/\1/p' out1)
[[ -n $stopped ]] && grep -q "^Resuming at $stopped$" out2 || fail "a process that waited: $(tail -n 1 out1) $(grep Resuming out2)"

# An exported time is that of the day, whatever pause was before a resume.
! command -v python3 >/dev/null || { expect 0 export changed/r1 --format prometheus -o changed.prom && python3 - <<'END' || fail "the exported time of a resumed run: $(grep timestamp changed.prom)"
import json, re, sys
last = float(re.search(r'^ampscale_last_record_timestamp_seconds\S* (\S+)', open("changed.prom").read(), re.M)[1])
rows = [json.loads(i) for name in ("steps", "epochs") for i in open(f"changed/r1/{name}.jsonl")]
resume = [i for i in rows if i.get("event") == "resume" and "elapsed" in i][-1]
elapsed = max(i.get("elapsed", 0) for i in rows if "event" not in i)
sys.exit(abs(resume["started_s"] + elapsed - resume["elapsed"] - last) > 0.01)
END
}
# Nothing is kept of a run that is killed before its first checkpoint.
train_signalled KILL 3 "${few[@]}" --epochs 400 --out begun
expect_train 0 "${few[@]}" -b 4 --epochs 1 --resume auto --out begun
grep -q '"batch_size": 4' begun/run.json || fail "the record has the killed run's settings: $(grep batch_size begun/run.json)"
# Two reports of a run at once.
"$program" report whole -o one.md >one.out 2>&1 &
expect 0 report whole --html two.html
wait $! && [[ -s one.md ]] || fail "a report beside another: $(<one.out)"

# A run diverges. The log shows values that are not finite as nan or inf.
diverge=(train "${few[@]}" --dummy-train 96 -a resnet18 --image-size 32 -b 4 --threads 1 -j 1 -p 1 --lr 1e6)
expect 1 "${diverge[@]}" --out diverged
ended diverged diverged 1 'training diverged at precision fp32: the loss of epoch 0'
watched diverged 'diverged, exit code 1: training diverged'
expect 5 amp-report diverged
grep -q "^note: run 'diverged' is not complete: diverged, exit code 1" err || fail "amp-report: $(<err)"
expect 0 report --no-figures -o report.md diverged
grep -q '^| diverged .* diverged |$' report.md || fail "report: $(grep diverged report.md)"
expect 0 "${diverge[@]}" --on-nan continue --epochs 1 --out continued
grep -qE '^Epoch: .*Loss (nan|inf) ' out && ! grep -q -- '-nan' out || fail "the log does not report the loss as nan or inf: $(grep Epoch out)"
grep -q '"loss":null' continued/steps.jsonl || fail "the record does not show losses that are not finite"
[[ -z $(find continued -name '*.safetensors*') ]] || fail "weights that are not finite were written"
ended continued done 0 epochs

# One step overflowed, and the loss scale grew once after it.
expect_train 0 "${few[@]}" --precision O1 --epochs 1 --inject-overflow 1 --loss-scale-interval 2 --loss-scale-init 8 --out scaled
[[ $(sed -n '/"loss_scaler"/,/}/p' scaled/summary.json | tr -d ' \n') == '"loss_scaler":{"scale":8.0,"growths":1,"skipped":1},' ]] ||
    fail "the summary has another state of the loss scaler: $(<scaled/summary.json)"

# A limit on the size of files acts as a full disk: the weights cannot be written.
(ulimit -f 64 && exec "$program" train "${net[@]}" "${few[@]}" --epochs 1 --out full >out 2>err </dev/null)
ended full error 1 "cannot write 'full/"

# A journal that is removed, emptied or moved away while the run writes it ends the run.
for how in removed emptied moved; do
    "${limited[@]}" "$program" train "${net[@]}" "${few[@]}" --epochs 100000 --no-checkpoint --out $how >/dev/null 2>err </dev/null &
    pid=$!
    await 30 grep -qsF -- '"epoch"' $how/epochs.jsonl
    case $how in
    removed) rm $how/steps.jsonl $how/epochs.jsonl ;;
    emptied) : >$how/steps.jsonl ;;
    moved) mv $how/steps.jsonl away ;;
    esac
    code=0
    wait $pid || code=$?
    ((code == 1)) || fail "a journal that is $how: the exit code is $code"
    text="cannot write '$how/steps.jsonl': another program removed, moved or shortened it"
    one_line "a journal that is $how" "$text"
    ended $how error 1 "$text"
    [[ ! -e $how/summary.json ]] || fail "a journal that is $how: there is a summary"
done

# One that is shortened within a row does so, too, and the run continues as its message says.
"${limited[@]}" "$program" train "${net[@]}" "${few[@]}" --epochs 100000 --out short >/dev/null 2>err </dev/null &
await 30 grep -qsF -- '"epoch":2' short/epochs.jsonl
truncate -s -40 short/steps.jsonl
! wait $! || fail "a shortened journal did not end the run"
one_line "a journal that is shortened" "another program removed, moved or shortened it; then resume with --resume auto"
expect 0 train "${net[@]}" "${few[@]}" --epochs 100000 --steps $(($(grep -c . short/steps.jsonl) + 9)) --out short --resume auto

# If only the event files for TensorBoard are removed or emptied, the run says so and ends well.
for how in "rm -r tb" "truncate -s 0 tb/streamed/*"; do
    "${limited[@]}" "$program" train "${net[@]}" "${few[@]}" --epochs 100000 --steps 2000 --no-checkpoint --tensorboard tb --out streamed >/dev/null 2>err </dev/null &
    await 30 grep -qsF -- '"epoch"' streamed/epochs.jsonl
    eval "$how"
    wait $! || fail "'$how' ended the run: $(<err)"
    one_line "'$how'" "warning: cannot write 'tb/streamed/events.out.tfevents"
    grep -q "': another program removed or shortened it" err || fail "'$how': no reason: $(<err)"
    rm -r streamed
done

# A run whose rows were lost continues from its checkpoint, with a warning.
expect 0 train "${net[@]}" "${few[@]}" --epochs 2 --out lost
rm lost/epochs.jsonl
expect 0 train "${net[@]}" "${few[@]}" --epochs 3 --out lost --resume auto
grep -q "^ampscale: warning: the record in 'lost' lacks rows before the checkpoint" err || fail "lost rows are not reported: $(<err)"
expect 0 train "${net[@]}" "${few[@]}" --epochs 2 --out kept
expect 0 train "${net[@]}" "${few[@]}" --epochs 3 --out kept --resume auto
! grep warning err || fail "a whole record is reported"
# A run that was resumed with other settings is not the run of its first attempt.
expect 0 train "${net[@]}" "${few[@]}" --epochs 3 --out mixed
resumed=$(sed 's/^{/{"event": "resume", "step": 1, /; s/"lr": [0-9.]*/"lr": 0.75/' mixed/run.json | tr -d '\n')
sed -i "/\"step\":1,/i $resumed" mixed/steps.jsonl
expect 2 train "${net[@]}" "${few[@]}" --epochs 3 --no-checkpoint --out again --expect mixed
one_line "a run that was resumed with another learning rate" "its lr is 0.75, but this run's is "
expect 0 export mixed --format mlperf -o mixed.log
grep -q "it was resumed with another 'lr'" err || fail "MLPerf's log of a run that was resumed with another learning rate: $(<err)"

# A process that is stopped by SIGSTOP is not reported as killed.
"$program" train "${net[@]}" "${few[@]}" --epochs 100000 --out still >/dev/null 2>&1 </dev/null &
pid=$!
await 30 grep -qsF -- '"epoch"' still/epochs.jsonl
kill -STOP "$pid"
touch -d '10 minutes ago' still/*.jsonl still/run.json
watched still 'no new record for .*: its process still runs, and may hang'
# On a terminal, Ctrl-C ends watch, and the terminal is restored.
if command -v script >/dev/null; then
    echo "stty rows 20 cols 70; echo \$\$ >watch.pid; exec '$program' watch still --interval 0.05" >on_terminal
    TERM=xterm script -qefc 'sh on_terminal' typescript >/dev/null 2>&1 </dev/null &
    terminal=$!
    await 30 grep -qsF -- "images/s" typescript
    kill -INT "$(<watch.pid)"
    wait "$terminal" || fail "on a terminal, watch ended with exit code $?"
    enter=$'\033[?1049h\033[?25l' leave=$'\033[?25h\033[?1049l'
    screens=$(tr -d '\r' <typescript)
    [[ $screens == *"$enter"*"$leave"* && ${screens##*"$leave"} != *$'\033'* ]] || fail "the terminal was not restored: $(tail -c 1000 typescript | cat -v)"
    timeout 60 env TERM=dumb script -qefc "timeout 3 '$program' watch still --interval 0.05" typescript >/dev/null 2>&1 </dev/null
    grep -q "images/s" typescript && ! grep -q $'\033' typescript || fail "escape sequences with TERM=dumb: $(cat -v typescript)"
    TERM=dumb script -qefc "'$program' train --dummy --dummy-train 64 --classes 3 -a resnet8 --image-size 32 -b 8 --epochs 1 --training-only --out dumb" \
        typescript >/dev/null 2>&1 </dev/null
    grep -q "Finished 8 steps" typescript && ! grep -q $'\033' typescript || fail "escape sequences with TERM=dumb: $(cat -v typescript)"
fi
kill -KILL "$pid"
{ wait "$pid"; } 2>/dev/null
watched still "killed: process $pid of host"

# The records grow in pieces, some of which end in the middle of a line. Without "system", watch does
# not look for the process, which has ended.
mkdir live
sed 's/"system": ".*"/"system": ""/' done/run.json >live/run.json
head -n 3 done/steps.jsonl >live/steps.jsonl
"$program" watch live --interval 0.05 --ascii >watched 2>&1 </dev/null &
watcher=$!
await 30 grep -qsF -- "epoch     1/2 [=============>          ]  60 %" watched
sed -n 4p done/steps.jsonl | head -c 50 >>live/steps.jsonl
sed -n 4p done/steps.jsonl | tail -c +51 >>live/steps.jsonl
await 30 grep -qsF -- "]  80 %" watched
tail -n +5 done/steps.jsonl >>live/steps.jsonl
cp done/epochs.jsonl done/summary.json live
wait "$watcher" || fail "watch ended with exit code $?: $(<watched)"

# An export does not overwrite the checkpoint, and refuses a damaged one.
expect_train 0 --dummy --dummy-train 16 --dummy-val 16 --classes 2 --epochs 1 --out weights
echo old >best.safetensors
(trap '' XFSZ && ulimit -f 0 && exec "$program" export weights --format torch-weights -o best.safetensors 2>&1 </dev/null) | cat >err
grep -qx "ampscale: cannot write 'best.safetensors': File too large" err && [[ $(<best.safetensors) == old ]] || fail "weights on a full disk: $(<err)"
mkfifo weights.pipe
expect_error 2 "'weights.pipe' is no regular file" export weights --format torch-weights -o weights.pipe
expect 0 export weights --format torch-weights -o best.safetensors # the newest weights are the best
cmp best.safetensors weights/best.safetensors || fail "the exported weights are not those of the run"
before=$(cksum <weights/checkpoint.safetensors)
expect_error 2 "is the checkpoint itself" export weights --format torch-weights -o weights/../weights/checkpoint.safetensors
[[ $(cksum <weights/checkpoint.safetensors) == "$before" ]] || fail "an export changed the checkpoint"
head -c 1000 weights/best.safetensors >weights/checkpoint.safetensors
expect_error 5 "checkpoint.safetensors" export weights --format torch-weights -o x
finish
