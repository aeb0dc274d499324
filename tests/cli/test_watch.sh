#!/usr/bin/env bash
# ampscale watch on a run that has ended, on a run whose records grow, and on a run that trains.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"

# wait_for TEXT FILE: waits at most half a minute until the file contains the text, else ends the
# test.
wait_for() {
    local i
    for ((i = 0; i < 300; i++)); do
        ! grep -qF -- "$1" "$2" 2>/dev/null || return 0
        sleep 0.1
    done
    fail "the text '$1' did not appear in $2: $(tail -c 2000 "$2")"
    # shellcheck disable=SC2046
    kill $(jobs -p) 2>/dev/null
    finish
}

cd "$scratch" || exit 1
synthetic=(--dummy --dummy-train 40 --dummy-val 4 --classes 3)
expect_train 0 "${synthetic[@]}" --epochs 2 --out done

expect_error 2 "nothing to watch" watch
expect_error 2 "--interval '0'" watch done --interval 0
expect_error 5 "there is no such folder" watch no/run --once
expect_error 5 "it has no run.json" watch . --once
expect 0 watch done --once --ascii
grep -q '^epoch     2/2 \[========================\] 100 %' "$scratch/out" || fail "progress: $(cat "$scratch/out")"
grep -q '^ended: epochs, after 10 steps in ' "$scratch/out" || fail "state: $(cat "$scratch/out")"
grep -q '[^ -~]' "$scratch/out" && fail "--ascii has other characters: $(cat "$scratch/out")"
grep -q '[▁▂▃▄▅▆▇█]' < <(LC_ALL=C.UTF-8 "$program" watch done --once) || fail "in a UTF-8 locale, the view has no block characters"

# The records grow in pieces, some of which end in the middle of a line.
mkdir live
# without "system", the view does not look for the process, which has ended
sed 's/"system": ".*"/"system": ""/' done/run.json >live/run.json
head -n 3 done/steps.jsonl >live/steps.jsonl
"$program" watch live --interval 0.05 --ascii >watched 2>&1 </dev/null &
watcher=$!
wait_for "epoch     1/2 [=============>          ]  60 %" watched
sed -n 4p done/steps.jsonl | head -c 50 >>live/steps.jsonl
sed -n 4p done/steps.jsonl | tail -c +51 >>live/steps.jsonl
wait_for "]  80 %" watched
tail -n +5 done/steps.jsonl >>live/steps.jsonl
cp done/epochs.jsonl done/summary.json live
wait "$watcher" || fail "watch ended with exit code $?: $(cat watched)"
grep -q '^ended: epochs' < <(tail -n 2 watched) || fail "watch did not report the end of the run: $(tail watched)"

# On a terminal, while a run trains. Ctrl-C ends watch, and the terminal is restored.
if ! command -v script >/dev/null; then
    ((failures == 0)) || finish
    echo "script (util-linux, bsdutils) is not installed"
    exit 77
fi
"$program" train "${net[@]}" "${synthetic[@]}" --epochs 100000 --out training >train.log 2>&1 </dev/null &
trainer=$!
wait_for '"schema"' training/run.json
cat >on_terminal <<END
stty rows 20 cols 70
echo \$\$ >watch.pid
exec '$program' watch training --interval 0.05
END
script -qefc 'sh on_terminal' typescript >/dev/null 2>&1 </dev/null &
terminal=$!
wait_for "images/s" typescript
wait_for "running for" typescript
kill -INT "$(cat watch.pid)"
wait "$terminal" || fail "on a terminal, watch ended with exit code $?"
kill -TERM "$trainer"
wait "$trainer"
enter=$'\033[?1049h\033[?25l' leave=$'\033[?25h\033[?1049l'
screens=$(tr -d '\r' <typescript)
[[ $screens == *"$enter"*"$leave"*"running for"* ]] || fail "the terminal was not restored: $(tail -c 1000 typescript | cat -v)"
[[ ${screens##*"$leave"} != *$'\033'* ]] || fail "watch wrote escape sequences after it left the screen"
finish
