#!/usr/bin/env bash
# Each benchmark of the CPU once, with its smallest sizes: the record agrees with itself and with the
# formulas, and the CSV has the same rows. Also flags that are refused, and a signal.
. "$(dirname "$0")/../cli/common.sh" "$@"
cd "$scratch" || exit 1
export OMP_WAIT_POLICY=passive TMPDIR=$scratch

# both NAME ARGS...: prints the table, and writes the record to NAME.json and the CSV to NAME.csv.
both() {
    expect 0 "${@:2}"
    expect 0 "${@:2}" --csv
    cp out "$1.csv"
    expect 0 "${@:2}" --json
    cp out "$1.json"
}

echo '{"schema": 1, "bench": "peak", "device": "x", "copy": [{"bytes": 4e6, "bytes_per_s": 1e10}],
      "flops": [{"type": "fp32", "flops_per_s": 1e12}]}' >made.json
net=(--net resnet8 --image-size 32 -b 2 --threads 1)
made=(--peak made.json --warmup 1)
expect 0 bench --threads 2 peak --rounds 1 --max-mib 4 --json # shared flags may come first
cp out peak.json
expect 0 bench peak --threads 2 --rounds 1 --max-mib 4
expect 0 bench step "${net[@]}" --rounds 1 --peak peak.json
[[ $(grep -c '^all ' out) == 1 ]] || fail "the table has no sum over all operations: $(tail -n 3 out)"
expect 0 bench step "${net[@]}" --rounds 1 --peak peak.json --json
cp out step.json
expect_error 5 "the device 'cpu' has no profiler" bench step "${net[@]}" --profile-one-step --peak peak.json
for fuse in none stats; do # the reference device has every fused form
    expect 0 bench step --devices ref --net resnet8 --image-size 8 -b 1 --rounds 1 --peak peak.json --fuse $fuse --json
    cp out $fuse.json
done
expect 0 bench conv "${net[@]}" --rounds 1
expect 0 bench conv "${net[@]}" --rounds 1 --json
cp out conv.json
both gemm bench gemm "${net[@]}" --precision all "${made[@]}" --iters 2
both tt bench gemm -m 4 -n 3 -k 2 --a-t --b-t --threads 1 "${made[@]}" --iters 2
both optimizer bench optimizer --net resnet8 --threads 1 "${made[@]}" -n 2
both memory bench memory --threads 1 --max-mib 4 -n 2 -w 1
both collective bench collective reduce-scatter -b 1K -e 2K -n 2 -w 1
expect 0 data synth --out set --classes 2 --train 4 --val 1 --size 40
both input bench input --image-size 32 -b 5 -n 2 -w 0 --data set --threads 2
expect 0 launch --nproc 2 --log-dir logs -- bench overlap "${net[@]}" --rounds 1 --bucket-mb 0.01,0
[[ $(grep -c '^bucket ' out) == 1 && $(grep -c ' lowest$' out) == 1 ]] || fail "the table of two ranks: $(<out)"
# Peaks that are too low: products reach more than they allow, but not a copy of data that is smaller
# than any whose copy was measured.
sed -E 's/1e1[02]/1e3/g' made.json >low.json
expect 0 bench gemm -m 64 -n 64 -k 64 --threads 1 --peak low.json --warmup 0 --iters 1
[[ $(grep -c 'above the measured peak$' out) == 1 && $(<err) == *"1 of 1 rows are above the measured peak"* ]] ||
    fail "a share above 1 is not remarked: $(cat out err)"
expect 0 bench gemm -m 64 -n 64 -k 64 --threads 1 --peak low.json --warmup 0 --iters 1 --markdown
grep -q '| above the measured peak |$\|; above the measured peak |$' out || fail "no remark in Markdown: $(<out)"
expect 0 bench gemm -m 64 -n 64 -k 64 --threads 1 --peak low.json --warmup 0 --iters 1 --json
cp out low-gemm.json
expect 0 bench optimizer --net resnet8 --threads 1 --peak low.json --warmup 0 -n 1 --precision fp32 --json
cp out low-optimizer.json
# More threads than cores.
expect 0 bench memory --threads $(($(nproc) + 1)) --max-mib 4 -n 1 -w 0 --json
cp out many-memory.json
[[ $(<err) == *"$(($(nproc) + 1)) threads on "* ]] || fail "too many threads are not remarked: $(<err)"
for how in fp32 amp; do
    # shellcheck disable=SC2046
    expect 0 launch --nproc 2 --threads 1 --log-dir logs -- bench overlap --net resnet8 --image-size 32 -b 2 --rounds 2 \
        --bucket-mb 0.01,0.1,0 --precision $how $([[ $how == fp32 ]] || echo --grad-compress bf16) --json
    cp out overlap-$how.json
done

command -v python3 >/dev/null || skip "no python3"
python3 - <<'CHECK' || fail "the assertion above about the records fails"
import csv, json

def near(a, b, digits=6):
    return abs(a - b) <= 10 ** -digits * (abs(a) + abs(b)) + 1e-12

