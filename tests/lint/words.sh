#!/usr/bin/env bash
# Finds words that docs/words.md bans in code, messages, documents, scripts and tests.
#
#     words.sh [PATH ...]
#
# Prints FILE:LINE: words -> term for each match, and exits with 1 if there is a match. Without a
# path, the whole project is checked. Only texts that people write are: not records, not RESULTS.md,
# which is made from records, and not the lists of words.
set -euo pipefail
cd "$(dirname "$0")/../.."

mapfile -t files < <(git ls-files --cached --others --exclude-standard -- "$@" |
    grep -E '\.([ch]|cuh?|cpp|in|json|sh|awk|py|gp|bash|cmake|md|1|yml)$|CMakeLists\.txt$|^scripts/' |
    grep -vE '^results/(recorded|published)/|^RESULTS\.md$|^docs/words\.md$|^tests/lint/')
((${#files[@]})) || { echo "FAILED: no text was found in '$*'" && exit 1; }
LC_ALL=C awk -f tests/lint/words.awk tests/lint/words.list RS='\001' "${files[@]}"
