#!/usr/bin/env bash
# The output and files of a run: its log lines, what it read from storage, evaluation, and endings.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"
cd "$scratch" || exit 1
make_data data
expect_train 0 data --epochs 2 --out run
cp out log
[[ ! -s err ]] || fail "a successful run writes to stderr: $(<err)"

# The name of a folder may be no UTF-8.
odd=$'odd\xff\xc3'
cp -r data "$odd"
for from in data "$odd"; do
    expect_train 0 "$from" --epochs 1 --out "$odd/$from"
    expect_train 0 --evaluate data --init "$odd/$from/best.safetensors" --out "$odd/of-$from"
done
expect 0 amp-report "$odd/$odd" "$odd" --batches 1 --threads 2 --out "$odd/amp" -o said
grep -q ' of odd?? in fp32 ' said || fail "amp-report: $(<said)"
cmp "$odd"/{data,"$odd"}/best.safetensors || fail "the name of the data set's folder changes the weights"

# More compute threads than cores are one warning, and are recorded.
! grep -q '"oversubscribed"' run/run.json || fail "2 threads are recorded as too many"
cores=$(nproc)
expect_train 0 --dummy --dummy-train 8 --classes 3 --training-only --steps 1 --devices cpu:3 --threads "$cores" --out crowded \
    --prometheus crowded.prom --run-name nightly
grep -qE "^ampscale: warning: steps are slower with $((3 * cores)) threads on [0-9.]+ .*; give .*fewer devices" err || fail "too many threads: $(<err)"
grep -q '"oversubscribed": true' crowded/run.json || fail "too many threads: $(<crowded/run.json)"

# An emulated precision says so at the begin and at the end, and in the view.
emulated='emulated in fp32'
expect_train 0 --dummy --dummy-train 8 --classes 3 --training-only --steps 1 --devices ref --precision bf16 --out runs/emulated --prometheus emulated.prom
[[ $(grep -c "bf16.* $emulated" out) == 2 ]] || fail "an emulated precision: $(<out)"
! grep -q "$emulated" log || fail "fp32 is said to be emulated"
expect 0 watch --once runs/emulated
grep -q 'resnet8, bf16 (emulated), nd' out || fail "watch does not say that the precision is emulated: $(<out)"

# Runs of the same name in two folders have labels of their own.
grep -q '{run="runs/emulated"}' emulated.prom || fail "the label is not the folder: $(<emulated.prom)"
grep -q '{run="nightly"}' crowded.prom || fail "the label is not the run's name: $(<crowded.prom)"

# The log line of pytorch/examples, which tools read, followed by the throughput.
real='[ 0-9]+\.[0-9]+' tab=$'\t'
loss='[0-9]\.[0-9]{4}e[+-][0-9]{2}'
line="\[ *[0-9]+/[0-9]+\]${tab}Time $real \($real\)${tab}Data $real \($real\)${tab}Loss $loss \($loss\)${tab}Acc@1 $real \($real\)"
line="$line${tab}Acc@5 $real \($real\)${tab}Img/s [0-9.]+ \([0-9.]+\)"
[[ $(grep -cE "^Epoch: \[[01]\]$line\$" log) == 10 ]] || fail "not 10 training lines: $(grep ^Epoch log)"
[[ $(grep -cE "^Test: $line\$" log) == 12 ]] || fail "not 12 validation lines: $(grep ^Test log)"
[[ $(grep -cE '^ \*   Acc@1 [0-9]+\.[0-9]{3} Acc@5 [0-9]+\.[0-9]{3}$' log) == 2 ]] || fail "not 2 accuracy lines"
! grep -q $'\033' log || fail "escape sequences although the output is no terminal"
expect_train 0 data --epochs 1 -p 3 --out fewer
[[ $(grep -cE '^(Epoch|Test):' out) == 4 ]] || fail "-p 3 prints $(grep -E '^(Epoch|Test):' out)"

