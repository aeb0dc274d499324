#!/usr/bin/env bash
# Runs a Python script with the first interpreter that has the required modules. If no interpreter
# has them, prints a message and exits with 77, which ctest reports as skipped. `scripts/setup
# --peers` installs the first of the interpreters; the last ones are where images of machines with
# GPUs keep PyTorch. If AMPSCALE_PEERS is set, tries only bin/python3 in that folder.
#
# usage: run.sh MODULES SCRIPT [ARGS...]     MODULES as in an import statement: "torch, numpy"
set -euo pipefail

modules=$1
shift
pythons=("$(dirname "$0")/../../build/peers/bin/python3" python3 "${VIRTUAL_ENV:-/usr}/bin/python3"
    /opt/*/bin/python3 /opt/*/.venv/bin/python3 /usr/local/bin/python3 ~/.venv/bin/python3 /usr/bin/python3)
[[ -z ${AMPSCALE_PEERS-} ]] || pythons=("$AMPSCALE_PEERS/bin/python3")
for python in "${pythons[@]}"; do
    # Finds the modules without importing them. An import takes seconds, and the script imports them
    # later.
    if "$python" -c 'import sys, importlib.util as u
sys.exit(any(not u.find_spec(m.strip().split(".")[0]) for m in sys.argv[1].split(",")))' "$modules" 2>/dev/null; then
        exec "$python" "$@"
    fi
done
echo "no Python has $modules; run scripts/setup --peers, or set AMPSCALE_PEERS to a folder with bin/python3"
exit 77
