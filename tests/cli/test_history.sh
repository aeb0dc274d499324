#!/usr/bin/env bash
# A history of results: recorded runs, and comparison with a rolling base.
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

finish
