#!/usr/bin/env bash
# Tests the lint of words: it finds each phrase of docs/words.md, each of its patterns finds a
# phrase, it accepts correct uses, and it finds nothing in the project.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
code=0

fail() {
    echo "FAILED: $*"
    code=1
}

lint() {
    (cd "$scratch" && awk -f "$here/words.awk" "$here/words.list" "$@") || true
}

# Writes each phrase to its own file, named by its number. In a common file, neighbouring phrases
# could form a match.
sed -n '/^## Terms to avoid/,/^## Sentences/p' "$here/../../docs/words.md" |
    awk -F'|' '/^\|/ && !/^\|(--| avoid)/ { n = split($2, p, ", "); for (i = 1; i <= n; i++) print p[i] }' >"$scratch/phrases"
n=0
while read -r phrase; do
    n=$((n + 1))
    echo "$phrase" >"$scratch/$n"
    [[ -n $(lint "$n") ]] || fail "the lint does not find '$phrase', which docs/words.md lists"
done <"$scratch/phrases"
((n > 30)) || fail "the test read only $n phrases from docs/words.md"

# A phrase is found across a line break, inside a name, and in capitals, but not across the end of a
# sentence.
mkdir -p "$scratch/runners" "$scratch/cmake"
printf ' * the run goes\n * on from epoch 2\n' >"$scratch/broken.c"
printf 'enum status run_goes_on(void);\nCENSUS_BINS\n' >"$scratch/name.h"
printf 'static void announce(void)\n' >"$scratch/runners/run.c"
printf 'foreach(room base)\n' >"$scratch/cmake/Compile.cmake"
[[ $(lint broken.c) == "broken.c:2: goes on -> "* ]] || fail "the lint does not find a phrase across a line break: $(lint broken.c)"
[[ $(lint name.h | wc -l) == 2 ]] || fail "the lint does not find two phrases inside names: $(lint name.h)"
[[ -n $(lint runners/run.c) && -n $(lint cmake/Compile.cmake) ]] || fail "the lint ignores patterns that are for some files only"
while IFS= read -r line; do
    printf '%s\n' "$line" >"$scratch/pattern"
    [[ -n $(cd "$scratch" && awk -v list=1 -f "$here/words.awk" pattern [0-9]* ./*.[ch] runners/run.c cmake/Compile.cmake) ]] ||
        fail "this pattern of words.list matches no phrase of the test: $line"
done < <(grep -vE '^(#|$)' "$here/words.list")

printf '%s\n' 'what it is. On the host' 'bytes in flight' 'to tell them apart' 'has room for n' 'in order to go' \
    'enqueued beside it' 'the stream goes on the list' 'the thread notices it' >"$scratch/right.md"
[[ -z $(lint right.md) ]] || fail "the lint reports correct uses: $(lint right.md)"

bash "$here/words.sh" || fail "the project uses the phrases above; docs/words.md has the terms to use instead"
exit "$code"
