#!/usr/bin/env bash
# scripts/gpu-check: on a machine without a GPU it says in one line what is missing. On a CPU its
# three passes run, and each adds to the records of the earlier passes. The script can make a pack.
. "$(dirname "$0")/common.sh" "$@"
export OMP_WAIT_POLICY=passive
unset OUT AMPSCALE_CUDA_MODULE
export AMPSCALE_PEERS=/none # torchvision lacks the small network of these checks
cd "$scratch" || exit 1

# check CODE ARGS...: runs the script and checks its exit code.
check() {
    local want=$1
    shift
    code=0
    "$source_dir/scripts/gpu-check" --quick --build "$build_dir" "$@" >out 2>err </dev/null || code=$?
    ((code == want)) || fail "gpu-check $* exited with $code, not $want: $(cat out err)"
}

# verdicts VERDICT NAMES...: checks that the output has VERDICT for each named check.
verdicts() {
    local name
    for name in "${@:2}"; do
        grep -qE "^$1 +$name(,|:|$)" out || fail "'$name' is not $1: $(<out)"
    done
}

# No machine has the GPU cuda:63. One line names everything that is missing.
check 5 --device cuda:63 --pass 1
[[ $(cat out err | wc -l) == 1 ]] && grep -q "^scripts/gpu-check: no device 'cuda:63': " err || fail "not one line names the missing device: $(cat out err)"

# The device is the CPU. OUT gets only a few files, and the next pass reads the records from OUT.
OUT=$scratch/pass1 check 5 --device cpu --pass 1 --new
verdicts PASS facts first operations accuracy
verdicts MISSING nccl
grep -q '^SKIP *not selected: throughput, .*, memcheck' out || fail "the checks 'throughput' and 'memcheck' were selected: $(<out)"
OUT=$scratch/pass2 check 5 --device cpu --pass 2 # the records have no NCCL
grep -q "^continues the records in .*; --new " out || fail "a pass does not say that it continues the last records: $(<out)"
verdicts PASS facts first operations throughput selftest peak fusion throughput-more
OUT=$scratch/pass3 check 5 --device cpu --pass 3 --from "$scratch/pass2/records.tar.gz"
verdicts PASS facts peak throughput accuracy-more files step-amp step-bf16 step-tf32 step-fp32
verdicts MISSING memcheck racecheck synccheck
model=$(sed -nE '1s/^cpu: ([^,]*),.*/\1/p' out)
for dir in pass1 pass2 pass3; do
    (($(find "$dir" -type f | wc -l) <= 8)) && [[ -s $dir/accept.json && -s $dir/accept.md ]] || fail "OUT has $(ls "$dir")"
done
mkdir records
tar -C records -xzf pass3/records.tar.gz
grep -q '"command": "[^"]*--peak [^"]*/peak/r1/output.json' records/checks/step-amp.json ||
    fail "the pass did not use the peaks of the earlier pass: $(grep '"command"' records/checks/step-amp.json)"
[[ -z $(find records -name '*.safetensors') ]] || fail "the records contain files of weights"

# --only continues the last records, too; --again measures a check again, and --new begins new
# records. A relative --out is a folder in the source tree; OUT gets the records also with --out.
OUT=$scratch/again check 5 --device cpu --only peak --again facts
verdicts PASS facts peak throughput step-amp
mkdir later
tar -C later -xzf again/records.tar.gz
[[ later/checks/facts.json -nt records/checks/facts.json && ! later/checks/peak.json -nt records/checks/peak.json ]] ||
    fail "--again has not measured the check again, or another check too"
OUT=$scratch/new check 0 --device cpu --new --only facts --out "$(realpath --relative-to="$source_dir" .)/new-records"
grep -q '^PASS *peak,' out && fail "--new continues the last records: $(<out)"
[[ -s new/records.tar.gz && -s new-records/accept.json ]] || fail "with --out, the records are not in both folders: $(ls new new-records)"
for wrong in "--new --only facts --out $scratch/new-records" "--new --from $scratch/again/records.tar.gz" "--again ../facts" "--again facts --pass 1"; do
    # shellcheck disable=SC2086
    OUT=$scratch/again check 2 --device cpu $wrong
