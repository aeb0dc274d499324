#!/usr/bin/env bash
# What nvcc made of the CUDA kernels, read back from the module: machine code for each architecture
# that the build asks for, and no instructions of the tensor cores: what these kernels do is bound by
# memory, and matrices are cuDNN's and cuBLASLt's. (That no kernel spills registers nvcc itself says,
# as the module is built.) Prints the registers of each. Skipped (77) without cuobjdump.
# Arguments: the module, then the architectures: 80-real, 100-virtual ...
set -euo pipefail
module=$1
shift
for tool in cuobjdump nvdisasm; do
    if ! command -v "$tool" >/dev/null; then
        echo "skipped: there is no $tool to look into the module with"
        exit 77
    fi
done

out=$(mktemp -d)
trap 'rm -r "$out"' EXIT
code=0
cuobjdump -res-usage "$module" >"$out/usage"
cuobjdump -sass "$module" >"$out/sass"
for arch in "$@"; do
    [[ $arch == *-real ]] || continue
    if ! grep -qx "arch = sm_${arch%-real}" "$out/usage"; then
        echo "FAILED: there is no code for sm_${arch%-real}"
        code=1
    fi
done

# A kernel is two lines: its name, and what it uses.
awk '
    /^arch = / { arch = $3 }
    /^ Function / { kernel = substr($2, 1, length($2) - 1) }
    match($0, /^  REG:[0-9]+/) {
        printf "%-7s %4d registers  %s\n", arch, substr($0, 7, RLENGTH - 6), kernel
    }' "$out/usage" >"$out/table"
if ! grep -q registers "$out/table"; then
    echo "FAILED: cuobjdump says nothing of registers"
    code=1
fi
if command -v c++filt >/dev/null; then c++filt <"$out/table"; else cat "$out/table"; fi

if ! grep -q EXIT "$out/sass"; then
    echo "FAILED: cuobjdump shows no instructions"
    code=1
elif matrix=$(grep -E '\b(HMMA|IMMA|DMMA|QGMMA|HGMMA|IGMMA|UTC[A-Z]*MMA)\b' "$out/sass"); then
    echo "FAILED: a kernel uses the tensor cores:"
    head -3 <<<"$matrix"
    code=1
fi
exit "$code"
