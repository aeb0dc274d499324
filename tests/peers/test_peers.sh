#!/usr/bin/env bash
# Tests scripts/peers: its flags, its statistics and its report. Also validates the records by their
# schemas. If a Python with PyTorch is installed, measures one tiny pair.
. "$(dirname "$0")/../cli/common.sh" "$@"
cd "$scratch" || exit 1
peers=$source_dir/scripts/peers
if ! command -v python3 >/dev/null; then
    echo "skipped: there is no python3"
    exit 77
fi
export PYTHONDONTWRITEBYTECODE=1

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
refused "unknown argument 'more'" --quick more
refused "--turns '0': give a whole number from 1" --turns 0
refused "--limit 'x': give a whole number from 1" --limit=x
refused "-o lacks its value" -o
refused "--only 'nothing': there is no such pair" --only input,nothing
refused "--only accuracy: it writes a record of another kind" --only accuracy,input
refused "there is no program '/none/ampscale'" --program /none/ampscale

# Every file must be valid Python. Quantiles of Student's t distribution and of the sign test must
# equal those in published tables.
for file in "$peers" "$source_dir"/tests/peers/*.py; do
    python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$file" 2>err || fail "$file: $(tail -n 1 err)"
done
python3 - "$source_dir/tests/peers" <<'END' || fail "the statistics are wrong"
import sys
sys.path.insert(0, sys.argv[1])
import peer_stats as s
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
python3 - "$source_dir/tests/peers" <<'END' || fail "the assertion about turns and failed programs fails"
import sys
sys.path.insert(0, sys.argv[1])
import machine, turns
from common import PeerError, Peers
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
def broken(): raise PeerError("it is not there")
made = lambda _: [Side("ours", lambda: 2.0), Side("theirs", lambda: 1.0), Side("broken", broken)]
peers = Peers("", "", 1, True, 0.03)
peers.say = lambda text: None
shares[:] = [0.0, 0.5, 0.04, 0.0, 0.0]
got = turns.measure_pair(peers, Pair("p", "w", "s", "lower", made), 6)
assert (got["turns"], got["thrown_away"]) == (6, 2), got
assert [r["side"] for r in got["rows"]] == ["ours", "theirs"], got
assert got["rows"][1]["ratio"] == 2 and got["rows"][1]["low"] == got["rows"][1]["high"] == 2, got
assert peers.absent == {"p: broken": "it is not there"}, peers.absent
shares[:] = [0.5] * 99
got = turns.measure_pair(peers, Pair("p", "w", "s", "lower", made), 2)
assert (got["turns"], got["thrown_away"], got["rows"]) == (0, 3, []), got
got = turns.measure_pair(peers, Pair("p", "w", "MiB", "lower", made), 2)
assert (got["turns"], got["thrown_away"]) == (2, 0), got
turns.is_quiet = lambda limit: limit == 1
got = turns.measure_pair(peers, Pair("p", "w", "s", "lower", made), 2)
assert (got["turns"], got["thrown_away"], got["rows"]) == (0, 1, []), got
turns.is_quiet = lambda limit: True
shares[:] = []
try:
    turns.measure_pair(peers, Pair("p", "w", "s", "lower", lambda _: [Side("ours", broken)]), 2)
    sys.exit("ours failed, and nothing said so")
except PeerError:
    pass
END

# The accuracy study trains only runs that the record lacks. It refuses a record that another
# program wrote.
python3 - "$source_dir/tests/peers" <<'END' >out 2>&1 || fail "the continued study is wrong: $(cat out)"
import json, sys
sys.path.insert(0, sys.argv[1])
import accuracy
from common import Peers
trained = []
def run_side(peers, data, name, seed):
    trained.append((name, seed))
    return {"seed": seed, "top1": 90.0 + seed % 3, "loss": 1.0}
accuracy.run_side = run_side
peers = Peers("", ".", 1, False, 0.03)
peers.call = lambda command: ""
commit = ["a"]
peers.about = lambda: {"peers": {}, "commit": commit[0], "cores": 1}
assert len(accuracy.measure(peers, "study.json", 1, 1)["sides"]) == 6 and len(trained) == 6
record = accuracy.measure(peers, "study.json", 3, 2)
assert len(trained) == len(set(trained)) == 18, trained
assert record == json.load(open("study.json"))
assert all([r["seed"] for r in s["runs"]] == [1, 2, 3] for s in record["sides"])
assert all(s["apart"]["equivalent"] for s in record["sides"][1:])
commit[0] = "b"
try:
    accuracy.measure(peers, "study.json", 3, 1)
    sys.exit("a record of another program was continued")
except SystemExit as end:
    assert end.code == 1
END

# Checks the report on the records, and validates the records by their schemas.
expect 0 report --no-figures "$source_dir/tests/peers/records" -o peers.md
for line in '### Beside other programs: peers' '### Accuracy beside PyTorch: peers-accuracy' \
    'a processor, 2 threads; ampscale 0.1.0 (Release); torch 9.1, nvidia.dali 9.2.' \
    '- Not measured: resnet50-bf16: the processor has no bf16 instructions.' \
    '- ddp: two ranks; images/s, higher is better; 0 turns, 7 thrown away; largest share of other processes 0.0 %, of the hypervisor 0.0 %; load 9.0.' \
    '|  | PyTorch eager | 100.0 | 99.00 | 102.5 | images/s | 1.200 (1.170 to 1.210) |' \
    '|  | PyTorch eager | 2000 | 2000 | 2000 | MiB | 0.750 |' \
    '| fp32 | 3 | 90.90 (90.00 to 91.80) | 0.36 | -0.10 (-2.29 to 2.09) | yes |' \
    '| O1 | 3 | 80.90 (80.00 to 81.80) | 0.36 | -10.10 (-12.29 to -7.91) | not shown |' '| bf16 | 0 | – | – | – | – |'; do
    grep -qxF -- "$line" peers.md || fail "the report lacks '$line': $(cat peers.md)"
done
validate() { bash "$source_dir/tests/peers/run.sh" jsonschema "$source_dir/tests/schema/validate.py" "$source_dir/docs/schema" "$@"; }
schemas=0
validate "$source_dir/tests/peers/records" >valid 2>&1 || schemas=$?
((schemas == 0 || schemas == 77)) || fail "the records do not match the schema: $(cat valid)"

# Measures a real pair. AMPSCALE_PEERS names a folder that is not a virtual environment: the script
# then installs nothing.
((failures == 0)) || finish
folder=${AMPSCALE_PEERS:-/usr}
if sanitized || ! AMPSCALE_PEERS=$folder bash "$source_dir/tests/peers/run.sh" 'torch, torchvision' -c pass >/dev/null 2>&1; then
    echo "skipped: no pair was measured, because $folder has no torchvision (scripts/setup --peers installs it), or because the build has sanitizers"
    exit 77
fi
AMPSCALE_PEERS=$folder "$peers" --only try --quick --limit 100 --threads 1 --program "$program" -o try.json >out 2>err ||
    fail "the pair 'try' exited with $?: $(cat out err)"
grep -q '^try  *ampscale ' out && grep -qE 'PyTorch eager  .* [0-9.]+ ' out || fail "the table does not have both programs: $(cat out err)"
((schemas == 77)) || validate try.json >valid 2>&1 || fail "the record does not match the schema: $(cat valid)"
finish
