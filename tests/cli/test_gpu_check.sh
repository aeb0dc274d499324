#!/usr/bin/env bash
# scripts/gpu-check: on a machine without a GPU it runs to its end and says what is missing; on a
# device that is there its steps do their work; and it packs.
. "$(dirname "$0")/common.sh" "$@"
export OMP_WAIT_POLICY=passive
unset OUT AMPSCALE_CUDA_MODULE
steps='facts kernels selftest accuracy peak throughput roofline profile sanitizer'

# check CODE OUT ARGS...: runs the script and checks its exit code, and that every step has a line.
check() {
    local want=$1 name
    shift
    code=0
    "$source_dir/scripts/gpu-check" --quick --build "$build_dir" --out "$@" \
        >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
    ((code == want)) || fail "gpu-check $* exited with $code, not $want: $(cat "$scratch/out" "$scratch/err")"
    for name in $steps; do
        [[ $(grep -c "^$name " "$scratch/out") == 1 ]] || fail "gpu-check $*: no line for '$name': $(<"$scratch/out")"
    done
}

# status_of STEP: what its line says.
status_of() {
    sed -nE "s/^$1 +([a-z]+) .*/\\1/p" "$scratch/out"
}

# json_holds FILE PYTHON: an expression over the record `r`.
json_holds() {
    command -v python3 >/dev/null || return 0
    python3 -c "import json, sys; r = json.load(open(sys.argv[1])); sys.exit(not ($2))" "$1" ||
        fail "$1 does not hold '$2': $(head -c 2000 "$1")"
}

# No such GPU: nothing passes, nothing hangs, and each step says why. (A GPU that is there has its own
# say; the number is one that no machine has.)
check 5 "$scratch/none" --device cuda:63
for name in kernels accuracy peak roofline throughput profile; do
    [[ $(status_of "$name") == missing ]] || fail "without a GPU '$name' is $(status_of "$name")"
done
json_holds "$scratch/none/gpu-check.json" "r['schema'] == 1 and r['exit_code'] == 5 and len(r['steps']) == 9"
json_holds "$scratch/none/gpu-check.json" "r['throughput'] == [] and r['accuracy'] == [] and r['roofline'] == []"
grep -q '^| kernels | missing |' "$scratch/none/gpu-check.md" || fail "the table: $(<"$scratch/none/gpu-check.md")"

# The processor as the device: all but the profile and the sanitizer have something to do.
check 5 "$scratch/cpu" --device cpu
for name in facts kernels selftest accuracy peak roofline throughput; do
    [[ $(status_of "$name") == pass ]] || fail "on the CPU '$name' is $(status_of "$name"): $(<"$scratch/out")"
done
json_holds "$scratch/cpu/gpu-check.json" "len(r['accuracy']) == 5 and all(a['val_top1'] >= 0 for a in r['accuracy'])"
json_holds "$scratch/cpu/gpu-check.json" "len(r['throughput']) == 3 and all(t['images_per_s'] > 0 and t['rung'] == 'auto' for t in r['throughput'])"
json_holds "$scratch/cpu/gpu-check.json" "[o['precision'] for o in r['roofline']] == ['fp32', 'amp']"
json_holds "$scratch/cpu/gpu-check.json" "all(any(k['op'] == 'all' for k in o['operations']) for o in r['roofline'])"
json_holds "$scratch/cpu/gpu-check.json" "r['machine']['host']['cpu'] and '--device cpu' in r['command']"
json_holds "$scratch/cpu/peak.json" "r['bench'] == 'peak'"
[[ -s $scratch/cpu/runs/accuracy-fp32/epochs.jsonl ]] || fail "no record of the runs"
[[ -z $(find "$scratch/cpu" -name '*.safetensors') ]] || fail "weights among the records"
tar -tzf "$scratch/cpu/logs.tar.gz" >"$scratch/logs" || fail "no archive of logs"
for name in log/kernels.txt throughput/ampscale-fp32-4-1-0/summary.json; do
    grep -qx "$name" "$scratch/logs" || fail "the logs lack '$name': $(<"$scratch/logs")"
done

# Where a step's time is up the others have theirs, and the check has not passed.
check 1 "$scratch/late" --device cpu --budget 1
grep -q '^throughput .*ran past its time' "$scratch/out" || fail "no word of the time: $(<"$scratch/out")"

# A step has its own time, or what the later ones that were asked for leave.
room_of() {
    bash -c '. "$1"; only=$2; deadline=$((SECONDS + $3)); room_for "$4"' - "$source_dir/scripts/gpu-check-lib.sh" "$@"
}
for want in '100::300:kernels' '860:kernels,peak:900:kernels' '900:peak,kernels:900:peak' '50:kernels:50:kernels'; do
    IFS=: read -r seconds only left step <<<"$want"
    got=$(room_of "$only" "$left" "$step")
    ((got == seconds || got == seconds - 1)) || fail "of $left s '$step' has $got s, not $seconds"