def load(name):
    r = json.load(open(name + ".json"))
    assert r["schema"] and r["bench"] in (name.split("-")[0], name.split("-")[-1], "step", "gemm"), name
    return r

peak, step = load("peak"), load("step")
assert all(step["peaks"][key] == peak[key] for key in ("device", "copy", "flops")) and len(step["steps"]) > 20
for entry in peak["copy"] + peak["flops"]:
    assert entry["noise"]["seconds"] > 0, entry
heads = "measured", "host", "version", "build", "oversubscribed"
for name in "peak", "step", "conv", "gemm", "optimizer", "memory", "collective", "input", "overlap-amp":
    r = load(name)
    assert all(key in r for key in heads) and r["host"]["hostname"], (name, list(r))
    rows = [r] if name in ("step", "conv", "overlap-amp") else r["copy"] if name == "peak" else r["rows"]
    if name == "collective":
        rows = [row["in_place"] for row in rows]
    for row in rows:
        assert not row.get("measured", True) or {"disturbed", "reason", "seconds"} <= set(row["noise"]), row
assert load("low-gemm")["rows"][0]["above_peak"] and not load("low-optimizer")["rows"][0]["above_peak"]
assert not load("gemm")["oversubscribed"] and load("many-memory")["oversubscribed"]
for op in step["steps"]:
    assert op["bytes"] > 0 and near(op["share"] * op["seconds"], op["bound_s"]), op
    assert (op["flops"] > 0) == op["op"].startswith(("conv", "linear")), op
    assert op["bound"] == "memory" or op["flops"] > 0, op
for fuse in "none", "stats":
    r = load(fuse)
    assert r["fuse"] == fuse and any(op["op"] == "conv_stats_fwd" for op in r["steps"]) == (fuse == "stats")

r = load("conv")
assert r["wrong"] == 0 and r["step_share_of_bound"] > 0, r
shapes = {json.dumps([shape[k] for k in ("x", "w", "stride", "pad", "groups")]) for shape in r["shapes"]}
assert len(shapes) == len(r["shapes"]) < 9 == sum(shape["fwd"]["count"] for shape in r["shapes"]), r
for shape in r["shapes"]:
    passes = [shape[p] for p in ("fwd", "bwd_data", "bwd_weights") if p in shape]
    assert len(passes) >= 2 and all(p["wrong"] == 0 and p["seconds"] > 0 for p in passes), shape

rows = {}
for name in "gemm", "optimizer", "memory", "collective", "input":
    rows[name] = load(name)["rows"]
    lines = list(csv.DictReader(open(name + ".csv")))
    assert all(line["disturbed"] in ("0", "1", "") and "others" in line for line in lines), lines
    assert len(lines) == len(rows[name]) * (2 if name == "collective" else 1) > 0, name
    for row in rows[name]:
        for place in [row] if name != "collective" else [row["out_of_place"], row["in_place"]]:
            s = place["seconds"]
            assert place["wrong"] == 0 and s["n"] == 2, row
            assert 0 < s["min"] <= s["p5"] <= s["median"] <= s["p95"], row
for row in rows["gemm"]:
    assert row["flops"] == 2 * row["m"] * row["n"] * row["k"] and 0 < row["checked"] <= row["m"] * row["n"], row
    assert near(row["gflops"] * 1e9 * row["seconds"]["median"], row["flops"]), row
    assert not (row["type"] == "fp32" or row["emulated"]) or near(row["share"] * 1000, row["gflops"]), row
    operands = {"fwd": (True, False), "bwd_data": (False, False), "bwd_weights": (False, True)}
    assert (row["a_t"], row["b_t"]) == operands[row["pass"]], row
assert {row["type"] for row in rows["gemm"]} == {"fp32", "tf32", "fp16", "bf16"}
assert not load("tt")["rows"][0]["measured"]
for row in rows["optimizer"]:
    assert row["bytes"] == (20 if row["precision"] == "fp32" else 24) * row["parameters"], row
    assert near(row["gb_per_s"] * 1e9 * row["seconds"]["median"], row["bytes"]), row
    assert near(row["share"] * 10, row["gb_per_s"]), row
for row, arrays in zip(rows["memory"], (2, 2, 3, 3)):
    assert row["bytes"] == arrays << 22 and near(row["best_gb_per_s"] * row["seconds"]["min"] * 1e9, row["bytes"]), row
for row, size in zip(rows["collective"], (1024, 2048)):
    for place in row["out_of_place"], row["in_place"]:
        assert row["bytes"] == size and near(place["algbw"] * place["seconds"]["median"] * 1e9, size), row
        assert near(place["busbw"] * 2, place["algbw"]), row
r, stages = load("input"), {(row["stage"], row["from"]) for row in rows["input"]}
assert stages >= {("read", "warm"), ("decode", "memory"), ("resample", "memory"), ("loader", "warm")}, stages
for row in rows["input"]:
    assert near(row["images_per_s"] * row["seconds"]["median"], 8), row
    assert near(row["bytes_per_s"] * row["seconds"]["median"], r["bytes"]), row

