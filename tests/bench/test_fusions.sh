#!/usr/bin/env bash
# Tests which fusions `--fuse auto` chooses on the fake GPU (tests/kernels/cuda/fake), whose driver
# reports no clock rates. The record explains each choice. A second run reads the stored choices and
# times nothing. A run with `--fuse all` times nothing either.
. "$(dirname "$0")/../cli/common.sh" "$@"
cd "$scratch" || exit 1
need_fake_gpu
command -v python3 >/dev/null || skip "no python3"
expect 0 bench peak --threads 2 --rounds 1 --max-mib 4 --json
cp out peak.json

# step NAME ARGS...: writes the record of a step to NAME.json, and the number of timed executions to
# NAME.calls.
step() {
    local name=$1
    shift
    rm -f calls
    AMPSCALE_FAKE_COUNT=$scratch/calls expect 0 bench step --devices cuda:0 --net resnet8 \
        --image-size 8 -b 2 --rounds 1 --precision amp --peak peak.json --json "$@"
    cp out "$name.json"
    awk '$1 == "cudaEventQuery" { n += $2 + $3 } END { print n + 0 }' calls >"$name.calls"
}

step none --fuse none # times cuDNN's plans, and no operation
step auto
step again
step all --fuse all
times=$(grep -c '^time ' cache/ampscale/plans)
((times > 5)) || fail "the file of plans has only $times measured times"
(($(<auto.calls) > 0)) || fail "nothing was timed"
for name in again all; do
    [[ $(<$name.calls) == 0 ]] || fail "$name: operations were timed $(<$name.calls) times, not 0"
done
python3 - <<'CHECK' || fail "the assertion above about the records fails"
import json
none, auto, again, every = (json.load(open(f"{n}.json")) for n in ("none", "auto", "again", "all"))
assert none["fusions"] == every["fusions"] == [], "a choice that was nobody's"
fusions = auto["fusions"]
assert {f["form"] for f in fusions} >= {"stats", "mask"}, fusions
assert all(f["fused_s"] > 0 and f["parts_s"] > 0 for f in fusions), fusions
assert all(f["taken"] == (f["fused_s"] * 1.02 < f["parts_s"]) for f in fusions), fusions
assert fusions == again["fusions"], "the second run chose by other times"
ops = [[op["op"] for op in r["steps"]] for r in (auto, again)]
assert ops[0] == ops[1], "the second run has other operations"
sums = sum(f["taken"] for f in fusions if f["form"] in ("stats", "apply", "output"))
assert sums == ops[0].count("conv_stats_fwd"), (sums, ops[0])
CHECK

# If timing is not allowed, nothing is fused and nothing is timed.
rm -r cache
AMPSCALE_FAKE_COUNT=$scratch/quiet expect 0 train --devices cuda:0 --dummy --dummy-train 8 --dummy-val 2 \
    -a resnet8 --image-size 8 -b 2 --steps 1 --precision amp --deterministic --out run
! grep -q '^cudaEventQuery' quiet || fail "operations were timed with --deterministic: $(grep cudaEventQuery quiet)"
finish
