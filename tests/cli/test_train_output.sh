#!/usr/bin/env bash
# The output and files of a run: log lines, the terminal's progress bar, evaluation, and endings.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"

data=$scratch/data
make_data "$data"
run=$scratch/run
expect_train 0 "$data" --epochs 2 --out "$run"
cp "$scratch/out" "$scratch/log"
[[ ! -s $scratch/err ]] || fail "a successful run writes to stderr: $(cat "$scratch/err")"

# The log line of pytorch/examples, followed by the throughput.
meter() {
    printf '%s' "$1 $2 \($2\)"
}
tab=$'\t'
real='[ 0-9]{2,}\.[0-9]{3}' percent='[ 0-9]{3}\.[0-9]{2}' loss='[0-9]\.[0-9]{4}e[+-][0-9]{2}'
line="\[[ 0-9]+/[0-9]+\]$tab$(meter Time "$real")$tab$(meter Data "$real")$tab$(meter Loss "$loss")"
line="$line$tab$(meter Acc@1 "$percent")$tab$(meter Acc@5 "$percent")${tab}Img/s [0-9.]+ \([0-9.]+\)"
[[ $(grep -cE "^Epoch: \[[01]\]$line\$" "$scratch/log") == 10 ]] || fail "the output does not have 10 training lines: $(grep ^Epoch "$scratch/log")"
[[ $(grep -cE "^Test: $line\$" "$scratch/log") == 12 ]] || fail "the output does not have 12 validation lines: $(grep ^Test "$scratch/log")"
[[ $(grep -cE '^ \*   Acc@1 [0-9]+\.[0-9]{3} Acc@5 [0-9]+\.[0-9]{3}$' "$scratch/log") == 2 ]] || fail "not 2 accuracy lines"
[[ $(tail -n 1 "$scratch/log") =~ ^Finished\ 10\ steps:\ [0-9.]+\ images/s\ \(median\ step\),\ [0-9.]+\ images/s\ \(wall\ clock\),\ best\ top-1\ [0-9.]+\ %,\ time\ elapsed\ [0-9.]+\ s$ ]] ||
    fail "the last line is '$(tail -n 1 "$scratch/log")'"
grep -q $'\033' "$scratch/log" && fail "the output has escape sequences although it is not a terminal"
grep -qF "Epoch: [0][1/5]" "$scratch/log" || fail "the line of the first batch does not begin with [1/5]: $(grep -m 1 ^Epoch "$scratch/log")"

# If the data is on a block device, the record has the bytes that came from storage and the share
# that came from the page cache. The pages of the data are dropped from the page cache first, so the
# run reads from storage.
sync
find "$data" -type f -exec dd of={} oflag=nocache conv=notrunc,fdatasync count=0 status=none \;
expect_train 0 "$data" --epochs 1 --out "$scratch/cold"
epoch_value() {
    sed -nE "1s/.*\"$2\":([^,}]*).*/\1/p" "$1/epochs.jsonl"
}
if [[ -n $(epoch_value "$scratch/cold" storage_bytes) ]]; then
    (($(epoch_value "$scratch/cold" storage_bytes) > 0)) || fail "the record has no bytes fetched from storage: $(cat "$scratch/cold/epochs.jsonl")"
    awk -v c="$(epoch_value "$scratch/cold" cached_percent)" 'BEGIN { exit !(c >= 0 && c < 100) }' || fail "the record says that the page cache served all bytes: $(cat "$scratch/cold/epochs.jsonl")"
    expect_train 0 "$data" --steps 3 --out "$scratch/part" # the run ends within its first epoch
    for name in cold part; do
        grep -qE '"storage_bytes_per_s": [0-9.]+' "$scratch/$name/summary.json" && grep -qE '"cached_percent": [0-9.]+' "$scratch/$name/summary.json" ||
            fail "$name: summary.json lacks the rates of storage: $(cat "$scratch/$name/summary.json")"
    done
    grep -qE '"device_bytes_per_s": [0-9.]+' "$scratch/cold/summary.json" || fail "summary.json has no rate of the storage: $(cat "$scratch/cold/summary.json")"
else
    echo "the data is not on a block device of this host, so the record has no bytes from storage"
fi

# With -p 3, only every third line is printed.
expect_train 0 "$data" --epochs 1 -p 3 --out "$scratch/fewer"
[[ $(grep -oE '^(Epoch: \[0\]|Test: )\[[0-9]+/' "$scratch/out" | grep -oE '[0-9]+/' | tr -d '\n') == 1/4/1/4/ ]] ||
    fail "-p 3 prints $(grep -oE '^(Epoch: |Test: ).{10}' "$scratch/out")"

