#!/usr/bin/env bash
# Checks outcome.json after each way in which a run can end, and how watch, report, plot and
# amp-report describe an incomplete run.
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

expect_train 0 "${few[@]}" --epochs 1 --out done
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
grep -q "^note: run 'stopped' is not complete: killed: process" err || fail "plot: $(cat err)"
expect 0 report --no-figures -o report.md stopped
grep -q '^| stopped .* incomplete |$' report.md || fail "the report depends on which processes run: $(grep stopped report.md)"
expect_train 0 "${few[@]}" --epochs 400 --steps 60 --resume auto --out stopped
ended stopped done 0 steps

# A run diverges. The log shows values that are not finite as nan or inf.
diverge=(train "${few[@]}" --dummy-train 96 -a resnet18 --image-size 32 -b 4 --threads 1 -j 1 -p 1 --lr 1e6)
if ! sanitized; then
    expect 1 "${diverge[@]}" --out diverged
    ended diverged diverged 1 'training diverged at precision fp32: the loss of epoch 0'
    watched diverged 'diverged, exit code 1: training diverged'
    expect 5 amp-report diverged
    grep -q "^note: run 'diverged' is not complete: diverged, exit code 1" err || fail "amp-report: $(cat err)"
    expect 0 report --no-figures -o report.md diverged
    grep -q '^| diverged .* diverged |$' report.md && grep -q '^- diverged: diverged, exit code 1: training' report.md ||
        fail "report: $(grep diverged report.md)"
    expect 0 "${diverge[@]}" --on-nan continue --epochs 1 --out continued
    grep -qE '^Epoch: .*Loss (nan|inf) ' out && ! grep -q -- '-nan' out || fail "the log does not report the loss as nan or inf: $(grep Epoch out)"
    grep -q '"loss":null' continued/steps.jsonl && grep -q '"train_loss":null' continued/epochs.jsonl ||
        fail "the record does not show losses that are not finite"
    [[ -z $(find continued -name '*.safetensors*') ]] || fail "weights that are not finite were written"
    ended continued done 0 epochs
fi

# The summary has the state of the loss scaler at the end of the run: one step overflowed, and the
# scale grew once after it.
expect_train 0 "${few[@]}" --precision O1 --epochs 1 --inject-overflow 1 --loss-scale-interval 2 --loss-scale-init 8 --out scaled
diff <(sed -n '/"loss_scaler"/,/}/p' scaled/summary.json | tr -d ' \n') \
    <(printf '%s' '"loss_scaler":{"scale":8.0,"growths":1,"skipped":1},') || fail "the summary has another state of the loss scaler"

# A limit on the size of files acts as a full disk: the weights cannot be written. The run ends with
# an error after it has begun its record.
(ulimit -f 64 && exec "$program" train "${net[@]}" "${few[@]}" --epochs 1 --out full >out 2>err </dev/null)
ended full error 1 "cannot write 'full/"
watched full "error, exit code 1: cannot write 'full/"

# A process that is stopped by SIGSTOP is not reported as killed.
"$program" train "${net[@]}" "${few[@]}" --epochs 100000 --out still >/dev/null 2>&1 </dev/null &
pid=$!
for ((i = 0; i < 600; i++)); do
    [[ ! -s still/epochs.jsonl ]] || break
    sleep 0.1
done
kill -STOP "$pid"
touch -d '10 minutes ago' still/*.jsonl still/run.json
watched still 'no new record for .*: its process still runs, and may hang'
kill -KILL "$pid"
{ wait "$pid"; } 2>/dev/null
watched still "killed: process $pid of host"
finish