done

# The default budget holds all steps, and each pass.
(. "$source_dir/scripts/gpu-check-lib.sh"
    sum=0
    for name in $all_steps; do sum=$((sum + step_limit[$name])); done
    ((sum <= 520)) || fail "the limits of all steps add up to $sum s"
    [[ $(tr ',' '\n' <<<"${passes[1]},${passes[2]},${passes[3]}" | sort) == "$(tr ' ' '\n' <<<"$all_steps" | sort)" ]] ||
        fail "the passes are not all steps") || exit

# A row whose plans or graphs fail is measured on a lower rung, and the reasons are recorded.
mkdir -p "$scratch/failing/bin"
cat >"$scratch/failing/bin/ampscale" <<TOOL
#!/usr/bin/env bash
[[ \$1 != train || "\$*" == *"--fuse none"* ]] ||
    { echo "ampscale: cannot capture a graph: made to fail" >&2; exit 1; }
exec '$program' "\$@"
TOOL
chmod +x "$scratch/failing/bin/ampscale"
code=0
"$source_dir/scripts/gpu-check" --quick --build "$scratch/failing" --out "$scratch/rungs" --device cpu --only throughput \
    >"$scratch/out" 2>&1 || code=$?
((code == 0)) || fail "rows on a lower rung: exit code $code: $(<"$scratch/out")"
json_holds "$scratch/rungs/gpu-check.json" "len(r['throughput']) == 3 and all(t['rung'] == '--fuse none' for t in r['throughput'])"
json_holds "$scratch/rungs/gpu-check.json" "all(f['rung'] == 'auto' and 'made to fail' in f['why'] for f in r['falls']) and len(r['falls']) == 3"

# OUT takes a few files.
code=0
OUT=$scratch/few "$source_dir/scripts/gpu-check" --quick --build "$build_dir" --device cuda:63 >"$scratch/out" 2>&1 || code=$?
[[ $code == 5 && -s $scratch/few/runs.tar.gz && $(find "$scratch/few" -type f | wc -l) -le 8 ]] ||
    fail "OUT: exit code $code, $(find "$scratch/few")"

# A pack runs by itself. A build with sanitizers is another matter: its size is none that is packed.
if ! sanitized; then
    "$source_dir/scripts/gpu-check" --build "$build_dir" --pack "$scratch/pack" >"$scratch/out" 2>&1 || fail "pack: $(<"$scratch/out")"
    [[ -x $scratch/pack/bin/ampscale ]] || fail "the pack holds $(find "$scratch/pack")"
    [[ -e $scratch/pack/lib/libjansson.so.4.gz && ! -e $scratch/pack/lib/libc.so.6.gz ]] || fail "the pack holds $(ls "$scratch/pack/lib")"
    "$source_dir/scripts/gpu-check" --build "$scratch/pack" -- info >"$scratch/out" 2>&1 || fail "a command of the pack: $(<"$scratch/out")"
    grep -q '^ampscale [0-9]' "$scratch/out" || fail "a command of the pack said: $(<"$scratch/out")"
    gunzip "$scratch"/pack/lib/*.gz
    LD_LIBRARY_PATH=$scratch/pack/lib "$scratch/pack/bin/ampscale" info >/dev/null || fail "the packed program does not run"
    "$source_dir/scripts/gpu-check" --build "$build_dir" --pack "$scratch/pack" >/dev/null 2>&1 && fail "packs into a folder that is not empty"
    # A module of another build, which would be found out on the machine with the GPU.
    mkdir -p "$scratch/mixed/bin"
    printf '#!/bin/sh\necho "cuda:0 the CUDA module was built for another version of this program"\n' >"$scratch/mixed/bin/ampscale"
    chmod +x "$scratch/mixed/bin/ampscale"
    "$source_dir/scripts/gpu-check" --build "$scratch/mixed" --pack "$scratch/mixed.pack" >"$scratch/out" 2>&1 && fail "packs a module of another version"
    grep -q "is not of this program; build all of it again" "$scratch/out" || fail "a module of another version: $(<"$scratch/out")"
    [[ ! -e $scratch/mixed.pack ]] || fail "a pack with a module of another version was begun"
fi

for wrong in '--nonesuch' '--budget soon' '--device' '--build /nonexistent' '--' "--build $build_dir -- nonesuch"; do
    code=0
    # shellcheck disable=SC2086
    "$source_dir/scripts/gpu-check" $wrong >"$scratch/out" 2>"$scratch/err" || code=$?
    [[ $code == 2 && $(wc -l <"$scratch/err") == 1 ]] || fail "'$wrong' exits with $code: $(<"$scratch/err")"
done
finish
