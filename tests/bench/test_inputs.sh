#!/usr/bin/env bash
# `ampscale bench input` and `bench conv`: their records, error messages and exit codes.
. "$(dirname "$0")/../cli/common.sh" "$@"
cd "$scratch" || exit 1
export OMP_WAIT_POLICY=passive TMPDIR=$scratch

small=(--images 16 --size 40 --image-size 32 -b 5 -n 2 -w 0)
expect 0 bench input "${small[@]}" --threads 1,3
[[ $(grep -cE '^ +[13] (read|decode|resample|loader) .* 0$' out) -ge 8 ]] || fail "rows: $(<out)"
[[ -z $(find . -name 'ampscale-input-*') ]] || fail "the generated images are still there"
expect 0 data synth --out set --classes 2 --train 4 --val 1 --size 40
expect 0 bench input "${small[@]}" --data set --threads 2 --json
cp out input.json
expect 0 bench input "${small[@]}" --data set --threads 2 --csv
grep -q '^decode,memory,2,8,' out || fail "CSV: $(<out)"
expect 0 bench conv --net resnet8 --image-size 32 -b 2 --threads 2 --rounds 2 --json
cp out net.json
expect 0 bench conv --net resnet8 --image-size 32 -b 2 --threads 2 --rounds 1 --no-step
[[ $(sed -n 2p out) == *' #wrong' && $(sed -n 3p out) == *' 0' ]] || fail "nothing is checked: $(<out)"

if command -v python3 >/dev/null; then
    python3 - <<'CHECK' || fail "the assertion above about the records fails"
import json
r = json.load(open("input.json"))
assert (r["schema"], r["bench"], r["images"], r["generated"]) == (1, "input", 8, False), r
stages = [(row["stage"], row["from"]) for row in r["rows"]]
for stage in ("read", "warm"), ("decode", "memory"), ("resample", "memory"), ("loader", "warm"):
    assert stage in stages, stages
assert (("read", "cold") in stages) == (("loader", "cold") in stages) == r["cold_measured"]
for row in r["rows"]:
    assert row["wrong"] == 0 and row["threads"] == 2 and row["bytes"] == r["bytes"], row
    assert abs(row["images_per_s"] * row["seconds"]["median"] - 8) < 1e-6, row
    assert abs(row["bytes_per_s"] * row["seconds"]["median"] / r["bytes"] - 1) < 1e-6, row
r = json.load(open("net.json"))
assert (r["schema"], r["bench"], r["wrong"]) == (1, "conv", 0) and r["step_share_of_bound"] > 0, r
kinds = {json.dumps([shape[k] for k in ("x", "w", "stride", "pad", "groups")]) for shape in r["shapes"]}
assert len(kinds) == len(r["shapes"]) < 9 == sum(shape["fwd"]["count"] for shape in r["shapes"]), r
for shape in r["shapes"]:
    passes = [shape[p] for p in ("fwd", "bwd_data", "bwd_weights") if p in shape]
    assert len(passes) >= 2 and all(p["wrong"] == 0 and p["seconds"] > 0 for p in passes), shape
CHECK
fi

# ended SIGNAL NEEDLE ARGS...: starts a measurement, sends SIGNAL as soon as dataset.json of the
# generated set contains NEEDLE, and checks that no file remains.
ended() {
    local signal=$1 needle=$2 i
    "$program" bench input --size 40 --image-size 32 -b 5 --threads 2 "${@:3}" >out 2>err &
    local pid=$!
    for ((i = 0; i < 600; i++)); do
        grep -qs "$needle" ampscale-input-*/dataset.json && break
        sleep 0.05
    done
    kill "-$signal" "$pid" || fail "the measurement ended before the signal (waited for $needle): $(<err)"
    code=0
    wait "$pid" || code=$?
    ((code == 128 + $(kill -l "$signal"))) && [[ $(<err) == *"interrupted by SIG$signal"* ]] || fail "$signal: exited with $code: $(<err)"
    [[ -z $(find . -name 'ampscale-input-*') ]] || fail "$signal: the generated images are still there"
}
ended TERM '"complete": false' --images 1000000
ended INT '"complete": true' --images 16 -w 100000

expect_error 2 "--threads ''" bench input --threads 1,
expect_error 2 "--threads '0'" bench input --threads 0
expect_error 2 "--json and --csv" bench input --json --csv
expect_error 5 "nowhere" bench input --data nowhere
expect_error 2 "--precision 'half'" bench conv --precision half
printf 'no picture' >"$(find set/train -name '*.JPEG' | head -n 1)"
expect_error 5 "cannot use the image 'set/train/" bench input --data set
finish
