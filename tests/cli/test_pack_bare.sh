#!/usr/bin/env bash
# Unpacks a pack on a machine that has only a C library, a shell and the tools of a minimal Debian.
# Compilers, CUDA and Python are missing. The program starts, and one line says what is missing.
. "$(dirname "$0")/common.sh" "$@"
! sanitized || skip "a build with sanitizers is too large for a pack"
for tool in chroot ldd strip unshare; do
    command -v $tool >/dev/null || skip "there is no $tool"
done
root=$scratch/root
as_root=(unshare --mount)
((EUID == 0)) || as_root+=(--map-root-user)
mkdir -p "$root"/{bin,lib,lib64,tmp,dev,proc,check}

# Programs of a minimal Debian. The libraries that they need are copied to the same paths as on this
# machine.
for tool in basename bash cat chmod cp cut date dirname du env find gunzip gzip grep head kill ls mkdir mktemp mv nproc rm \
    sed sh sleep sort tail tar tr wc; do
    file=$(type -P $tool) || skip "there is no $tool"
    cp -L "$file" "$root/bin/"
    ldd "$file" 2>/dev/null | grep -oE '/[^ ]+' >>"$scratch/needed" || true
done
# The C library consists of several libraries. The programs above may need only some of them, so all
# are added by name.
for name in libm.so.6 libdl.so.2 librt.so.1 libpthread.so.0 libresolv.so.2 libmvec.so.1; do
    ldconfig -p 2>/dev/null | sed -nE "s|^\s*$name .*=> (.*)|\1|p" | head -n 1 >>"$scratch/needed"
done
while IFS= read -r file; do
    mkdir -p "$root${file%/*}"
    cp -Lu "$file" "$root$file"
done < <(sort -u "$scratch/needed")
: >"$root/dev/null"
ln -s /proc/self/fd "$root/dev/fd"

# The repository has the records of a GPU, with plans that a pack takes along.
mkdir -p "$root"/check/{tests/peers,results/recorded/a-gpu/bring-up/cache/ampscale}
cp -R "$source_dir/scripts" "$root/check/"
cp "$source_dir"/tests/peers/{run.sh,torch_step.py} "$root/check/tests/peers/"
echo "known plans" >"$root/check/results/recorded/a-gpu/bring-up/cache/ampscale/plans"
"$root/check/scripts/gpu-check" --build "$build_dir" --pack "$root/check/pack" >"$scratch/out" 2>&1 || fail "pack: $(<"$scratch/out")"
grep -q "known plans" "$root/check/pack/cache/ampscale/plans" || fail "the pack lacks the recorded plans: $(find "$root/check/pack/cache")"

# bare ARGS...: runs scripts/gpu-check with $root as the root directory.
bare() {
    code=0
    # shellcheck disable=SC2016 # the inner shell expands these variables
    "${as_root[@]}" bash -c 'mount --rbind /proc "$0/proc" && mount --bind /dev/null "$0/dev/null" &&
        exec env -i PATH=/bin "$(type -P chroot)" "$0" /bin/bash /check/scripts/gpu-check --build /check/pack "$@"' \
        "$root" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
}
bare --help
((code == 0)) || skip "no root directory can be made here: $(head -n 1 "$scratch/err")"
bare -- info
((code == 0)) && grep -q '^ampscale [0-9]' "$scratch/out" || fail "the program does not start: $(cat "$scratch/out" "$scratch/err")"
bare --pass 1 --device cuda:0
((code == 5)) && [[ $(cat "$scratch/out" "$scratch/err" | wc -l) == 1 ]] &&
    grep -q "^scripts/gpu-check: no device 'cuda:0': .*; also missing: PyTorch, compute-sanitizer, ncu$" "$scratch/err" ||
    fail "without a GPU the pack exits with $code: $(cat "$scratch/out" "$scratch/err")"
# Checks that need no GPU run under that root directory.
bare --only facts --device cpu --out /tmp/records --quick
((code == 0)) && grep -q '^PASS *facts' "$scratch/out" || fail "the check of the processor's facts has not passed: $(cat "$scratch/out" "$scratch/err")"
# Records of another machine become a folder of the device's name.
tar -C "$root/tmp/records" -czf "$root/tmp/records.tar.gz" spec.json checks
bare --from /tmp/records.tar.gz
((code == 0)) && [[ -s $(echo "$root"/check/results/recorded/*/bring-up-quick/accept.json) ]] ||
    fail "records of another machine: $code, $(cat "$scratch/out" "$scratch/err"), $(find "$root/check/results")"
finish
