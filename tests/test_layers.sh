#!/usr/bin/env bash
# Arrows between rooms point down only: no source file includes a header of a room that its own may
# not use (docs/architecture.md). Argument: the source tree.
set -euo pipefail
cd "$1"

# A room, and the rooms it may use besides itself and base.
declare -A may_use=(
    [base]=""
    [kernels]=""
    [verify]="kernels"
    [model]="kernels"
    [input]=""
    [comm]="kernels"
    [results]=""
    [telemetry]="results"
    [runners]="kernels model input comm results telemetry"
    [plots]="results"
    [export]="results"
    [watch]="results"
    [compare]="results"
    [predict]="kernels model results"
    [bench]="kernels model input comm results runners"
    [launch]="results"
    [study]="results launch"
    [report]="results plots"
    [accept]="kernels model comm results bench launch study report"
    [cli]="kernels model input comm results telemetry runners plots export watch predict compare bench launch study report accept verify"
)

code=0
# Build folders, whatever they are called.
built=()
for cache in ./*/CMakeCache.txt; do
    [[ -e $cache ]] && built+=(-not -path "${cache%/*}/*")
done

mapfile -d '' -t sources < <(find . -mindepth 2 \( -name '*.[ch]' -o -name '*.cu' \) -not -path './tests/*' \
    -not -path './build/*' -not -path './.*/*' "${built[@]}" -printf '%P\0')

for file in "${sources[@]}"; do
    if [[ ! -v may_use[${file%%/*}] ]]; then
        echo "FAILED: '$file' is in a room that this test does not know"
        code=1
    fi
done

# One look at all files: "FILE:ROOM" for each room whose header a file includes.
while IFS=: read -r file used; do
    room=${file%%/*}
    if [[ -v may_use[$room] && " $room base ${may_use[$room]} " != *" $used "* ]]; then
        echo "FAILED: '$file' includes a header of '$used', which '$room' may not use"
        code=1
    fi
done < <(sed -snE '\|^ *# *include "([a-z]+)/.*|{s||\1|; F; p}' "${sources[@]}" /dev/null | paste -d: - - | sort -u)

if ((${#sources[@]} == 0)); then
    echo "FAILED: no source file was found"
    code=1
fi
echo "${#sources[@]} files"
exit "$code"
