#!/usr/bin/env bash
# scripts/gpu-check: on a machine without a GPU it says in one line what is missing. On a CPU its
# three passes run, and each adds to the records of the earlier passes. The script can make a pack.
. "$(dirname "$0")/common.sh" "$@"
export OMP_WAIT_POLICY=passive
unset OUT AMPSCALE_CUDA_MODULE
export AMPSCALE_PEERS=/none # torchvision lacks the small network of these checks

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
check 5 --device cpu --pass 1 --new
verdicts PASS facts first operations accuracy
verdicts MISSING nccl
grep -q '^SKIP *not selected: throughput, .*, memcheck' "$scratch/out" || fail "the checks 'throughput' and 'memcheck' were selected: $(<"$scratch/out")"
OUT=$scratch/pass2 check 5 --device cpu --pass 2 # the records have no NCCL
grep -q "^continues the records in 'build/gpu-check/cpu-bring-up-quick.tar.gz'; --new " "$scratch/out" || fail "a pass does not say that it continues the last records: $(<"$scratch/out")"
verdicts PASS facts first operations throughput selftest peak fusion throughput-more
OUT=$scratch/pass3 check 5 --device cpu --pass 3 --from "$scratch/pass2/records.tar.gz"
verdicts PASS facts peak throughput accuracy-more files step-amp step-bf16 step-tf32 step-fp32
verdicts MISSING profile memcheck racecheck synccheck
model=$(sed -nE '1s/^cpu: ([^,]*),.*/\1/p' "$scratch/out")
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

# --only continues the last records, too; --again measures a check again, and --new begins new
# records. A relative --out is a folder in the source tree; OUT gets the records also with --out.
export OUT=$scratch/again
check 5 --device cpu --only peak --again facts
verdicts PASS facts peak throughput step-amp
mkdir "$scratch/later"
tar -C "$scratch/later" -xzf "$OUT/records.tar.gz"
[[ $scratch/later/checks/facts.json -nt $scratch/records/checks/facts.json && ! $scratch/later/checks/peak.json -nt $scratch/records/checks/peak.json ]] ||
    fail "--again has not measured the check again, or another check too"
OUT=$scratch/new check 0 --device cpu --new --only facts --out "$(realpath --relative-to="$source_dir" "$scratch")/new-records"
grep -qE 'peak,|continues' "$scratch/out" && ! grep -q '^SKIP.*peak' "$scratch/out" && fail "--new continues the last records: $(<"$scratch/out")"
[[ -s $scratch/new/records.tar.gz && -s $scratch/new/accept.json ]] || fail "with --out, OUT has no records: $(ls "$scratch/new")"
for wrong in "--new --only facts --out $scratch/new-records" "--new --from $OUT/records.tar.gz" "--again ../facts" "--again facts --pass 1"; do
    # shellcheck disable=SC2086
    check 2 --device cpu $wrong
done
unset OUT

# On a machine without the device, the records of a call that was killed become a folder with
# reports. The reports have the verdicts of the other machine, and nothing is measured here.
tar -C "$scratch/later" -czf "$scratch/killed.tar.gz" spec.json checks
check 5 --from "$scratch/killed.tar.gz" --device cuda:63 --out "$scratch/unpacked"
verdicts PASS facts peak throughput step-amp
grep -q "^unpacked into '$scratch/unpacked'; next: scripts/gpu-check --build .* -- report $scratch/unpacked -o gpu.md$" "$scratch/out" || fail "the next command: $(<"$scratch/out")"
[[ -s $scratch/unpacked/accept.json && -s $scratch/unpacked/accept.md ]] || fail "there are no reports: $(ls "$scratch/unpacked")"
diff -r "$scratch/later/checks" "$scratch/unpacked/checks" >/dev/null || fail "unpacking has changed the records: $(diff -r "$scratch/later/checks" "$scratch/unpacked/checks")"
check 2 --from "$scratch/killed.tar.gz" --out "$scratch/unpacked"
: >"$scratch/empty.tar.gz"
check 1 --from "$scratch/empty.tar.gz" --out "$scratch/unpacked-2"

# gpu-check refuses to continue the records of another device.
mkdir "$scratch/other"
tar -C "$scratch/other" -xzf "$scratch/pass1/records.tar.gz"
sed -i "s/$model/another/" "$scratch/other/checks/hardware.json"
check 2 --device cpu --pass 2 --out "$scratch/other"
grep -q "is of another device than" "$scratch/err" || fail "the message does not say that the records are of another device: $(<"$scratch/err")"

# A report of the records gives every number with its unit.
expect 0 report --no-figures "$scratch/records" -o "$scratch/report.md"
for line in '| PASS | throughput | ' '| amp | 4 |  | ampscale | ' '| amp | 4 | fuse-none,no-graph | ampscale | ' \
    '| peak | bandwidth | [0-9.]* | GB/s |' '| step-amp | step\\_ms | [0-9.]* | ms |' 'Operations compared with the reference: [0-9]* cases'; do
    grep -q -- "^$line" "$scratch/report.md" || fail "the report lacks '$line': $(<"$scratch/report.md")"
