#!/usr/bin/env bash
# Tests scripts/peers: its flags, its statistics, its records and their report. Also validates the
# records by their schemas. If a Python with PyTorch is installed, measures one tiny pair.
. "$(dirname "$0")/../cli/common.sh" "$@"
cd "$scratch" || exit 1
peers=$source_dir/scripts/peers
command -v python3 >/dev/null || skip "there is no python3"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$source_dir/tests/peers

# A wrong flag must result in one line and exit code 2.
"$peers" --help >out 2>err || fail "--help exited with $?"
grep -q '^usage: scripts/peers ' out && [[ ! -s err ]] || fail "--help does not print the usage on stdout: $(cat out err)"
"$peers" --list >out 2>err || fail "--list exited with $?"
for name in resnet50-fp32 resnet18-fp32 input start memory ddp checkpoint resume accuracy; do
    grep -q "^$name  *[^ ]" out || fail "--list lacks '$name': $(cat out)"
done
refused() {
    local text=$1 code=0
    shift
    "$peers" "$@" >out 2>err </dev/null || code=$?
    ((code == 2)) && [[ ! -s out && $(wc -l <err) == 1 ]] && grep -qF -- "$text" err ||
        fail "'peers $*' exited with $code: $(cat out err)"
}
refused "unknown argument '--nothing'" --nothing
refused "--turns '0': give a whole number from 1" --turns 0
refused "-o lacks its value" -o
refused "--only 'nothing': there is no such pair" --only input,nothing
refused "--only accuracy: it writes a record of another kind" --only accuracy,input
refused "there is no program '/none/ampscale'" --program /none/ampscale

