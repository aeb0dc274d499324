#!/usr/bin/env bash
# scripts/gpu-check: on a machine without a GPU it says in one line what is missing. On a CPU its
# three passes run, and each adds to the records of the earlier passes. The script can make a pack.
. "$(dirname "$0")/common.sh" "$@"
export OMP_WAIT_POLICY=passive
unset OUT AMPSCALE_CUDA_MODULE
export AMPSCALE_PEERS=/none # torchvision lacks the small network of these checks
lines=$(grep -cvE '^ *(#|$)' "$source_dir/scripts/gpu-check")
((lines <= 130)) || fail "gpu-check has $lines lines of code: move some of its work into the program"

# check CODE ARGS...: runs the script and checks its exit code.
check() {
    local want=$1
    shift
    code=0
    "$source_dir/scripts/gpu-check" --quick --build "$build_dir" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
    ((code == want)) || fail "gpu-check $* exited with $code, not $want: $(cat "$scratch/out" "$scratch/err")"
}

# verdicts VERDICT NAMES...: checks that the output has VERDICT for each named check.
verdicts() {
    local name
    for name in "${@:2}"; do
        grep -qE "^$1 +$name(,|:|$)" "$scratch/out" || fail "'$name' is not $1: $(<"$scratch/out")"
    done
}

# No machine has the GPU cuda:63. One line names everything that is missing.
check 5 --device cuda:63 --pass 1
[[ $(cat "$scratch/out" "$scratch/err" | wc -l) == 1 ]] || fail "the output is not one line: $(cat "$scratch/out" "$scratch/err")"
grep -q "^scripts/gpu-check: no device 'cuda:63': " "$scratch/err" || fail "the line does not say that the device is missing: $(<"$scratch/err")"

# The device is the CPU. OUT gets only a few files, and the next pass reads the records from OUT.
export OUT=$scratch/pass1
check 0 --device cpu --pass 1
verdicts PASS facts operations selftest accuracy fusion
grep -q '^SKIP *not selected: peak, .*, memcheck' "$scratch/out" || fail "the checks 'peak' and 'memcheck' were selected: $(<"$scratch/out")"
OUT=$scratch/pass2 check 0 --device cpu --pass 2 --from "$scratch/pass1/records.tar.gz"
verdicts PASS facts operations peak throughput fusion files
OUT=$scratch/pass3 check 5 --device cpu --pass 3 --from "$scratch/pass2/records.tar.gz"
verdicts PASS facts peak throughput step-amp step-bf16 step-tf32 step-fp32
verdicts MISSING profile memcheck racecheck synccheck
unset OUT
for dir in pass1 pass2 pass3; do
    (($(find "$scratch/$dir" -type f | wc -l) <= 8)) || fail "OUT has $(ls "$scratch/$dir")"
    [[ -s $scratch/$dir/accept.json && -s $scratch/$dir/accept.md ]] || fail "OUT has $(ls "$scratch/$dir")"
done
mkdir "$scratch/records"
tar -C "$scratch/records" -xzf "$scratch/pass3/records.tar.gz"
grep -q '"command": "[^"]*--peak [^"]*/peak/r1/output.json' "$scratch/records/checks/step-amp.json" ||
    fail "the pass did not use the peaks of the earlier pass: $(grep '"command"' "$scratch/records/checks/step-amp.json")"
[[ -z $(find "$scratch/records" -name '*.safetensors') ]] || fail "the records contain files of weights"

# gpu-check refuses to continue the records of another device.
mkdir "$scratch/other"
tar -C "$scratch/other" -xzf "$scratch/pass1/records.tar.gz"
model=$(sed -nE '1s/^cpu: ([^,]*),.*/\1/p' "$scratch/out")
sed -i "s/$model/another/" "$scratch/other/checks/hardware.json"
check 2 --device cpu --pass 2 --out "$scratch/other"
grep -q "is of another device than" "$scratch/err" || fail "the message does not say that the records are of another device: $(<"$scratch/err")"

