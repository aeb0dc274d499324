#!/bin/sh
# The program of the suites in test_suite.c. It lists its calls in the file "calls" of its folder, and
# behaves differently for each kind of check.
dir=${0%/*}
echo "$1 $2" >>"$dir/calls"
turns='{"rows": [{"precision": "amp", "batch": 2, "who": "ampscale", "images_per_s": {"median": 9}}]}'
case "$1 $2" in
'info --json') echo '{"devices": [{"device": "cpu", "usable": true, "description": "made up"},
    {"device": "cuda:0", "usable": true, "description": "a"},
    {"device": "cuda:1", "usable": true, "description": "b"}]}' ;;
'bench memory') # the file "stop" has the number of the call that interrupts the suite
    n=$(grep -c 'bench memory' "$dir/calls")
    # and "calm" that of the first call without other work, whose counters are in "busy"
    [ "$n" -ge "$(cat "$dir/calm" 2>/dev/null || echo 0)" ] || sed "s/N/$n/g" "$dir/busy" >"$dir/proc/stat"
    [ "$n" != "$(cat "$dir/stop" 2>/dev/null)" ] || { kill -TERM $PPID && sleep 60; }
    echo "{\"rows\": [{\"kernel\": \"copy\", \"median_gb_per_s\": $n, \"wrong\": 0}]}" ;;
'bench peak') kill -SEGV $$ ;;
'bench conv') exec sleep 60 ;;
'bench input') # prints half of its rows when it gets SIGTERM
    trap 'echo "{\"rows\": [{\"stage\": \"read\", \"from\": \"memory\", \"threads\": 1, \"images_per_s\": 7}]}"; exit 5' TERM
    n=0
    while [ $n -lt 600 ]; do sleep 0.1 && n=$((n + 1)); done ;;
'bench gemm') echo 'no JSON' ;;
'bench collective') echo 'ampscale: no such network' >&2 && exit 5 ;;
'bench throughput') # writes the record of a finished turn, then ends as the file "end" says
    echo "$*" >"$dir/args"
    while [ $# -gt 1 ]; do [ "$1" != --out ] || work=$2 && shift; done
    mkdir -p "$work" && echo "$turns" >"$work/throughput.json"
    eval "$(cat "$dir/end")" ;;
'selftest --json') echo '{"cases": [{"ok": true}, {"ok": false}]}' && echo 'ampscale: it does not hold' >&2 && exit 4 ;;
'selftest --determinism') # each device waits until both have started; then device 1 dies
    while [ "$1" != --devices ]; do shift; done
    device=$2 n=0
    echo >"$dir/at $device"
    until [ -e "$dir/at cuda:0" ] && [ -e "$dir/at cuda:1" ]; do
        n=$((n + 1)) && [ $n -lt 200 ] || exit 5
        sleep 0.05
    done
    [ "$device" = cuda:0 ] || kill -KILL $$
    echo '{"cases": [{"ok": true}]}' ;;
'bench step') # device 1 interrupts the suite
    for device; do :; done
    [ "$device" = cuda:0 ] || kill -TERM $PPID
    exec sleep 60 ;;
*) exit 1 ;;
esac
