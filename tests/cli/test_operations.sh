#!/usr/bin/env bash
# selftest --operations: results, injected faults, and sanitizers, on the CPU, the reference and the
# fake GPU.
. "$(dirname "$0")/common.sh" "$@"
export OMP_WAIT_POLICY=passive
operations=(selftest --operations --jobs 2)

# field NAME: prints the number or text of the first member NAME in the JSON output.
field() {
    sed -nE "0,/^ \"$1\": /s/^ \"$1\": \"?([^\",]*)\"?,?\$/\1/p" "$scratch/out"
}

# says TEXT: checks that standard output contains the text.
says() {
    grep -qF -- "$1" "$scratch/out" || fail "the output does not say '$1': $(cat "$scratch/out")"
}

# --list prints as many cases as a run compares. The number of a case is the
# same in the list and in a run.
expect 0 "${operations[@]}" --list --only relu_fwd --every 20
cases=$(wc -l <"$scratch/out")
((cases > 1)) || fail "the list has $cases cases"
number=$(awk 'NR == 2 { print $1 }' "$scratch/out")
name=$(awk 'NR == 2 { sub(/^ *[0-9]+ /, ""); print }' "$scratch/out")
for device in cpu ref; do
    expect 0 "${operations[@]}" --devices "$device" --only relu_fwd --every 20 --json
    [[ $(field record) == operations && $(field cases) == "$cases" && $(field failed) == 0 ]] ||
        fail "$device: $(cat "$scratch/out")"
    (($(field passed) >= cases)) || fail "$device: only $(field passed) of $cases cases passed"
done
expect 0 "${operations[@]}" --only relu_fwd --every 20
[[ $(wc -l <"$scratch/out") == 1 ]] || fail "the output has more than the line of the summary: $(cat "$scratch/out")"
expect 0 "${operations[@]}" --only relu_fwd --every 20 --verbose
says "1 kinds of operations, $cases cases: "
says ' completed'

# The three parts together have all cases of the list.
total=0
for share in 0 1 2; do
    expect 0 "${operations[@]}" --list --only relu_ --without relu_bwd --every 3 --share "$share"
    total=$((total + $(wc -l <"$scratch/out")))
done
expect 0 "${operations[@]}" --list --only relu_fwd
((total == $(wc -l <"$scratch/out"))) || fail "the three parts together have $total cases, which is not the number of cases in the list"

# A wrong result, a crash or a hang is reported with its case, and the other kinds of operations are
# still tested. The command that is printed for a wrong result reproduces it.
kinds=(--without conv --without linear --without bn --without pool --every 40)
expect 0 "${operations[@]}" --list "${kinds[@]}" --only relu_
bad=$(awk 'NR == 1 { print $1 }' "$scratch/out")
expect 4 "${operations[@]}" "${kinds[@]}" --inject wrong="$bad"
says '1 failed'
command=$(sed -nE 's/^ +ampscale (selftest .* --case [0-9]+)$/\1/p' "$scratch/out")
[[ $command == *" --case $bad" ]] || fail "the output has no command that repeats the failed case: $(cat "$scratch/out")"
# shellcheck disable=SC2086 # the value is several words
expect 0 $command
# shellcheck disable=SC2086
expect 4 $command --inject wrong="$bad" --json
[[ $(field cases) == 1 && $(field failed) == 1 ]] || fail "the command does not run exactly the failed case: $(cat "$scratch/out")"
grep -q '"reason": ".* elements are wrong' "$scratch/out" || fail "no reason: $(cat "$scratch/out")"
grep -q "\"case\": $bad" "$scratch/out" || fail "no case: $(cat "$scratch/out")"
expect 1 "${operations[@]}" "${kinds[@]}" --verbose --inject crash="$bad"
says 'ended by a signal: Killed, at relu_'
[[ $(grep -c ' completed$' "$scratch/out") -ge 3 ]] || fail "after a crash, other kinds of operations were not tested: $(cat "$scratch/out")"
# A new process runs the cases after the crash: one case more has no result.
expect 0 "${operations[@]}" --only relu_fwd --every 20 --json
passed=$(field passed)
expect 0 selftest --operations --case "$number" --json
crashed=$(field passed)
expect 1 "${operations[@]}" --only relu_fwd --every 20 --inject crash="$number" --json
[[ $(field passed) == $((passed - crashed)) && $(field crashed) == 1 ]] || fail "after a crash, cases are untested: $(cat "$scratch/out")"
expect 5 "${operations[@]}" --only relu_fwd --every 20 --limit 10 --inject hang="$number" --json
[[ $(field late) == 1 && $(field crashed) == 0 ]] || fail "a hang: $(cat "$scratch/out")"
grep -qF "at $name\"" "$scratch/out" || fail "the message does not name the case that hangs: $(cat "$scratch/out")"