# Evaluation of the best weights gives the accuracy of the epoch that saved them. Its record has no
# steps, and it writes no weights.
want=$(awk '/^ \*/ && $3 >= best { best = $3; line = $0 } END { print line }' "$scratch/log")
for flag in --init --resume; do
    (cd "$scratch" && mkdir -p nowhere && cd nowhere && "$program" train "${net[@]}" "$data" --evaluate "$flag" "$run/best.safetensors") \
        >"$scratch/out" 2>"$scratch/err" </dev/null || fail "--evaluate $flag: $(cat "$scratch/err")"
    [[ $(grep '^ \*' "$scratch/out") == "$want" ]] || fail "--evaluate $flag: '$(tail -n 1 "$scratch/out")', not '$want'"
done
cp -r "$run" "$scratch/again"
# with --out of the trained run, the evaluation only adds a subfolder
expect_train 0 "$data" --evaluate --resume "$scratch/again/best.safetensors" --out "$scratch/again"
diff -r "$run" "$scratch/again" >"$scratch/diff"
[[ $(cat "$scratch/diff") == "Only in $scratch/again: evaluation-001" ]] || fail "evaluation changed its run: $(cat "$scratch/diff")"
evaluated=$scratch/nowhere/runs/resnet8-002
[[ $(ls -x -w 200 "$evaluated") =~ ^epochs.jsonl\ +outcome.json\ +run.json\ +steps.jsonl\ +summary.json$ && ! -s $evaluated/steps.jsonl ]] ||
    fail "the evaluation has other files, or recorded steps: $(ls "$evaluated")"
read -r _ _ top1 _ <<<"$want"
grep -qE "\"train_loss\":null,.*\"val_images\":12,.*\"val_top1\":${top1%%0}" "$evaluated/epochs.jsonl" || fail "epochs.jsonl has no row of $want: $(cat "$evaluated/epochs.jsonl")"
grep -q '"evaluate": true' "$evaluated/run.json" || fail "run.json does not say that nothing was trained"
grep -q '"outcome": "done"' "$evaluated/outcome.json" || fail "the outcome of the evaluation is not 'done': $(cat "$evaluated/outcome.json")"
drawn=()
! command -v gnuplot >/dev/null || drawn=("plot $evaluated --format svg --out $scratch/drawn")
for command in "${drawn[@]}" "report --no-figures $evaluated -o $scratch/evaluated.md" "export $evaluated --format csv -o $scratch/csv" "watch --once $evaluated"; do
    read -ra words <<<"$command"
    expect 0 "${words[@]}"
done

# summary DIR KEY: prints a value at the top level of the summary.
summary() {
    sed -nE "s/^  \"$2\": \"?([^\",]*)\"?,?\$/\1/p" "$1/summary.json"
}

# ended WANT DIR EPOCHS STEPS: checks how and when the run ended.
ended() {
    [[ $(summary "$2" ended_by) == "$1" ]] || fail "$2 ended by '$(summary "$2" ended_by)', not '$1'"
    [[ $(summary "$2" epochs) == "$3" ]] || fail "$2 ended after $(summary "$2" epochs) epochs, not $3"
    [[ $(summary "$2" steps) == "$4" ]] || fail "$2 ended after $(summary "$2" steps) steps, not $4"
}
ended epochs "$run" 2 10
ended evaluation "$evaluated" 0 0

expect_train 0 "$data" --epochs 9 --steps 7 --out "$scratch/steps"
ended steps "$scratch/steps" 1 7
expect_train 0 "$data" --epochs 9 --steps 5 --out "$scratch/steps-epoch"
ended steps "$scratch/steps-epoch" 1 5
grep -q '^ \*' "$scratch/out" || fail "if --steps ends a run at the end of an epoch, the validation is missing"
expect_train 0 "$data" --epochs 2 --steps 11 --out "$scratch/steps" --resume auto
ended epochs "$scratch/steps" 2 10
same_run "resumed past --steps" "$run" "$scratch/steps"

