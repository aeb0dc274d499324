#!/usr/bin/env bash
# Finds `producer | grep -q` in scripts. Under `pipefail` it fails at random even if the text is
# found: grep exits at the first match, and SIGPIPE may then kill the producer. `grep -q ... <
# <(producer)` has no such race.
set -euo pipefail
cd "$(dirname "$0")/../.."
code=0
while IFS= read -r line; do
    echo "FAILED: $line: write grep -q PATTERN < <(PRODUCER)"
    code=1
done < <(grep -rnIE '[^|]\| *grep (-[a-zA-Z]+ )*-[a-zA-Z]*q' .ci scripts tests --exclude=test_shell.sh || true)
exit "$code"