# Convolutions start last, so that one which never ends does not keep other kinds from being tested.
few=(--only _fwd --without bn_ --without pool --without linear --without dropout --every 40)
expect 0 "${operations[@]}" --list "${few[@]}"
conv=$(awk '$2 == "conv_fwd" { print $1; exit }' "$scratch/out")
expect 5 selftest --operations --jobs 1 "${few[@]}" --limit 5 --inject hang="$conv" --verbose
grep -qE '^  relu_fwd +[1-9].* completed$' "$scratch/out" || fail "a convolution that hangs keeps other kinds from being tested: $(cat "$scratch/out")"

# A signal ends all processes. The results before the signal are printed, and no folder remains.
"$program" "${operations[@]}" --only relu_ --every 20 --inject hang="$number" --json >"$scratch/out" 2>"$scratch/err" &
until grep -qs "^at *$number " "$TMPDIR"/ampscale-operations-*/*.log; do
    kill -0 $! 2>/dev/null || break
    sleep 0.1
done
kill -TERM $!
code=0
wait $! || code=$?
((code == 143)) || fail "after a signal, the exit code is $code: $(cat "$scratch/err")"
[[ $(field record) == operations ]] || fail "there is no record after a signal: $(cat "$scratch/out")"
grep -q 'stopped by a signal' "$scratch/err" || fail "a signal: $(cat "$scratch/err")"
[[ -z $(ls "$TMPDIR") ]] || fail "after a signal, TMPDIR is not empty: $(ls "$TMPDIR")"

# Usage errors, and a missing device.
expect_error 2 'needs --operations was given without it' selftest --only relu
expect_error 2 'leave out --oracle' selftest --operations --quick
expect_error 2 "--every 3 divides the cases into parts 0 to 2" "${operations[@]}" --every 3 --share 3
expect_error 2 'no case is selected' "${operations[@]}" --case 1000000
expect_error 2 "--sanitizer 'leaks'" "${operations[@]}" --sanitizer leaks
expect_error 2 "no kernels for 'mmx'" "${operations[@]}" --isa mmx
expect_error 2 "--isa is only for the device 'cpu'" "${operations[@]}" --isa generic --devices ref
expect_error 5 "'cpu' is not a GPU" "${operations[@]}" --sanitizer memcheck
AMPSCALE_CUDA_MODULE=$scratch/none expect_error 5 "$scratch/none" "${operations[@]}" --devices cuda:0
expect 5 "${operations[@]}" --only conv_stats_fwd -q
says ' 0 passed, '

fake_gpu || finish
expect 0 "${operations[@]}" --devices cuda:0 --only bn_apply --every 3 --json
(($(field passed) > 0)) || fail "no case passed on the fake GPU: $(cat "$scratch/out")"

# A NaN in a row without a label leaves the loss of all other rows to be compared.
expect 0 "${operations[@]}" --devices cuda:0 --only 'mixed +PARTNER nan' --json
(($(field passed) > 0)) || fail "no case with a NaN passed on the fake GPU: $(cat "$scratch/out")"

# If a kernel breaks the device, the process that launched it stops at the case of that kernel, and
# a new process runs the cases behind it. Here every process breaks its device at one kernel, so the
# rest is untested after some cases.
relu=("${operations[@]}" --devices cuda:0 --only relu_fwd)
expect 0 "${relu[@]}" --json
cases=$(field cases)
AMPSCALE_FAKE_FAIL=cudaLaunchKernel:12:sticky expect 4 "${relu[@]}" --json
[[ $(field failed) == 5 && $(field cases) == "$cases" ]] || fail "a device that breaks in each process: $(cat "$scratch/out")"
(($(field passed) > 20)) || fail "after the device broke, no case was tested: $(cat "$scratch/out")"
AMPSCALE_FAKE_FAIL=cudaLaunchKernel:12:sticky expect 4 "${relu[@]}"
says 'cannot launch the kernel'
says ': the device does not work after this error'
says 'after 5 such cases, those behind relu_fwd'
# An error that does not break the device ends the process only if it is repeated.
AMPSCALE_FAKE_FAIL=cudaLaunchKernel:3 expect 4 "${relu[@]}" --every 10 --json
[[ $(field failed) == 1 && $(field crashed) == 0 ]] || fail "a single error ended the process: $(cat "$scratch/out")"

# The device supports a kind of operation, but none of the selected cases of that kind can run. That
# kind does not pass.
expect 5 "${operations[@]}" --verbose --devices cuda:0 --only nChw8c --without conv --without bn_bwd --every 2
grep -qE '^  bn_fwd_train +0 passed +[0-9]+ skipped .* no case could run$' "$scratch/out" || fail "an untested kind of operation has passed: $(cat "$scratch/out")"
grep -qE '^  relu_fwd +[1-9].* completed$' "$scratch/out" || fail "a tested kind of operation has not passed: $(cat "$scratch/out")"

# A fake compute-sanitizer, which reports an error in one kind of operation, or reports that it does
# not support the device.
mkdir "$scratch/tools"
PATH=$scratch/tools:$PATH
cat >"$scratch/tools/compute-sanitizer" <<'TOOL'
#!/bin/sh
[ "$1 $3 $4" = "--tool --error-exitcode 9" ] || exit 3
echo "========= COMPUTE-SANITIZER"
tool=$2
while [ "${1#--}" != "$1" ]; do shift 2; done
case "$FINDING $*" in
broken*) echo "========= Error: No attachable process found" && exit 9 ;;
unsupported*) echo "========= Error: Device not supported. Please refer to the documentation." && exit 9 ;;
$tool*"--kind=relu_fwd"*)
    "$@"
    echo "========= Invalid __global__ write of size 4 bytes"
    echo "=========     at kernel+0x100"
    echo "========= Error: Race reported between Write access at kernel+0x100"
    echo "========= Warning: Race reported between Read access at kernel+0x110"
    echo "========= ERROR SUMMARY: 1 error"
    exit 9
    ;;
esac
"$@" || exit
echo "========= ERROR SUMMARY: 0 errors"
TOOL
chmod +x "$scratch/tools/compute-sanitizer"
sanitized=("${operations[@]}" --devices cuda:0 --only relu_ --every 10 --json)
FINDING=none expect 0 "${sanitized[@]}" --sanitizer memcheck
[[ $(field record) == sanitizer && $(field tool) == memcheck && $(field findings) == 0 ]] ||
    fail "memcheck: $(cat "$scratch/out")"
FINDING=racecheck expect 4 "${sanitized[@]}" --sanitizer racecheck
[[ $(field findings) == 2 && $(field first) == 'Invalid __global__ write of size 4 bytes' ]] ||
    fail "a finding: $(cat "$scratch/out")"
grep -q -- '--sanitizer racecheck --case ' "$scratch/out" || fail "the output has no command with the sanitizer's tool: $(cat "$scratch/out")"
FINDING=unsupported expect 5 "${sanitized[@]}" --sanitizer synccheck
grep -q 'does not support' "$scratch/err" || fail "not supported: $(cat "$scratch/err")"
FINDING=broken expect 1 "${sanitized[@]}" --sanitizer synccheck
grep -q 'No attachable process found' "$scratch/out" || fail "the output does not have the error of a tool that failed: $(cat "$scratch/out")"
rm "$scratch/tools/compute-sanitizer"
[[ -x /usr/local/cuda/bin/compute-sanitizer ]] ||
    PATH=/usr/bin:/bin expect_error 5 'is not installed' "${sanitized[@]}" --sanitizer memcheck
finish
