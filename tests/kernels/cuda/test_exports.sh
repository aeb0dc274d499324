#!/usr/bin/env bash
# Checks the symbols of modules. A module exports its backend, its described GPUs, the JPEG decoder
# and, if it has NCCL, its communicators. A module uses functions of the program, and must not
# contain copies of them. The program must export these functions. The test checks four of them.
# Arguments: the program, then modules. Skipped (77) without nm.
set -euo pipefail
program=$1
shift
if ! command -v nm >/dev/null; then
    echo "skipped: nm, which lists the symbols of a module, is not installed"
    exit 77
fi
code=0
offered=$(nm -D --defined-only "$program" | awk '{ print $3 }' | sort -u)
for module in "$@"; do
    used=$(nm -D --undefined-only "$module" | awk '{ print $2 }')
    shown=$(nm -D --defined-only "$module" | awk '{ print $3 }')
    others=$(grep -vxE 'ampscale_cuda_(backend|described|nccl|nvjpeg)' <<<"$shown" || true)
    if [[ -n $others ]] || ! grep -qx ampscale_cuda_backend <<<"$shown"; then
        echo "FAILED: '$module' exports: $(paste -sd' ' <<<"$shown")"
        code=1
    fi
    for name in status_fail op_check bn_sync_sum tensor_count; do
        if ! grep -qx "$name" <<<"$used"; then
            echo "FAILED: '$module' contains a copy of '$name'; it must use the program's function"
            code=1
        elif ! grep -qx "$name" <<<"$offered"; then
            echo "FAILED: the program does not export '$name'"
            code=1
        fi
    done
done
exit "$code"