# On a block device, the record has the bytes that came from storage, and the share of the page cache,
# from which the data are dropped first.
sync
find data -type f -exec dd of={} oflag=nocache conv=notrunc,fdatasync count=0 status=none \;
expect_train 0 data --epochs 1 --out cold
epoch_value() {
    sed -nE "1s/.*\"$1\":([^,}]*).*/\1/p" cold/epochs.jsonl
}
if [[ -n $(epoch_value storage_bytes) ]]; then
    awk -v b="$(epoch_value storage_bytes)" -v c="$(epoch_value cached_percent)" 'BEGIN { exit !(b > 0 && c >= 0 && c < 100) }' ||
        fail "the record says that the page cache served all bytes: $(<cold/epochs.jsonl)"
    grep -qE '"storage_bytes_per_s": [0-9.]+' cold/summary.json || fail "the summary lacks the rate of storage"
else
    echo "the data is not on a block device of this host, so the record has no bytes from storage"
fi

# Evaluation of the best weights gives the accuracy of the epoch that saved them. It records no steps,
# writes no weights, and adds a subfolder to the run that it is given.
want=$(awk '/^ \*/ && $3 >= best { best = $3; line = $0 } END { print line }' log)
expect_train 0 data --evaluate --init run/best.safetensors --out evaluated
[[ $(grep '^ \*' out) == "$want" ]] || fail "--evaluate: '$(tail -n 1 out)', not '$want'"
[[ ! -s evaluated/steps.jsonl && -z $(find evaluated -name '*.safetensors') ]] || fail "the evaluation trained: $(ls evaluated)"
cp -r run again
expect_train 0 data --evaluate --resume again/best.safetensors --out again
[[ $(diff -r run again) == "Only in again: evaluation-001" ]] || fail "evaluation changed its run: $(diff -r run again)"
for command in "report --no-figures evaluated -o report.md" "export evaluated --format csv -o csv" "watch --once evaluated"; do
    read -ra words <<<"$command"
    expect 0 "${words[@]}"
done

# ended WANT DIR EPOCHS STEPS: checks how and when the run ended.
ended() {
    local got
    got=$(sed -nE 's/^  "(ended_by|epochs|steps)": "?([^",]*)"?,?$/\1 \2/p' "$2/summary.json" | sort | xargs)
    [[ $got == "ended_by $1 epochs $3 steps $4" ]] || fail "$2: '$got', not ended_by $1, $3 epochs and $4 steps"
}
ended epochs run 2 10
ended evaluation evaluated 0 0
expect_train 0 data --epochs 9 --steps 7 --out steps
ended steps steps 1 7
expect_train 0 data --epochs 2 --steps 11 --out steps --resume auto
ended epochs steps 2 10
same_run "resumed past --steps" run steps
# The target is 1 %, as a fraction. The first epoch reaches it.
expect_train 0 data --epochs 9 --desired-acc 0.01 --out desired
ended "desired accuracy" desired 1 5
grep -qE '"time_to_accuracy": \{ *"top1": 1.0, *"epoch": 0, *"seconds": [0-9.]+' < <(tr -d '\n' <desired/summary.json) ||
    fail "the summary has no time to accuracy: $(<desired/summary.json)"
for how in " 3" "--drop-last 2"; do
    expect_train 0 --dummy --dummy-train 20 --dummy-val 4 --classes 3 --epochs 1 ${how% *} --out "dummy-${how#* }"
    ended epochs "dummy-${how#* }" 1 "${how#* }"
done

# Without --out, runs take folders of their own, also those that start at the same time.
mkdir together && cd together || exit 1
for i in 1 2 3; do "$program" train "${net[@]}" ../data --steps 1 & done >log 2>&1
wait
for i in 1 2 3; do
    [[ -s runs/resnet8-00$i/summary.json ]] || fail "runs together: $(<log)"
done
finish