# A report of the records gives every number with its unit.
expect 0 report --no-figures "$scratch/records" -o "$scratch/report.md"
for line in '| PASS | throughput | ' '| amp | 4 |  | ampscale | ' '| amp | 4 | fuse-none,no-graph | ampscale | ' \
    '| peak | bandwidth | [0-9.]* | GB/s |' '| step-amp | step\\_ms | [0-9.]* | ms |' 'Operations compared with the reference: [0-9]* cases'; do
    grep -q -- "^$line" "$scratch/report.md" || fail "the report lacks '$line': $(<"$scratch/report.md")"
done

# If the time budget is used up, the later checks are missing, but the records of the earlier checks
# are written. Another call can run the missing checks.
OUT=$scratch/late check 5 --device cpu --pass 2 --from "$scratch/pass1/records.tar.gz" --budget 1
verdicts PASS facts operations
verdicts MISSING files
[[ -s $scratch/late/records.tar.gz && -s $scratch/late/accept.json ]] || fail "after the time budget was used up, records.tar.gz or accept.json is missing"

# A pack runs without the build. A build with sanitizers is too large to pack, so this part is
# skipped with sanitizers.
if ! sanitized; then
    mkdir "$scratch/cuda" && cp -L "$(ldd "$program" | awk '$1 ~ /^libjansson/ { print $3 }')" "$scratch/cuda/libnvjpeg.so.13"
    LD_LIBRARY_PATH=$scratch/cuda "$source_dir/scripts/gpu-check" --build "$build_dir" --pack "$scratch/pack" >"$scratch/out" 2>&1 ||
        fail "pack: $(<"$scratch/out")"
    [[ -e $scratch/pack/lib/libnvjpeg.so.13.gz ]] || fail "the pack lacks nvJPEG: $(<"$scratch/out")"
    [[ -x $scratch/pack/bin/ampscale && $(find "$scratch/pack/bin" -type f | wc -l) -le 2 ]] || fail "the pack holds $(find "$scratch/pack")"
    [[ -e $scratch/pack/lib/libjansson.so.4.gz && ! -e $scratch/pack/lib/libc.so.6.gz ]] || fail "the pack holds $(ls "$scratch/pack/lib")"
    "$source_dir/scripts/gpu-check" --build "$scratch/pack" -- info >"$scratch/out" 2>&1 || fail "a command of the pack failed: $(<"$scratch/out")"
    grep -q '^ampscale [0-9]' "$scratch/out" || fail "the pack's command 'info' did not print the version: $(<"$scratch/out")"
    "$source_dir/scripts/gpu-check" --build "$build_dir" --pack "$scratch/pack" >/dev/null 2>&1 && fail "gpu-check packs into a folder that is not empty"
    # gpu-check does not pack a module of another build, because the machine with the GPU would
    # refuse that module.
    mkdir -p "$scratch/mixed/bin"
    printf '#!/bin/sh\necho "cuda:0 the CUDA module was built for another version of this program"\n' >"$scratch/mixed/bin/ampscale"
    chmod +x "$scratch/mixed/bin/ampscale"
    "$source_dir/scripts/gpu-check" --build "$scratch/mixed" --pack "$scratch/mixed.pack" >"$scratch/out" 2>&1 && fail "gpu-check packs a module of another version"
    grep -q "is not of this program; build all of it again" "$scratch/out" || fail "the message for a module of another version is wrong: $(<"$scratch/out")"
    [[ ! -e $scratch/mixed.pack ]] || fail "a pack with a module of another version was written"
fi

for wrong in '--nonesuch' '--budget soon' '--device' '--build /nonexistent' '--' "--build $build_dir -- nonesuch" \
    "--build $build_dir --device cpu --only nonesuch --out $scratch/wrong"; do
    code=0
    # shellcheck disable=SC2086
    "$source_dir/scripts/gpu-check" $wrong >"$scratch/out" 2>"$scratch/err" || code=$?
    [[ $code == 2 && $(wc -l <"$scratch/err") == 1 ]] || fail "'$wrong' exits with $code: $(<"$scratch/err")"
done
finish
