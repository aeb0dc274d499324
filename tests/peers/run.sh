#!/usr/bin/env bash
# Runs a Python script with the first interpreter that has what it imports; without one, says so and
# exits 77, which ctest reports as skipped. `scripts/setup --peers` makes the first of the three.
#
# usage: run.sh MODULES SCRIPT [ARGS...]     MODULES as in an import statement: "torch, numpy"
set -euo pipefail

modules=$1
shift
for python in "$(dirname "$0")/../../build/peers/bin/python3" python3 /usr/bin/python3; do
    if "$python" -c "import $modules" 2>/dev/null; then
        exec "$python" "$@"
    fi
done
echo "no Python has $modules; run scripts/setup --peers"
exit 77
