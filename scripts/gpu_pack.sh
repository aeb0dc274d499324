# shellcheck shell=bash disable=SC2154
# The part of scripts/gpu-check that makes a pack on a machine with compilers. To be sourced by it,
# not run: uses its variables.

# pack DIR: copies the program and the module with their libraries, except the C library, CUDA and
# the driver. Also copies nvJPEG if it is found, because the module loads nvJPEG later. Strips and
# compresses all files. Adds the newest plans of convolutions among the repository's records.
pack() {
    local file size plans
    [[ $("${ours[@]}" "$ampscale" info 2>&1) != *"built for another version"* ]] ||
        die 1 "--pack: the CUDA module in '$build_dir' is not of this program; build all of it again"
    [[ -z $(ls -A "$1" 2>/dev/null) ]] || die 2 "--pack '$1': the folder is not empty"
    mkdir -p "$1/bin" "$1/lib"
    cp -L "$ampscale" ${module:+"$module"} "$1/bin/"
    for file in $(ldd "$1"/bin/* | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
        grep -vE '/(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|mvec|nsl)\.so.*|lib(cuda|cudart|cudnn|cublas|nccl|nvidia|nvrtc|nvJitLink)[^/]*)$'); do
        cp -L "$file" "$1/lib/"
    done
    (IFS=: && find $library_path -maxdepth 1 -name 'libnvjpeg.so.1[23]' -exec cp -L {} "$1/lib/" \; -quit) 2>/dev/null || true
    { strip --strip-unneeded "$1"/bin/* "$1"/lib/* && gzip "$1"/{bin,lib}/*; } || die 1 "cannot strip and compress the packed files"
    plans=$(find results/recorded -path '*/cache/ampscale/plans' -printf '%T@ %p\n' 2>/dev/null | sort -n | sed -n '$s/[^ ]* //p')
    [[ -z $plans ]] || take_plans "${plans%/ampscale/plans}" "$1/cache"
    size=$(du -sm "$1" | cut -f 1)
    ((size < 32)) || die 1 "the pack in '$1' has $size MiB, more than the 32 MiB that may be sent with the sources and records"
    say "packed $(find "$1" -type f | wc -l) files, $size MiB, into '$1', with ${module:-no CUDA module}$([[ -e $(echo "$1"/lib/libnvjpeg*) ]] || echo ', without nvJPEG (pip install nvidia-nvjpeg)')"
}
