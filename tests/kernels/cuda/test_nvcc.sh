#!/usr/bin/env bash
# Compiles every CUDA kernel for the architectures that the suite supports, warnings being errors,
# and prints the registers of each. Fails when one spills registers to memory, or when one has
# instructions of the tensor cores: what these kernels do is bound by memory, and matrices are
# cuDNN's and cuBLASLt's. Skipped (77) without nvcc. Arguments: the source tree.
set -euo pipefail
source_dir=$1
export PATH=$PATH:/usr/local/cuda/bin
if ! command -v nvcc >/dev/null; then
    echo "skipped: there is no nvcc to compile CUDA kernels with"
    exit 77
fi

known=$(nvcc --list-gpu-code)
codes=()
for arch in 75 80 90 100; do
    if grep -qx "sm_$arch" <<<"$known"; then
        codes+=(-gencode "arch=compute_$arch,code=sm_$arch")
    else
        echo "nvcc knows no sm_$arch: left out"
    fi
done

out=$(mktemp -d)
trap 'rm -r "$out"' EXIT
code=0
for file in "$source_dir"/kernels/cuda/kernels/*.cu; do
    name=$(basename "$file")
    if ! nvcc -std=c++17 -O3 "${codes[@]}" -Werror all-warnings -Xptxas -v -fatbin \
        -I "$source_dir" -o "$out/$name.fatbin" "$file" >"$out/log" 2>&1; then
        echo "FAILED: '$name' does not compile"
        cat "$out/log"
        code=1
        continue
    fi
    # A kernel is three lines: its name and architecture, its stack and spills, its registers.
    awk -v file="$name" '
        /Compiling entry function/ { split($0, part, "\047"); kernel = part[2]; arch = part[4] }
        /bytes spill stores/ {
            if ($0 !~ / 0 bytes spill stores, 0 bytes spill loads/) {
                print "FAILED: \047" file "\047: " kernel " spills on " arch ":" $0
                bad = 1
            }
        }
        /Used [0-9]+ registers/ {
            match($0, /Used [0-9]+/)
            printf "%-15s %-6s %4d registers  %s\n", file, arch, substr($0, RSTART + 5, RLENGTH - 5), kernel
        }
        END { exit bad }' "$out/log" >"$out/table" || code=1
    if ! grep -q registers "$out/table"; then
        echo "FAILED: nvcc says nothing of the registers of '$name'"
        code=1
    fi
    if command -v cuobjdump >/dev/null; then
        cuobjdump -sass "$out/$name.fatbin" >"$out/sass"
        if ! grep -q EXIT "$out/sass"; then
            echo "FAILED: cuobjdump shows no instructions of '$name'"
            code=1
        elif matrix=$(grep -E '\b(HMMA|IMMA|DMMA|QGMMA|HGMMA|IGMMA|UTC[A-Z]*MMA)\b' "$out/sass"); then
            echo "FAILED: '$name' uses the tensor cores:"
            head -3 <<<"$matrix"
            code=1
        fi
    fi
    if command -v c++filt >/dev/null; then c++filt <"$out/table"; else cat "$out/table"; fi
done
command -v cuobjdump >/dev/null || echo "there is no cuobjdump: instructions were not looked at"
exit "$code"
