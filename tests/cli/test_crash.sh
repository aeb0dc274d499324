#!/usr/bin/env bash
# If the program crashes, the last lines on stderr name the signal and the calls, and the process
# ends by that signal.
. "$(dirname "$0")/common.sh" "$@"
export OMP_WAIT_POLICY=passive
if sanitized; then
    skip "sanitizers report crashes themselves"
fi
ulimit -c 0

# A worker of `selftest --operations` can be made to hang at a case, where a signal is sent to it.
number=$("$program" selftest --operations --list --only relu_fwd | awk 'NR == 1 { print $1 }')
for signal in SEGV BUS FPE ILL ABRT; do
    mkdir "$scratch/$signal"
    "$program" selftest --operations --worker "$scratch/$signal" --case "$number" --inject hang="$number" >"$scratch/out" 2>"$scratch/err" </dev/null &
    until grep -q "^at *$number " "$scratch/out" && grep -q '^State:.S' "/proc/$!/status"; do # it has computed the case
        kill -0 $! 2>/dev/null || break
        sleep 0.1
    done
    kill -"$signal" $!
    code=0
    wait $! 2>/dev/null || code=$?
    ((code == 128 + $(kill -l "$signal"))) || fail "after SIG$signal the exit code is $code"
    [[ $(head -n 1 "$scratch/err") == "ampscale: crashed by SIG$signal; the calls, innermost first:" ]] || fail "SIG$signal: $(<"$scratch/err")"
    grep -q '^ampscale(.*+0x' "$scratch/err" || fail "SIG$signal: no calls of the program: $(<"$scratch/err")"
done
grep -q '(worker_run+0x' "$scratch/err" || fail "the calls have no names: $(<"$scratch/err")"
finish