done

# If the time budget is used up, the later checks are missing, and the records of the earlier ones are
# written.
OUT=$scratch/late check 5 --device cpu --pass 2 --from "$scratch/pass1/records.tar.gz" --budget 1
verdicts PASS facts operations
verdicts MISSING throughput
[[ -s $scratch/late/records.tar.gz ]] || fail "after the time budget was used up, records.tar.gz is missing"

# A program that takes a moment to say what it is, and then writes records that change for a while:
# files that are too large to be sent, and one that changes although no check has ended.
mkdir -p "$scratch/stub/bin"
cat >"$scratch/stub/bin/ampscale" <<'STUB'
#!/usr/bin/env bash
[[ $1 != info ]] || { sleep 3; echo "  cpu    a stub, 1 thread"; exit; }
while [[ $1 != --out ]]; do shift; done
mkdir -p "$2/checks/one"
echo '{}' >"$2/spec.json"
echo "$XDG_CACHE_HOME $*" >"$2/called"
for n in 1 2 3 4 5 6; do head -c 3500000 /dev/urandom >"$2/large-$n"; done
head -c 5000000 /dev/zero >"$2/huge"
: >"$2/weights.safetensors"
sleep 2
echo late >"$2/checks/one/log"
for ((i = 0; i < 400; i++)); do
    tar -xzOf "$OUT/records.tar.gz" ./checks/one/log 2>/dev/null && exit
    sleep 0.1
done
exit 1
STUB
chmod +x "$scratch/stub/bin/ampscale"
mkdir "$scratch/stub-out"
export OUT=$scratch/stub-out
relative=$(realpath --relative-to="$source_dir" "$scratch")/stub-records
"$source_dir/scripts/gpu-check" --build "$scratch/stub" --device cpu --budget 100 --out "$relative" --only one >"$scratch/out" 2>"$scratch/err" ||
    fail "a file that changed during a check was not kept: $(cat "$scratch/out" "$scratch/err")"
unset OUT
[[ $(<"$scratch/stub-records/called") =~ ^"$scratch/stub/cache --out $scratch/stub-records --budget "9[0-7]" --resume --only one" ]] ||
    fail "the program was called with '$(<"$scratch/stub-records/called")'"
files=$(tar -tzf "$scratch/stub-out/records.tar.gz")
[[ $files == *./called* && $files != *large* && $files != *huge* && $files != *weights* ]] || fail "the archive has $files"

# A pack runs without the build (cli_pack_bare). It takes libraries of CUDA along, and no module of
# another build, which the machine with the GPU would refuse. A build with sanitizers is too large.
if ! sanitized; then
    mkdir "$scratch/cuda" && cp -L "$(ldd "$program" | awk '$1 ~ /^libjansson/ { print $3 }')" "$scratch/cuda/libnvjpeg.so.13"
    LD_LIBRARY_PATH=$scratch/cuda "$source_dir/scripts/gpu-check" --build "$build_dir" --pack "$scratch/pack" >"$scratch/out" 2>&1 ||
        fail "pack: $(<"$scratch/out")"
    [[ -e $scratch/pack/lib/libnvjpeg.so.13.gz && -e $scratch/pack/lib/libjansson.so.4.gz && ! -e $scratch/pack/lib/libc.so.6.gz ]] ||
        fail "the pack holds $(ls "$scratch/pack/lib")"
    "$source_dir/scripts/gpu-check" --build "$build_dir" --pack "$scratch/pack" >/dev/null 2>&1 && fail "gpu-check packs into a folder that is not empty"
    mkdir -p "$scratch/mixed/bin"
    printf '#!/bin/sh\necho "cuda:0 the CUDA module was built for another version of this program"\n' >"$scratch/mixed/bin/ampscale"
    chmod +x "$scratch/mixed/bin/ampscale"
    "$source_dir/scripts/gpu-check" --build "$scratch/mixed" --pack "$scratch/mixed.pack" >"$scratch/out" 2>&1 && fail "gpu-check packs a module of another version"
    grep -q "is not of this program; build all of it again" "$scratch/out" || fail "the message for a module of another version is wrong: $(<"$scratch/out")"
    [[ ! -e $scratch/mixed.pack ]] || fail "a pack with a module of another version was written"
fi

check 2 --build "$scratch/nowhere"
grep -q "there is no folder '$scratch/nowhere'$" "$scratch/err" || fail "the message does not name the folder: $(<"$scratch/err")"
for wrong in '--nonesuch' '--budget soon' '--device' '--' "--build $build_dir -- nonesuch" \
    "--build $build_dir --device cpu --only nonesuch --out $scratch/wrong"; do
    code=0
    # shellcheck disable=SC2086
    "$source_dir/scripts/gpu-check" $wrong >"$scratch/out" 2>"$scratch/err" || code=$?
    [[ $code == 2 && $(wc -l <"$scratch/err") == 1 ]] || fail "'$wrong' exits with $code: $(<"$scratch/err")"
done
finish
