#!/usr/bin/env bash
# selftest --operations: results, injected faults, and sanitizers, on the CPU, the reference and the
# fake GPU.
. "$(dirname "$0")/common.sh" "$@"
export OMP_WAIT_POLICY=passive
cd "$scratch" || exit 1
operations=(selftest --operations --jobs 2)
few=("${operations[@]}" --only relu_fwd --every 5)

# field NAME: prints the number or text of the first member NAME in the JSON output.
field() {
    sed -nE "0,/^ \"$1\": /s/^ \"$1\": \"?([^\",]*)\"?,?\$/\1/p" out
}

# says TEXT: checks that standard output contains the text.
says() {
    grep -qF -- "$1" out || fail "the output does not say '$1': $(cat out)"
}

# counts WHAT NAME=NUMBER...: checks members of the JSON output.
counts() {
    local pair
    for pair in "${@:2}"; do
        [[ $(field "${pair%=*}") == "${pair#*=}" ]] || fail "$1: '${pair%=*}' is not ${pair#*=}: $(cat out)"
    done
}

# list ARGS...: prints the cases, one a line.
list() {
    expect 0 "${operations[@]}" --list "$@"
    cat out
}

# --list prints as many cases as a run compares. The number of a case is the same in the list and in
# a run. The three parts together have all cases.
cases=$(list "${few[@]:4}" | wc -l)
number=$(list "${few[@]:4}" | awk 'NR == 2 { print $1 }')
for device in cpu ref; do
    expect 0 "${few[@]}" --devices "$device" --json
    counts $device record=operations "cases=$cases" failed=0
    passed=$(field passed)
    ((cases > 1 && passed >= cases)) || fail "$device: only $passed of $cases cases passed"
done
total=$(for share in 0 1 2; do list --only relu_ --without relu_bwd --every 3 --share $share; done | wc -l)
((total == $(list --only relu_fwd | wc -l))) || fail "the three parts together have $total cases, which is not the number of cases in the list"

# A wrong result, a crash or a hang is reported with its case, and the other kinds of operations are
# still tested. The command that is printed for a wrong result reproduces it.
kinds=(--without conv --without linear --without bn --without pool --every 40)
bad=$(list "${kinds[@]}" --only relu_ | awk 'NR == 1 { print $1 }')
expect 4 "${operations[@]}" "${kinds[@]}" --inject wrong="$bad"
says '1 failed'
command=$(sed -nE 's/^ +ampscale (selftest .* --case [0-9]+)$/\1/p' out)
[[ $command == *" --case $bad" ]] || fail "the output has no command that repeats the failed case: $(cat out)"
# shellcheck disable=SC2086 # the value is several words
expect 0 $command
# shellcheck disable=SC2086
expect 4 $command --inject wrong="$bad" --json
counts "the command of a failed case" cases=1 failed=1
grep -q '"reason": ".* elements are wrong' out && grep -q "\"case\": $bad" out || fail "no reason or case: $(cat out)"
expect 1 "${operations[@]}" "${kinds[@]}" --verbose --inject crash="$bad"
says 'ended by a signal: Killed, at relu_'
[[ $(grep -c ' completed$' out) -ge 3 ]] || fail "after a crash, other kinds of operations were not tested: $(cat out)"
# A new process runs the cases after the crash: one case more has no result.
expect 0 selftest --operations --case "$number" --json
crashed=$(field passed)
expect 0 "${few[@]}" --json
passed=$(field passed)
expect 1 "${few[@]}" --inject crash="$number" --json
counts "a crash" "passed=$((passed - crashed))" crashed=1
expect 5 "${few[@]}" --limit 10 --inject hang="$number" --json
counts "a hang" late=1 crashed=0