done

# On a machine without the device, the records of a call that was killed become a folder with
# reports. The reports have the verdicts of the other machine, and nothing is measured here.
tar -C later -czf killed.tar.gz spec.json checks
check 5 --from "$scratch/killed.tar.gz" --device cuda:63 --out "$scratch/unpacked"
verdicts PASS facts peak throughput step-amp
[[ -s unpacked/accept.json && -s unpacked/accept.md ]] || fail "there are no reports: $(ls unpacked)"
diff -r later/checks unpacked/checks >/dev/null || fail "unpacking has changed the records: $(diff -r later/checks unpacked/checks)"
check 2 --from "$scratch/killed.tar.gz" --out "$scratch/unpacked"
: >empty.tar.gz
check 1 --from "$scratch/empty.tar.gz" --out "$scratch/unpacked-2"

# gpu-check refuses to continue the records of another device.
mkdir other
tar -C other -xzf pass1/records.tar.gz
sed -i "s/$model/another/" other/checks/hardware.json
check 2 --device cpu --pass 2 --out "$scratch/other"
grep -q "is of another device than" err || fail "the message does not say that the records are of another device: $(<err)"

# If the time budget is used up, the later checks are missing, and the records of the earlier ones are
# written.
OUT=$scratch/late check 5 --device cpu --pass 2 --from "$scratch/pass1/records.tar.gz" --budget 1
verdicts PASS facts operations
verdicts MISSING throughput
[[ -s late/records.tar.gz ]] || fail "after the time budget was used up, records.tar.gz is missing"

# Files that are too large to be sent are left out.
mkdir -p stub/bin
cat >stub/bin/ampscale <<'STUB'
#!/usr/bin/env bash
[[ $1 != info ]] || { echo "  cpu    a stub, 1 thread"; exit; }
while [[ $1 != --out ]]; do shift; done
mkdir -p "$2"
echo '{}' >"$2/spec.json"
for n in 1 2 3 4 5 6; do head -c 3500000 /dev/urandom >"$2/large-$n"; done
head -c 5000000 /dev/zero >"$2/huge"
: >"$2/weights.safetensors"
STUB
chmod +x stub/bin/ampscale
OUT=$scratch/stub-out check 0 --build "$scratch/stub" --device cpu --budget 100 --out "$scratch/stub-records" --only one
files=$(tar -tzf stub-out/records.tar.gz)
[[ $files == *./spec.json* && $files != *large* && $files != *huge* && $files != *weights* ]] || fail "the archive has $files"

# A pack runs without the build (cli_pack_bare). It takes libraries of CUDA along, and no module of
# another build, which the machine with the GPU would refuse.
mkdir cuda && cp -L "$(ldd "$program" | awk '$1 ~ /^libjansson/ { print $3 }')" cuda/libnvjpeg.so.13
LD_LIBRARY_PATH=$scratch/cuda check 0 --pack "$scratch/pack"
[[ -e pack/lib/libnvjpeg.so.13.gz && -e pack/lib/libjansson.so.4.gz && ! -e pack/lib/libc.so.6.gz ]] || fail "the pack holds $(ls pack/lib)"
mkdir -p mixed/bin
printf '#!/bin/sh\necho "cuda:0 the CUDA module was built for another version of this program"\n' >mixed/bin/ampscale
chmod +x mixed/bin/ampscale
check 1 --build "$scratch/mixed" --pack "$scratch/mixed.pack"
grep -q "is not of this program; build all of it again" err || fail "the message for a module of another version is wrong: $(<err)"
[[ ! -e mixed.pack ]] || fail "a pack with a module of another version was written"

check 2 --build "$scratch/nowhere"
grep -q "there is no folder '$scratch/nowhere'$" err || fail "the message does not name the folder: $(<err)"
for wrong in --nonesuch '--budget soon' --device -- '-- nonesuch' "--device cpu --only nonesuch --out $scratch/wrong" "--pack $scratch/pack"; do
    # shellcheck disable=SC2086
    check 2 $wrong
    [[ $(wc -l <err) == 1 ]] || fail "'$wrong': not one line: $(<err)"
done
finish