# A run plans only the passes that it executes. Here validation needs more memory than training, so
# a run without validation needs less.
needs() {
    sed -nE 's/.* ([0-9.]+) MiB for the buffers of a step$/\1/p' "$scratch/out"
}
expect_train 0 "$data" --steps 1 --val-batch-size 200 --out "$scratch/short"
short=$(needs)
expect_train 0 "$data" --steps 5 --val-batch-size 200 --out "$scratch/long"
awk "BEGIN { exit !($short > 0 && 2 * $short < $(needs)) }" ||
    fail "a step needs $short MiB in a run without validation, and $(needs) MiB in a run with validation"

# The target is 1 %, given as a percentage and as a fraction. The first epoch reaches it.
for desired in 1 0.01; do
    expect_train 0 "$data" --epochs 9 --desired-acc "$desired" --out "$scratch/desired-$desired"
done
ended "desired accuracy" "$scratch/desired-0.01" 1 5
[[ $(tail -n 1 "$scratch/out") =~ ,\ time\ elapsed\ [0-9.]+\ s,\ top-1\ 1\ %\ after\ [0-9.]+\ s\ \(epoch\ 0\)$ ]] ||
    fail "the last line has no time to accuracy: '$(tail -n 1 "$scratch/out")'"
grep -qE '"time_to_accuracy": \{ *"top1": 1.0, *"epoch": 0, *"seconds": [0-9.]+' < <(tr -d '\n' <"$scratch/desired-0.01/summary.json") ||
    fail "the summary has no time to accuracy: $(cat "$scratch/desired-0.01/summary.json")"

# Training without files.
expect_train 0 --dummy --dummy-train 20 --dummy-val 4 --classes 3 --epochs 1 --out "$scratch/dummy"
ended epochs "$scratch/dummy" 1 3
grep -q '^step 2 epoch 0 batch 2 images 4 .* bytes 0 bad 0$' < <(run_values "$scratch/dummy") || fail "dummy: $(run_values "$scratch/dummy")"
expect_train 0 --dummy --dummy-train 20 --dummy-val 4 --classes 3 --epochs 1 --drop-last --out "$scratch/dropped"
ended epochs "$scratch/dropped" 1 2

# Without --out, the run uses the first unused folder in runs/.
(cd "$scratch" && "$program" train "${net[@]}" "$data" --steps 1 && "$program" train "${net[@]}" "$data" --steps 1) >"$scratch/out" 2>&1 ||
    fail "without --out: $(tail -n 1 "$scratch/out")"
[[ -s $scratch/runs/resnet8-001/summary.json && -s $scratch/runs/resnet8-002/summary.json ]] || fail "runs/ holds $(ls "$scratch/runs")"
# Runs that start at the same time choose different folders.
(
    cd "$scratch" && mkdir together && cd together || exit 1
    for i in 1 2 3; do "$program" train "${net[@]}" "$data" --steps 1 & done
    wait
) >"$scratch/out" 2>&1
for i in 1 2 3; do
    [[ -s $scratch/together/runs/resnet8-00$i/summary.json ]] || fail "runs together: $(cat "$scratch/out")"
done

# on_terminal COLUMNS: trains on a terminal of that width; its output is in $scratch/out.
on_terminal() {
    script -qec "stty cols $1; $(printf '%q ' "$program" train "${net[@]}" "$data" --epochs 1 --out "$scratch/terminal-$1")" /dev/null \
        >"$scratch/out" 2>&1 </dev/null || fail "under script: $(tail -n 3 "$scratch/out")"
}

# widest: prints the number of columns of the widest line that is redrawn in place.
widest() {
    tr '\r' '\n' <"$scratch/out" | sed -n $'s/\033\\[K$//p' | awk '{ if (length > n) n = length } END { print n + 0 }'
}

# On a terminal, a progress bar is redrawn in place. After each pass, a log line follows it.
if command -v script >/dev/null; then
    on_terminal 120
    grep -qE $'\rEpoch: \\[0\\] \\[=+>? *\\] [1-5]/5  loss [0-9.]+  acc@1 [0-9.]+  [0-9.]+ img/s  [0-9:]+ left\033\\[K' "$scratch/out" ||
        fail "there is no progress bar on a terminal: $(head -c 600 "$scratch/out" | cat -v)"
    [[ $(grep -cE "Epoch: \[0\]\[5/5\]$tab" "$scratch/out") == 1 ]] || fail "no log line follows the progress bar"
    for columns in 80 60 20; do
        on_terminal "$columns"
        (($(widest) > 8 && $(widest) < columns)) || fail "on a terminal of $columns columns the progress bar is $(widest) columns wide"
    done
else
    echo "the program 'script' is not installed, so the progress bar was not tested"
fi
finish