# A signal ends all processes. The results before the signal are printed, and no folder remains.
"$program" "${few[@]}" --inject hang="$number" --json >out 2>err &
job=$!
hangs() { grep -qs "^at *$number " "$TMPDIR"/ampscale-operations.*/*.log; }
await 60 hangs
kill -TERM $job
code=0
wait $job || code=$?
((code == 143)) && grep -q 'stopped by a signal' err || fail "after a signal, the exit code is $code: $(cat err)"
counts "after a signal" record=operations
[[ -z $(ls "$TMPDIR") ]] || fail "after a signal, TMPDIR is not empty: $(ls "$TMPDIR")"

# On a full disk, no process can report its results: this is no crash, and the reason is the disk's.
mkdir disk
code=0
# shellcheck disable=SC2016
unshare --map-root-user --mount bash -c '
    mount -t tmpfs -o size=8k none disk && head -c 8k /dev/zero >disk/filled || exit 99
    TMPDIR=$PWD/disk exec "$@"' bash "$program" "${few[@]}" >out 2>err </dev/null || code=$?
if ((code == 99)) || grep -q '^unshare:' err; then
    echo "a full disk was not tested, because this user may not mount a disk"
else
    ((code == 5)) || fail "on a full disk, the exit code is $code: $(cat err)"
    says "cannot write '$scratch/disk/ampscale-operations."
    says 'No space left on device'
    ! grep -q 'crashed: [1-9]' out err || fail "a full disk counts as a crash: $(cat out err)"
fi

# Usage errors, and a missing device.
expect_error 2 'needs --operations was given without it' selftest --only relu
expect_error 2 'leave out --oracle, --quick, --determinism and --repeats' selftest --operations --quick
expect_error 2 '--repeats needs --determinism' selftest --repeats 3
expect_error 2 'exclude each other' selftest --determinism --oracle none.json
expect_error 2 'no case is selected' "${operations[@]}" --case 1000000
expect_error 2 "--sanitizer 'leaks'" "${operations[@]}" --sanitizer leaks
expect_error 2 "no kernels for 'mmx'" "${operations[@]}" --isa mmx
expect_error 2 "--isa is only for the device 'cpu'" "${operations[@]}" --isa generic --devices ref
expect_error 5 "'cpu' is not a GPU" "${operations[@]}" --sanitizer memcheck
AMPSCALE_CUDA_MODULE=$scratch/none expect_error 5 "$scratch/none" "${operations[@]}" --devices cuda:0
# Lack of memory says nothing about the device.
said=
for n in {800..2000..100}; do
    sanitized && break
    LD_PRELOAD=$build_dir/tests/interpose/libinterpose.so AMPSCALE_INTERPOSE=malloc:ENOMEM:$n- \
        run "${operations[@]}" --every 400 --devices ref
    ((code < 2)) || fail "no memory from allocation $n on: exit code $code: $(cat out err)"
    said+=$(cat err)
done
sanitized || [[ $said == *"operations: no memory for"* ]] || fail "no case lacked memory"

fake_gpu || finish
# If a kernel breaks the device, the process that launched it stops at the case of that kernel, and
# a new process runs the cases behind it. Here every process breaks its device at one kernel, so the
# rest is untested after some cases.
relu=("${operations[@]}" --devices cuda:0 --only relu_fwd)
cases=$(list --devices cuda:0 --only relu_fwd | wc -l)
AMPSCALE_FAKE_FAIL=cudaLaunchKernel:12:sticky expect 4 "${relu[@]}" --json
counts "a device that breaks in each process" failed=5 "cases=$cases"
(($(field passed) > 20)) || fail "after the device broke, no case was tested: $(cat out)"
says 'the device does not work after this error'
# An error that does not break the device ends the process only if it is repeated.
AMPSCALE_FAKE_FAIL=cudaLaunchKernel:3 expect 4 "${relu[@]}" --every 10 --json
counts "a single error" failed=1 crashed=0

# The device supports a kind of operation, but none of the selected cases of that kind can run. That
# kind does not pass.
expect 5 "${operations[@]}" --verbose --devices cuda:0 --only nChw8c --without conv --without bn_bwd --every 2
grep -qE '^  bn_fwd_train +0 passed +[0-9]+ skipped .* no case could run$' out || fail "an untested kind of operation has passed: $(cat out)"
grep -qE '^  relu_fwd +[1-9].* completed$' out || fail "a tested kind of operation has not passed: $(cat out)"

# A fake compute-sanitizer, which reports an error in one kind of operation, or reports that it does
# not support the device.
mkdir tools
PATH=$scratch/tools:$PATH
cat >tools/compute-sanitizer <<'TOOL'
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
    echo "========= Error: Race reported between Write access at kernel+0x100"
    echo "========= Warning: Race reported between Read access at kernel+0x110"
    echo "========= ERROR SUMMARY: 1 error"
    exit 9
    ;;
esac
"$@" || exit
echo "========= ERROR SUMMARY: 0 errors"
TOOL
chmod +x tools/compute-sanitizer
checked=("${operations[@]}" --devices cuda:0 --only relu_ --every 10 --json)
FINDING=none expect 0 "${checked[@]}" --sanitizer memcheck
counts memcheck record=sanitizer tool=memcheck findings=0
FINDING=racecheck expect 4 "${checked[@]}" --sanitizer racecheck
counts racecheck findings=2 'first=Invalid __global__ write of size 4 bytes'
says '--sanitizer racecheck --case '
FINDING=unsupported expect 5 "${checked[@]}" --sanitizer synccheck
grep -q 'does not support' err || fail "not supported: $(cat err)"
FINDING=broken expect 1 "${checked[@]}" --sanitizer synccheck
says 'No attachable process found'
rm tools/compute-sanitizer
[[ -x /usr/local/cuda/bin/compute-sanitizer ]] ||
    PATH=/usr/bin:/bin expect_error 5 'is not installed' "${checked[@]}" --sanitizer memcheck
finish
