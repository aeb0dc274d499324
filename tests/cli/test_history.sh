#!/usr/bin/env bash
# A history of results: recorded runs, comparison with a rolling base, and confirmation.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/made_runs.sh"

cd "$scratch" || exit 1

make_runs first 0
make_runs same 0.1
make_runs slow 10
make_runs other 0 64

# lines ACCEPTED: prints the number of lines in the history in which "accepted" is ACCEPTED.
lines() {
    grep -c "\"accepted\":$1" history/history.jsonl
}

expect_error 5 "no history in 'history': 'ampscale compare --record history RUNS' begins one" compare --history history same
expect 0 compare --record history first
[[ $(lines true) == 9 ]] || fail "not every run is recorded: $(wc history/history.jsonl)"
expect 0 compare --history history --record history same
[[ $(lines true) == 18 ]] || fail "runs that passed are not accepted"
expect 3 compare --history history --record history slow
[[ $(lines true) == 18 && $(lines false) == 9 ]] || fail "runs that did not pass are accepted"

# The base contains only accepted results, and with --last only the newest of them.
expect 3 compare --history history slow
grep -q '18 and 9 runs' out || fail "the base does not have all accepted runs: $(cat out)"
expect 3 compare --history history --last 7 slow
grep -q '7 and 9 runs' out || fail "the base does not have the last 7 accepted runs: $(cat out)"
expect 5 compare --history history other
grep -q "none of 27 runs in 'history' was accepted and has the same configuration" out || fail "runs of another configuration are used as the base: $(cat out)"

# If NEW is worse than BASE, its runs are recorded as not accepted.
expect 3 compare --record both first slow
[[ $(grep -c '"accepted":false' both/history.jsonl) == 9 ]] || fail "a regression is accepted"


# A pipeline can use the same command line for its first run, which has no history, and for later
# runs.
expect 0 compare --history begun --record begun first
grep -q "'begun' had no history yet: these runs are its first" out || fail "the output does not say that these runs begin the history: $(cat out)"
expect 3 compare --history begun --record begun slow
[[ $(grep -c '"accepted":true' begun/history.jsonl) == 9 && $(grep -c '"accepted":false' begun/history.jsonl) == 9 ]] ||
    fail "the first runs are not recorded as accepted: $(wc begun/history.jsonl)"

# A run counts once, however often it is recorded.
cp -r same timed
for i in timed/r*; do
    sed -i "s/{\"schema\": 1,/&\"started_s\": 170000000${i##*/r}.5,/" "$i/run.json"
done
for turn in 1 2; do
    expect 0 compare --history begun --record begun timed
    [[ $(wc -l <begun/history.jsonl) == 27 ]] || fail "turn $turn: the history has $(wc -l <begun/history.jsonl) lines"
    grep -q ', 9 and 9 runs$' out || fail "turn $turn: new runs are compared with themselves: $(cat out)"
done

expect_error 2 "give new runs only" compare --history history first -- same
expect_error 2 "no new runs" compare --history history
expect_error 2 "--last '4'" compare --last 4 --history history same
rm first/r3/summary.json
expect_error 5 "nothing is recorded" compare --record history first
[[ $(wc -l <history/history.jsonl) == 27 ]] || fail "an unfinished run is recorded"

# The next `compare --record` removes an incomplete last line of the history. Other damage is an
# error that names the line.
printf '{"record": "hist' >>history/history.jsonl
expect 3 compare --history history slow
expect 0 compare --record history same
[[ $(wc -l <history/history.jsonl) == 36 ]] || fail "the incomplete last line was not removed"
for damage in '' '[]' '{}' '{"record":"history","schema":1,"added_s":1e999}'; do
    cp -r history damaged
    sed -i "2s/.*/$damage/" damaged/history.jsonl
    expect_error 5 "line 2: not an entry of a history" compare --history damaged same
    expect_error 5 "line 2: not an entry of a history" compare --record damaged same
    rm -r damaged
done
for change in 's/"accepted":true/"accepted":1/' 's/"steps":20/"steps":-1/' 's/"fingerprint":{/&"x":{"a":1},/' \
    's/"images_per_s":[0-9.]*/"images_per_s":"fast"/' 's/"schema":1/"schema":2/' 's/"metrics":{/"metrics":5,"more":{/'; do
    cp -r history damaged
    sed -i "2$change" damaged/history.jsonl
    cmp -s history/history.jsonl damaged/history.jsonl && fail "'$change' changes nothing"
    expect_error 5 "line 2: not an entry of a history" compare --history damaged same
    rm -r damaged
done

