#!/usr/bin/env bash
# Checks the includes of components. A source file may include only headers of its own component, of
# base, and of the components that its component may use (docs/architecture.md). The longest chain
# has at most eight components. The files of a component have no circular includes. Prints the
# longest chain. Argument: the source tree.
set -euo pipefail
cd "$1"
deepest=8

# For each component, the components that it may use besides itself and base.
declare -A may_use=(
    [base]=""
    [kernels]=""
    [model]="kernels"
    [input]=""
    [comm]="kernels"
    [results]=""
    [telemetry]="results"
    [engine]="kernels model input comm"
    [runners]="kernels model input comm results telemetry engine"
    [verify]="kernels model input results engine runners"
    [plots]="results"
    [export]="results"
    [watch]="results"
    [compare]="results"
    [predict]="model results"
    [bench]="kernels model input comm results engine"
    [launch]="comm results"
    [study]="input results launch"
    [report]="results plots"
    [accept]="kernels model comm results engine bench launch study report"
    [cli]="kernels model input comm results telemetry engine runners plots export watch predict compare bench launch study report accept verify"
)

code=0
# Build folders of any name are skipped.
built=()
for cache in ./*/CMakeCache.txt; do
    [[ -e $cache ]] && built+=(-not -path "${cache%/*}/*")
done

mapfile -d '' -t sources < <(find . -mindepth 2 \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' \) -not -path './tests/*' \
    -not -path './build/*' -not -path './.*/*' "${built[@]}" -printf '%P\0')

for file in "${sources[@]}"; do
    if [[ ! -v may_use[${file%%/*}] ]]; then
        echo "FAILED: '$file' is in a component that this test does not know"
        code=1
    fi
done

# includes: prints "FILE:COMPONENT" for each component whose header a file includes. Reads all
# files in one pass.
includes() {
    sed -snE '\|^ *# *include "([a-z]+)/.*|{s||\1|; F; p}' "${sources[@]}" /dev/null | paste -d: - - | sort -u
}

declare -A uses
while IFS=: read -r file used; do
    component=${file%%/*}
    [[ -v may_use[$component] && -v may_use[$used] && $component != "$used" ]] || continue
    uses[$component]+=" $used"
    if [[ " base ${may_use[$component]} " != *" $used "* ]]; then
        echo "FAILED: '$file' includes a header of '$used', which '$component' may not use"
        code=1
    fi
done < <(includes)

# chain_of COMPONENT: stores in `chains` the longest chain that begins with COMPONENT. Each chain is
# computed once. A component that is reached again while its chain is being computed is part of a
# circle.
declare -A chains
chain_of() {
    local used best=''
    if [[ ${chains[$1]-} == looking ]]; then
        echo "FAILED: a circle of components goes through '$1'"
        exit 1
    fi
    [[ ! -v chains[$1] ]] || return 0
    chains[$1]=looking
    for used in $(tr ' ' '\n' <<<"${uses[$1]-}" | sort -u); do
        chain_of "$used"
        (($(wc -w <<<"${chains[$used]}") <= $(wc -w <<<"$best"))) || best=${chains[$used]}
    done
    chains[$1]="$1${best:+ $best}"
}

longest=''
for component in "${!may_use[@]}"; do
    chain_of "$component"
    (($(wc -w <<<"${chains[$component]}") <= $(wc -w <<<"$longest"))) || longest=${chains[$component]}
done
depth=$(wc -w <<<"$longest")
echo "${#sources[@]} files; the longest chain has $depth components: ${longest// / > }"
if ((depth > deepest)); then
    echo "FAILED: the longest chain has $depth components, more than $deepest"
    code=1
fi

# A unit is a source file with its header, both without their suffixes. `edges` prints a pair for
# each unit that includes the header of another unit. A header without a source file cannot be part
# of a circle.
edges() {
    printf '%s\n' "${sources[@]}" | sed -nE 's/[.](c|cu)$//p' >"$units"
    sed -snE '\|^ *# *include "([a-z]+/[^"]*)[.]h".*|{s||\1|; F; p}' "${sources[@]}" /dev/null |
        sed -E 's/[.](h|c|cu)$//' | paste -d' ' - - | sort -u |
        awk 'NR == FNR { unit[$1]; next } $1 != $2 && ($1 in unit) && ($2 in unit)' "$units" -
}

# tsort reports each circle: a line that ends with "loop:", and then a line "tsort: UNIT" for each
# of its units.
units=$(mktemp)
trap 'rm -f "$units"' EXIT
circles=$(edges | { LC_ALL=C tsort 2>&1 >/dev/null || true; } |
    awk '/loop:$/ { n++; next } { circle[n] = circle[n] " " $2 } END { for (i = 1; i <= n; i++) print circle[i] }')
while read -r circle; do
    echo "FAILED: a circle of files: $circle"
    code=1
done < <(sed '/^$/d; s/^ //' <<<"$circles")
if ((${#sources[@]} == 0)); then
    echo "FAILED: no source file was found"
    code=1
fi
exit "$code"
