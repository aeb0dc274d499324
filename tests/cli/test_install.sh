#!/usr/bin/env bash
# An installation has all files in the right places, and the installed program works. `uninstall`
# removes it. An archive works in any folder.
. "$(dirname "$0")/common.sh" "$@"

sanitizers=
! sanitized || sanitizers=1
prefix=$scratch/prefix
cmake --install "$build_dir" --prefix "$prefix" >"$scratch/log" 2>&1 || fail "cmake --install: $(tail -n 5 "$scratch/log")"
for file in bin/ampscale share/man/man1/ampscale.1 share/bash-completion/completions/ampscale \
    share/zsh/site-functions/_ampscale share/fish/vendor_completions.d/ampscale.fish \
    share/doc/ampscale/copyright share/doc/ampscale/README.md share/doc/ampscale/docs/howto/ci.md \
    share/doc/ampscale/docs/launch/kubernetes/indexed-job.yaml share/doc/ampscale/docs/schema/run.schema.json \
    share/doc/ampscale/docs/reference/commands.md share/doc/ampscale/docs/reference/records.md \
    share/doc/ampscale/results/published/hal_v100.csv share/doc/ampscale/scripts/interleave; do
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

# `uninstall` removes the installed files. It does not remove a file that was not installed.
touch "$prefix/bin/other"
cmake --build "$build_dir" --target uninstall >"$scratch/log" 2>&1 || fail "uninstall: $(tail -n 5 "$scratch/log")"
left=$(find "$prefix" ! -type d -o -name ampscale)
[[ $left == "$prefix/bin/other" ]] || fail "after uninstall, the remaining files are not only bin/other: $left"

# The program works in the folder where the archive is unpacked. The only libraries that it needs
# from the machine are the C library's. The archive is made with the generator Ninja, because with other
# generators cpack runs the target `preinstall`, which would rebuild the tested program.
if [[ ! $sanitizers ]]; then
    cpack --config "$build_dir/CPackConfig.cmake" -D CPACK_CMAKE_GENERATOR=Ninja -G TGZ -B "$scratch/packages" >"$scratch/log" 2>&1 ||
        fail "cpack: $(tail -n 5 "$scratch/log")"
    mkdir "$scratch/there" && tar -C "$scratch/there" --strip-components 1 -xzf "$scratch"/packages/ampscale-*.tar.gz
    program=$scratch/there/bin/ampscale
    expect 0 --version
    others=$(ldd "$program" | awk '$2 == "=>" { print $3 }' | grep -v "^$scratch/there/" | grep -vE '/lib(c|m|dl|rt|pthread|resolv|util|mvec|nsl)\.so[^/]*$')
    [[ -z $others ]] || fail "the archive needs libraries of this machine: $others"
    ls "$scratch"/there/share/doc/ampscale/libraries/* >/dev/null 2>&1 || ! command -v dpkg-query >/dev/null ||
        fail "the archive has no licences of its libraries"
    expect 0 train --dummy --dummy-train 16 --dummy-val 4 -a resnet8 --image-size 16 --classes 2 -b 4 --epochs 1 --out "$scratch/run"
fi
finish