# Every file must be valid Python. Quantiles of Student's t distribution and of the sign test must
# equal those in published tables.
python3 - "$peers" "$source_dir"/tests/peers/*.py <<'END' || fail "the statistics are wrong"
import ast, sys
import peer_stats as s
for path in sys.argv[1:]:
    ast.parse(open(path).read(), path)
for p, df, t in ((0.025, 19, 2.0930), (0.05, 38, 1.6860), (0.025, 1, 12.7062), (0.05, 2.5, 2.5582)):
    assert abs(s.t_quantile(p, df) - t) < 2e-4 * t, (p, df, s.t_quantile(p, df))
assert s.median_interval([6, 5, 1, 2, 3, 4], 0.95) == (1, 6)
assert s.median_interval([1, 2, 3, 4, 5], 0.95) is None
assert s.median_interval(range(20), 0.95) == (5, 14)
near = s.difference([1.0, 2.0, 3.0], [1.1, 2.1, 3.1], 0.95, 2.0)
assert near["equivalent"] and near["low"] < near["difference"] < near["high"], near
assert not s.difference([1.0, 2.0, 3.0], [1.1, 2.1, 3.1], 0.95, 1.5)["equivalent"]
assert not s.difference([1.0, 2.0, 3.0], [4.0, 5.0, 6.0], 0.95, 2.0)["equivalent"]
assert s.difference([1.0, 1.0], [1.5, 1.5], 0.95, 2.0)["equivalent"]
END

# scripts/peers discards a turn that other programs have disturbed. If a peer program fails, its
# name is recorded; if ampscale fails, the script ends.
mkdir -p records/machine
cat >made.py <<'END'
"""Makes Peers without programs."""
import common
import machine

peers = common.Peers("", ".", 2, False, 0.03)
peers.say, peers.call = (lambda text: None), (lambda command: "")
peers.versions, commit = {"torch": "9.1", "nvidia.dali": "9.2"}, ["a"]
peers.about = lambda: {"cpu": "a processor", "device": "a processor, 2 threads", "cores": 2, "threads": 2,
                       "version": "0.1.0", "commit": commit[0], "build": "Release",
                       "peers": peers.versions, "absent": peers.absent}
END
python3 - "$peers" <<'END' || fail "the assertion about turns and failed programs fails"
import importlib.machinery, importlib.util, sys
loader = importlib.machinery.SourceFileLoader("script", sys.argv[1])
script = importlib.util.module_from_spec(importlib.util.spec_from_loader("script", loader))
loader.exec_module(script)
sys.path.insert(0, ".")
import machine, turns
from common import PeerError, write_record
from made import peers
from pairs import Pair
from sides import Side
shares = []
class Watch:
    def __enter__(self): return self
    def __exit__(self, *_): self.others, self.steal = (shares.pop(0) if shares else 0.0), 0.0
machine.Watch = Watch
turns.PROBE = turns.PATIENCE = 0
assert turns.is_quiet(0.03)
shares[:] = [0.5]
assert not turns.is_quiet(0.03)
turns.is_quiet = lambda limit: True
def broken(): raise PeerError("it ended | early")
def side(name, *values):
    left = [values[0], *values]
    return Side(name, lambda: left.pop(0) if len(left) > 1 else left[0])
step = Pair("resnet18-fp32", "a step", "images/s", "higher", lambda _: [
    side("ampscale", 120.0), side("PyTorch eager", 100.0, 100.0, 99.0, 100.0, 102.5, 100.0), Side("broken", broken)])
memory = Pair("memory", "peak memory", "MiB", "lower", lambda _: [side("ampscale", 1500.0), side("PyTorch eager", 2000.0)])
ddp = Pair("ddp", "two ranks", "images/s", "higher", memory.sides)
absent = Pair("resnet50-bf16", "a step", "images/s", "higher", memory.sides, absent=lambda: "it has no bf16")
# two turns of the first pair are disturbed, at their second side and their first, and every one of ddp
shares[:] = [0.0, 0.5, 0.04, 0.0, 0.0]
record = script.measure(peers, [step, memory, absent], 6, "records/machine/peers.json")
shares[:] = [0.5] * 99
record["pairs"].append(turns.measure_pair(peers, ddp, 6))
write_record(record, "records/machine/peers.json")
assert [(p["turns"], p["thrown_away"]) for p in record["pairs"]] == [(6, 2), (2, 0), (0, 7)], record
assert [row["side"] for row in record["pairs"][0]["rows"]] == ["ampscale", "PyTorch eager"], record
shares[:] = []
try:
    turns.measure_pair(peers, Pair("p", "w", "s", "lower", lambda _: [Side("ours", broken)]), 2)
    sys.exit("ours failed, and nothing said so")
except PeerError:
    pass
END

# The accuracy study trains only runs that the record lacks. It refuses a record that another
# program wrote.
python3 - <<'END' >out 2>&1 || fail "the continued study is wrong: $(cat out)"
import json, sys
sys.path.insert(0, ".")
import accuracy
from made import commit, peers
trained = []
def run_side(peers, data, name, seed):
    trained.append((name, seed))
    tops = {accuracy.REFERENCE: (90.0, 91.0, 92.0), "O1": (80.5, 81.0, 81.2)}
    return {"seed": seed, "top1": tops.get(name, (90.5, 91.0, 91.2))[seed - 1], "loss": 1.0}
accuracy.run_side = run_side
path = "records/machine/peers-accuracy.json"
assert len(accuracy.measure(peers, path, 1, 1)["sides"]) == 6 and len(trained) == 6
record = accuracy.measure(peers, path, 3, 2)
assert len(trained) == len(set(trained)) == 18, trained
assert record == json.load(open(path))
assert all([r["seed"] for r in s["runs"]] == [1, 2, 3] for s in record["sides"])
commit[0] = "b"
try:
    accuracy.measure(peers, path, 3, 1)
    sys.exit("a record of another program was continued")
except SystemExit as end:
    assert end.code == 1
END

# Checks the report on the records, and validates the records by their schemas.
expect 0 report --no-figures records -o peers.md
for line in '### Beside other programs: peers' '### Accuracy beside PyTorch: peers-accuracy' \
    'a processor, 2 threads; ampscale 0.1.0 (Release); torch 9.1, nvidia.dali 9.2.' \
    '- Not measured: resnet50-bf16: it has no bf16.' '- Not measured: resnet18-fp32: broken: it ended \| early.' \
    '|  | PyTorch eager | 100 | 99 | 102 | images/s | 1.200 (1.171 to 1.212) |' \
    '|  | PyTorch eager | 2000 | 2000 | 2000 | MiB | 0.750 |' \
    '| fp32 | 3 | 90.9 (90.0 to 91.8) | 0.36 | -0.1 (-2.3 to 2.1) | yes |' \
    '| O1 | 3 | 80.9 (80.0 to 81.8) | 0.36 | -10.1 (-12.3 to -7.9) | not shown |'; do
    grep -qxF -- "$line" peers.md || fail "the report lacks '$line': $(cat peers.md)"
done
grep -q '^- ddp: two ranks; images/s, higher is better; 0 turns, 7 thrown away; ' peers.md || fail "the report of ddp: $(cat peers.md)"
validate() { bash "$source_dir/tests/peers/run.sh" jsonschema "$source_dir/tests/schema/validate.py" "$source_dir/docs/schema" "$@"; }
schemas=0
validate records >valid 2>&1 || schemas=$?
((schemas == 0 || schemas == 77)) || fail "the records do not match the schema: $(cat valid)"

# Measures a real pair. AMPSCALE_PEERS names a folder that is not a virtual environment: the script
# then installs nothing.
((failures == 0)) || finish
export AMPSCALE_PEERS=${AMPSCALE_PEERS:-/usr}
! sanitized && bash "$source_dir/tests/peers/run.sh" 'torch, torchvision' -c pass >/dev/null 2>&1 ||
    skip "no pair was measured, because $AMPSCALE_PEERS has no torchvision (scripts/setup --peers installs it), or because the build has sanitizers"
"$peers" --only try --quick --limit 100 --threads 1 --program "$program" -o try.json >out 2>err ||
    fail "the pair 'try' exited with $?: $(cat out err)"
grep -q '^| try | ampscale |' out && grep -qE '\| PyTorch eager \| [0-9.]+' out || fail "the table does not have both programs: $(cat out err)"
((schemas == 77)) || validate try.json >valid 2>&1 || fail "the record does not match the schema: $(cat valid)"
finish