# An apparent regression is measured again. The command for the measurement is a script that copies
# existing runs. To make the regression real, the script copies slow runs as the new side.
make_runs first 0
cat >again <<'SH'
#!/bin/sh
# again PICK SIDE OUT NAME: copies a run to OUT, from PICK if SIDE is "new", else from "first".
[ "$2" = new ] && from=$1 || from=first
mkdir -p "$(dirname "$3")"
cp -r "$from/r$(basename "$3" | sed 's/r0*//')" "$3"
echo "$2 $4" >>calls
SH
chmod +x again
expect 3 compare --confirm './again slow {side} {out} {name}' --confirm-out c1 first slow
[[ $(grep -c '^base resnet18$' calls) == 9 && $(grep -c '^new resnet18$' calls) == 9 ]] || fail "the number of repeated runs is not 9 for each side: $(cat calls)"
[[ $(head -n 2 calls) == $'base resnet18\nnew resnet18' && $(sed -n 3,4p calls) == $'new resnet18\nbase resnet18' ]] || fail "the sides do not take turns: $(head calls)"
grep -q '^With the repeated measurements, REGRESSION: 1 regression' out || fail "a real regression was not confirmed: $(cat out)"
expect 0 compare --confirm './again same {side} {out} {name}' --confirm-out c2 --junit c2.xml --json -o c2.json first slow
grep -q '^With the repeated measurements, passed: 0 regressions, 1 not confirmed' err || fail "a false alarm was confirmed: $(cat err)"
grep -q 'failures="0"' c2.xml || fail "an unconfirmed regression is a failure in JUnit: $(cat c2.xml)"
grep -q '"unconfirmed": 1' c2.json || fail "the record does not name the unconfirmed regression"
rm calls

# If the command has no {side}, only the new side is measured again. It is compared with the
# existing runs of the base, or with the history.
expect 3 compare --confirm './again slow new {out} {name}' --confirm-out c3 first slow
[[ $(sort calls | uniq -c | xargs) == '9 new resnet18' ]] || fail "not exactly the nine runs of the new side are run again: $(cat calls)"
expect 0 compare --confirm './again same new {out} {name}' --confirm-out c4 --history history slow
cp -r begun mixed
make_runs late 10
for i in late/r*; do
    sed -i "s/{\"schema\": 1,/&\"started_s\": 180000000${i##*/r}.5,/" "$i/run.json"
done
expect 0 compare --record mixed late
expect 3 compare --confirm './again slow new {out} {name}' --confirm-out c10 --history mixed --last 9 late
[[ $(grep -c ', 9 and 9 runs$' out) == 2 && $(grep -c 'REGRESSION$' out) == 2 ]] ||
    fail "the suspicious runs are in the base of the repeated comparison: $(cat out)"
expect 0 compare --confirm './again same new {out} {name}' --confirm-out c5 first same
[[ ! -e c5 ]] || fail "runs that passed are measured again"

# If the repeated runs cannot be compared with the base, the regression stays a regression. Here the
# repeated runs end for another reason than the base, so their top-1 is not compared.
# validated DIR TOP1 BY: gives each run of DIR a validation, and BY as the reason of its end.
validated() {
    local i column columns=(lr train_images train_loss train_top1 train_top5 val_images val_loss val_top1
        val_top5 best_top1 images_per_s images_per_s_p5 images_per_s_p95 images_per_s_wall train_s val_s
        checkpoint_s bytes_per_s files_per_s decode_ms elapsed)
    for i in "$1"/r*; do
        printf '{"epoch": 0, "steps": 20, "bad_images": 0' >"$i/epochs.jsonl"
        for column in "${columns[@]}"; do
            printf ', "%s": %d' "$column" "$2"
        done >>"$i/epochs.jsonl"
        echo '}' >>"$i/epochs.jsonl"
        printf '{"schema": 1, "ended_by": "%s"}' "$3" >"$i/summary.json"
    done
}
cp -r first seen && validated seen 75 steps
cp -r slow unseen && validated unseen 60 steps
cp -r unseen otherwise && validated otherwise 60 'desired accuracy'
expect 3 compare --confirm './again otherwise new {out} {name}' --confirm-out c11 seen unseen
grep -q '^With the repeated measurements, REGRESSION: 2 regressions, 0 not confirmed' out ||
    fail "a regression that could not be measured again was dropped: $(cat out)"

expect 2 compare --confirm './again slow' --confirm-out c6 first slow
grep -q 'must contain {out}' err || fail "a command without {out} is run: $(cat err)"
expect 2 compare --confirm './again same {side} {out}' --confirm-out c1 first slow
expect 5 compare --confirm 'false {out}' --confirm-out c7 first slow
grep -q "'false' exited with 1" err || fail "a failed run of the command is not an error: $(cat err)"
expect 1 compare --confirm './no-such-program {out}' --confirm-out c8 first slow
expect 5 compare --confirm 'true {out}' --confirm-out c9 first slow
finish
