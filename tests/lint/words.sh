#!/usr/bin/env bash
# Finds words that docs/words.md bans in code, messages, documents, scripts and tests.
#
#     words.sh [--count] [COMPONENT ...]
#
# Prints FILE:LINE: words -> term for each match, and exits with 1 if there is a match. A component
# is a top-level folder (base, docs, ...), docs/man, a folder of tests (tests/base), or 'top' for
# the files at the top level. Without an argument, all components are checked. --count prints the
# number of matches in each component instead.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."

count=''
if [[ ${1-} == --count ]]; then
    count=1
    shift
fi

# Only texts that people write are checked. Records, RESULTS.md (made from records) and the lists of
# words are skipped.
texts() {
    local built=()
    for cache in ./*/CMakeCache.txt; do # build folders, whatever they are called
        [[ ! -e $cache ]] || built+=(-path "${cache%/*}" -o)
    done
    find . \( -path './.*' -o "${built[@]}" -path ./build -o -path ./results/recorded -o -path ./results/published \) \
        -prune -o -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.in' \
        -o -name '*.json' -o -name '*.sh' -o -name '*.awk' -o -name '*.py' -o -name '*.gp' -o -name '*.bash' -o -name '*.cmake' \
        -o -name CMakeLists.txt -o -name '*.md' -o -name '*.1' -o -name '*.yml' -o -path './scripts/*' \) \
        -printf '%P\n' | grep -vE '^RESULTS\.md$|^docs/words\.md$|^tests/lint/' | LC_ALL=C sort
}

# with_component: prefixes each FILE with its component.
with_component() {
    awk -F/ '{ print (NF == 1 ? "top" : ($1 == "tests" || $2 == "man") && NF > 2 ? $1 "/" $2 : $1) "\t" $0 }'
}

find_words() {
    LC_ALL=C awk "$@" -f "$here/words.awk" "$here/words.list" "${files[@]}"
}

mapfile -t files < <(texts | with_component | awk -F'\t' -v wanted="$*" '
    BEGIN { n = split(wanted, names, " "); for (i = 1; i <= n; i++) want[names[i]] }
    n == 0 || $1 in want { print $2 }')
if ((${#files[@]} == 0)); then
    echo "FAILED: no text was found in '$*'"
    exit 1
fi
if [[ $count ]]; then
    find_words -v list=1 | with_component | cut -f1 | sort | uniq -c | sort -rn
else
    find_words
fi