# An overlap: the exposed part of the communication is what the backward pass does not hide.
for how in "fp32", "amp":
    r = load("overlap-" + how)
    assert r["config"]["precision"] == how and len(r["ranks"]) == 2 and r["gradient_bytes"] > 0, r
    buckets = [size["buckets"] for size in r["sizes"]]
    assert len(buckets) == 3 and buckets == sorted(set(buckets), reverse=True) and buckets[-1] == 1, buckets
    least = min(size["gradients_s"]["median"] for size in r["sizes"])
    assert [near(size["gradients_s"]["median"], least) for size in r["sizes"]].count(True) >= 1
    assert [s["gradients_s"]["median"] for s in r["sizes"] if s.get("lowest")] == [least], r
    for size in r["sizes"]:
        assert near(size["images_per_s"] * size["step_s"]["median"], 4), size
        for i in range(2):
            t = {k: v["samples"][i] for k, v in size.items() if isinstance(v, dict) and "samples" in v}
            assert near(t["gradients_s"], t["backward_s"] + t["wait_s"]) and t["step_s"] > t["gradients_s"] > 0, t
            assert 0 <= t["late_s"] <= t["exposed_s"] <= min(t["busy_s"], t["wait_s"]), t
            assert abs(t["hidden"] - (1 - t["exposed_s"] / t["busy_s"])) < 1e-7 and 0 <= t["hidden"] <= 1, t
            assert near(t["cost_s"], t["gradients_s"] - r["alone"]["backward_s"]["samples"][i]), t
CHECK
if command -v gnuplot >/dev/null; then
    expect 0 plot overlap-fp32.json --out drawn
    [[ -s drawn/overlap.png ]] || fail "plot drew no figure of the record"
fi

# ended SIGNAL NEEDLE ARGS...: starts a measurement, sends SIGNAL as soon as dataset.json of the
# generated set contains NEEDLE, and checks that no file remains.
ended() {
    local signal=$1 needle=$2 i
    "$program" bench input --size 40 --image-size 32 -b 5 --threads 2 "${@:3}" >out 2>err &
    local pid=$!
    for ((i = 0; i < 600; i++)); do
        grep -qs "$needle" ampscale-input.*/dataset.json && break
        sleep 0.05
    done
    kill "-$signal" "$pid" || fail "the measurement ended before the signal (waited for $needle): $(<err)"
    code=0
    wait "$pid" || code=$?
    ((code == 128 + $(kill -l "$signal"))) && [[ $(<err) == *"interrupted by SIG$signal"* ]] || fail "$signal: exited with $code: $(<err)"
    [[ -z $(find . -name 'ampscale-input.*') ]] || fail "$signal: the generated images are still there"
}
ended TERM '"complete": false' --images 1000000
ended INT '"complete": true' --images 16 -w 100000

# Refused: exit code, text of the message, arguments.
echo '{}' >nothing.json
printf 'no picture' >"$(find set/train -name '*.JPEG' | head -n 1)"
while IFS='|' read -r code text args; do
    # shellcheck disable=SC2086
    expect_error "$code" "$text" bench $args
done <<'REFUSED'
2|unknown command 'nonesuch'|nonesuch
2|unknown flag '--no-step'|step --no-step
5|cannot take peaks from 'nothing.json'|step --net resnet8 --peak nothing.json
2|give a smaller --max-mib|memory --max-mib 65536 --threads 1
2|give one of them|gemm --net resnet8 -m 1 -n 1 -k 1
2|give -m, -n and -k|gemm -m 4 -k 4
2|--json and --csv|gemm --json --csv
2|nonesuch|gemm --net nonesuch
2|--threads ''|input --threads 1,
5|nowhere|input --data nowhere
5|cannot use the image 'set/train/|input --data set
2|needs two processes or more: start it with 'ampscale launch|overlap --net resnet8
2|--bucket-mb ''|overlap --bucket-mb 1,,2
2|--bucket-mb '0.0001': give 0, or at least 0.001|overlap --bucket-mb 0.0001
2|one device per process, not 'cpu:2'|overlap --devices cpu:2
2|give allreduce, broadcast,|collective
2|bench collective 'all_reduce_perf_perf'|collective all_reduce_perf_perf
2|--minbytes '1Q'|collective allreduce -b 1Q
2|is below the smallest|collective allreduce -b 2K -e 1K
2|-f and -i|collective allreduce -f 2 -i 1K
2|cannot reduce bytes|collective allreduce -d uint8
2|--ranks, --devices and --ngpus: give one of them|collective allreduce -g 2 --ranks 2
2|--nthreads '2': each GPU has one thread|collective allreduce -t 2
2|--root 2: there are 2 ranks, from 0 to 1|collective broadcast -r 2
2|--devices cpu:2 uses the host's memory|collective allreduce --devices cpu:2
2|--comm nccl and host have an effect only with --devices|collective allreduce --comm host
2|--comm mpi is for the processes of a job|collective allreduce --comm mpi
REFUSED
finish
