#!/usr/bin/env bash
# An installation has everything in its place, and works from there.
. "$(dirname "$0")/common.sh" "$@"

prefix=$scratch/prefix
cmake --install "$build_dir" --prefix "$prefix" >"$scratch/log" 2>&1 || fail "cmake --install: $(tail -n 5 "$scratch/log")"
for file in bin/ampscale share/man/man1/ampscale.1 share/bash-completion/completions/ampscale; do
    [[ -s $prefix/$file ]] || fail "'$file' was not installed"
done
bash -n "$prefix/share/bash-completion/completions/ampscale" || fail "bash does not accept the completion"
program=$prefix/bin/ampscale
cd / && expect 0 --version
if [[ -e $build_dir/cli/ampscale_cuda.so ]]; then
    ls "$prefix"/lib*/ampscale/ampscale_cuda.so "$prefix"/lib/*/ampscale/ampscale_cuda.so >"$scratch/log" 2>/dev/null
    [[ -s $scratch/log ]] || fail "the CUDA module was not installed"
    expect 0 info
    ! grep -q "which this build does not have" "$scratch/out" || fail "the installed program does not find its CUDA module"
fi
finish
