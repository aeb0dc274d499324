#!/usr/bin/env bash
# `ampscale bench peak` and `bench step`: their records. `bench step` reads the record of `bench
# peak`.
. "$(dirname "$0")/../cli/common.sh" "$@"
cd "$scratch" || exit 1
export OMP_WAIT_POLICY=passive

net=(--net resnet8 --image-size 32 -b 2 --threads 2 --rounds 2)
expect_error 2 "unknown command 'nonesuch'" bench nonesuch
expect_error 2 "unknown flag '--no-step'" bench step --no-step
# flags that all benchmarks share may come before the benchmark's name
expect 0 bench --threads 2 peak --rounds 1 --max-mib 4
echo '{}' >nothing.json
expect_error 5 "cannot take peaks from 'nothing.json'" bench step "${net[@]}" --peak nothing.json
expect_error 2 "--max-mib '3'" bench peak --max-mib 3
expect 0 bench peak --threads 2 --rounds 1 --max-mib 16
grep -q '^fp32 ' out || fail "the table has no row of fp32: $(<out)"
[[ $(grep -c ' MiB ' out) == 2 ]] || fail "the table has no bandwidth for several sizes: $(<out)"
expect 0 bench peak --threads 2 --rounds 1 --max-mib 16 --json
cp out peak.json
expect 0 bench step "${net[@]}" --peak peak.json --json
cp out step.json

# The record has the bytes of each operation, and the share of its bound that it reaches. Only
# convolutions and linear layers have FLOPs.
if command -v python3 >/dev/null; then
    python3 - <<'CHECK' || fail "the assertion above about the records fails"
import json
peak, step = json.load(open("peak.json")), json.load(open("step.json"))
assert step["peaks"] == peak, "the step's peaks are not those that it was given"
assert step["schema"] == 2 and len(step["steps"]) > 20
for op in step["steps"]:
    assert op["bytes"] > 0 and op["seconds"] > 0 and op["bound_s"] > 0, op
    assert abs(op["share"] * op["seconds"] - op["bound_s"]) < 1e-6 * op["bound_s"], op
    assert (op["flops"] > 0) == op["op"].startswith(("conv", "linear")), op
    assert op["bound"] == "memory" or op["flops"] > 0, op
CHECK
fi

expect 0 bench step "${net[@]}" --peak peak.json
[[ $(grep -c '^all ' out) == 1 ]] || fail "the table has no sum over all operations: $(tail -n 3 out)"

# The reference device has every fused form, and the record has the --fuse level.
expect_error 2 "--fuse 'some': give auto, none, stats, apply or all" bench step --fuse some
for how in none stats; do
    expect 0 bench step --devices ref --net resnet8 --image-size 8 -b 1 --rounds 1 --peak peak.json --fuse "$how" --json
    grep -q "\"fuse\": \"$how\"" out || fail "--fuse $how: the record has $(grep fuse out)"
    fused=$(grep -c '"op": "conv_stats_fwd"' out)
    [[ $how == none && $fused == 0 || $how == stats && $fused -gt 0 ]] || fail "with --fuse $how the step has $fused fused convolutions"
done
finish
