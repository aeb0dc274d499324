#!/usr/bin/env bash
# The scripts run under `pipefail`. There `producer | grep -q` fails now and then although the text is
# found: grep ends at the first match, and the producer is killed by SIGPIPE at its next write.
# `grep -q ... < <(producer)` does not depend on who is faster.
set -euo pipefail
cd "$(dirname "$0")/../.."
code=0
while IFS= read -r line; do
    echo "FAILED: $line: write grep -q PATTERN < <(PRODUCER)"
    code=1
done < <(grep -rnIE '[^|]\| *grep (-[a-zA-Z]+ )*-[a-zA-Z]*q' .ci scripts tests --exclude=test_shell.sh || true)
exit "$code"
