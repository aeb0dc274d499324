#!/usr/bin/env bash
# `ampscale bench gemm` and `bench optimizer`: their tables, records and error messages.
. "$(dirname "$0")/../cli/common.sh" "$@"
cd "$scratch" || exit 1
export OMP_WAIT_POLICY=passive

echo '{"schema": 1, "bench": "peak", "device": "x", "copy": [{"bytes": 4e6, "bytes_per_s": 1e10}],
      "flops": [{"type": "fp32", "flops_per_s": 1e12}]}' >peak.json
quick=(--threads 1 --peak peak.json --iters 2 --warmup 1)

expect_error 2 "give one of them" bench gemm --net resnet8 -m 1 -n 1 -k 1
expect_error 2 "give -m, -n and -k" bench gemm -m 4 -k 4
expect_error 2 "give -m, -n and -k" bench gemm --a-t
expect_error 2 "-m '0'" bench gemm -m 0 -n 1 -k 1
expect_error 2 "--precision 'fp8'" bench gemm --precision fp8
expect_error 2 "--json and --csv" bench gemm --json --csv
expect_error 2 "nonesuch" bench gemm --net nonesuch
echo '{}' >nothing.json
expect_error 5 "cannot take peaks from" bench gemm --peak nothing.json
expect_error 2 "unexpected argument 'more'" bench gemm more

expect 0 bench gemm -m 40 -n 30 -k 20 --a-t "${quick[@]}"
grep -qE '^- +- +1 +40 +30 +20 TN fp32 .* 1200 +0  ' out || fail "one size: $(<out)"
expect 0 bench gemm -m 4 -n 3 -k 2 --a-t --b-t "${quick[@]}"
grep -qE ' TT fp32 .* n/a ' out || fail "a product of two transposed matrices is not marked n/a: $(<out)"
expect 0 bench gemm -m 16 -n 8 -k 4 --b-t "${quick[@]}" --csv
[[ $(wc -l <out) == 2 && $(tail -n 1 out) =~ ^,,1,16,8,4,0,1,fp32,0,2, ]] || fail "CSV: $(<out)"
expect 0 bench gemm -m 100 -n 100 -k 501 --max-gflop 0.01 "${quick[@]}"
grep -qx '1 sizes of more than 0.01 GFLOP were left out' out || fail "the output does not say that a size was left out: $(<out)"
expect 0 bench gemm --net resnet8 -b 2 --image-size 32 --precision all "${quick[@]}" --json
cp out gemm.json

if command -v python3 >/dev/null; then
    python3 - <<'CHECK' || fail "the assertion above about the record fails"
import json
r = json.load(open("gemm.json"))
assert (r["schema"], r["bench"], r["left_out"]) == (1, "gemm", 0), r
assert r["sizes"] == {"net": "resnet8", "batch": 2, "image_size": 32} and r["peaks"]["device"] == "x"
assert {row["type"] for row in r["rows"]} == {"fp32", "tf32", "fp16", "bf16"}
for row in r["rows"]:
    assert row["flops"] == 2 * row["m"] * row["n"] * row["k"] and row["measured"] and row["impl"], row
    assert row["wrong"] == 0 < row["checked"] <= row["m"] * row["n"] and row["seconds"]["n"] == 2, row
    assert abs(row["gflops"] * 1e9 * row["seconds"]["median"] / row["flops"] - 1) < 1e-6, row
    if row["type"] == "fp32" or row["emulated"]:
        assert abs(row["share"] * 1000 / row["gflops"] - 1) < 1e-6, row
    assert (row["a_t"], row["b_t"]) == {"fwd": (True, False), "bwd_data": (False, False), "bwd_weights": (False, True)}[row["pass"]]
fwd = [row for row in r["rows"] if row["type"] == "fp32" and row["pass"] == "fwd"]
assert sum(row["count"] for row in fwd) == 1 + sum(row["count"] for row in r["rows"] if row["type"] == "fp32" and row["pass"] == "bwd_data")
CHECK
fi

quick=(--threads 1 --peak peak.json -n 2 -w 1)
expect_error 2 "--precision 'fp8'" bench optimizer --precision fp8
expect_error 2 "--json and --csv" bench optimizer --json --csv
expect 0 bench optimizer --net resnet8 "${quick[@]}"
[[ $(grep -cE '^(fp32|amp|O2)( emulated)? +[0-9]+ .* 0  ' out) == 3 ]] || fail "precisions: $(<out)"
expect 0 bench optimizer --net resnet8 --precision bf16 --emulate "${quick[@]}" --csv
grep -qE '^bf16,1,[0-9]+,[0-9]+,[0-9]+,2,' out || fail "the CSV has no row of the optimizer in bf16: $(<out)"
expect 0 bench optimizer --net resnet8 "${quick[@]}" --json
if command -v python3 >/dev/null; then
    python3 - <<'CHECK' || fail "the assertion above about the optimizer's record fails"
import json
r = json.load(open("out"))
assert (r["schema"], r["bench"], r["net"]) == (1, "optimizer", "resnet8"), r
assert [row["precision"] for row in r["rows"]] == ["fp32", "amp", "O2"]
for row in r["rows"]:
    assert row["wrong"] == 0 and row["bytes"] in (20 * row["parameters"], 24 * row["parameters"]), row
    assert abs(row["gb_per_s"] * 1e9 * row["seconds"]["median"] / row["bytes"] - 1) < 1e-6, row
    assert abs(row["share"] * 10 / row["gb_per_s"] - 1) < 1e-6, row
CHECK
fi

# The same commands on the fake GPU. They are too slow under sanitizers.
if fake_gpu && ! sanitized; then
    gpu=(--devices cuda:0 --peak peak.json)
    for op in "" --a-t --b-t; do
        # shellcheck disable=SC2086
        expect 0 bench gemm -m 24 -n 16 -k 40 $op --precision all "${gpu[@]}" --iters 2
        [[ $(grep -cE ' (fp32|tf32|fp16|bf16) .* 384 +0  ' out) == 4 ]] || fail "gemm $op on a GPU does not have four rows without an error: $(<out)"
    done
    # With amp, the weight gradients of convolutions are in fp16.
    for precision in fp32 amp; do
        expect 0 bench optimizer --net resnet8 --precision $precision "${gpu[@]}" -n 2
        grep -qE "^$precision .* 0  own:cuda\$" out || fail "the optimizer on a GPU has no row of $precision without an error: $(<out)"
    done
fi
finish
