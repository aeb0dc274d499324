#!/usr/bin/env bash
# `ampscale trend` on a history of two configurations, one of which became slower.
. "$(dirname "$0")/common.sh" "$@"

cd "$scratch" || exit 1
mkdir history

# points BATCH LOSS: makes forty points of three runs each. The last fifteen points are LOSS percent
# slower.
points() {
    awk -v batch="$1" -v loss="$2" 'BEGIN {
        for (i = 0; i < 40; i++)
            for (k = 0; k < 3; k++) {
                v = (100 + (i * 37 % 11) / 10 + k / 100) * (i < 25 ? 1 : 1 - loss / 100)
                printf "{\"record\":\"history\",\"schema\":1,\"added_s\":%d,\"started_s\":%d,\"commit\":\"%07x\",\"accepted\":%s,\"end\":{\"by\":\"steps\",\"steps\":20,\"epochs\":0},\"fingerprint\":{\"config.arch\":\"resnet18\",\"config.batch_size\":%d},\"metrics\":{\"images_per_s\":%.4f,\"step_s\":%.6f}}\n", 1700000000 + 86400 * i, 1700000000 + 86400 * i + k - 100, 1048576 + i, i < 25 ? "true" : "false", batch, v, 1 / v
            }
    }' >>history/history.jsonl
}

points 32 10
points 64 0
expect 0 trend history --json -o trend.json
[[ ! -s out ]] || fail "--json -o also prints: $(cat out)"
expect 0 trend history
for batch in 32 64; do
    grep -q "^resnet18 (batch_size $batch), images_per_s: 40 points from 2023-11-14 to 2023-12-23" out || fail "there is no series of batch size $batch: $(cat out)"
done
grep -qE '^  2023-12-09  point 26   0100019 +ratio 0.90.*worse$' out || fail "the step is not reported: $(cat out)"
[[ $(grep -c 'no change$' out) == 1 ]] || fail "a step is reported in a series without a step: $(cat out)"
if command -v python3 >/dev/null; then
    python3 - <<'PY' || fail "the record does not have the documented form"
import json
t = json.load(open("trend.json"))
assert t["record"] == "trend" and t["schema"] == 1 and len(t["series"]) == 2
slow, same = t["series"]
assert len(slow["points"]) == 40 and slow["points"][0]["runs"] == 3 and not slow["points"][30]["accepted"]
assert [s["point"] for s in slow["steps"]] == [25] and slow["steps"][0]["worse"] and same["steps"] == []
assert abs(slow["steps"][0]["ratio"] - 0.9) < 0.01 and slow["steps"][0]["p"] == 0.001
PY
fi
expect 0 trend history --metric step_s
grep -qE 'ratio 1.1.*worse$' out || fail "the report ignores whether higher values of a metric are better: $(cat out)"
expect 0 trend history --threshold 20
grep -q 'worse$' out && fail "a step below the threshold is reported"

# If some runs have injected faults, the names of series show the fault, or "no inject". Otherwise
# the names show only the settings in which the series differ.
sed 's/"config.batch_size":32/&,"config.inject.0":"slow:2"/; s/"config.batch_size":64/"config.batch_size":32/' \
    history/history.jsonl >faulty
mkdir faults && mv faulty faults/history.jsonl
# names: prints the names of the series on one line.
names() {
    expect 0 trend faults
    sed -n 's/, images_per_s: 40 points.*//p' out | sort | paste -sd';'
}
[[ $(names) == 'resnet18 (inject slow:2);resnet18 (no inject)' ]] || fail "series with and without faults are not distinguished: $(cat out)"
sed -n 121,240p history/history.jsonl >>faults/history.jsonl
[[ $(names) == 'resnet18 (batch_size 64);resnet18 (inject slow:2);resnet18 (no inject, batch_size 32)' ]] ||
    fail "the names of three series do not distinguish them: $(cat out)"

# A metric that is 0 at first and then increases. The relative size of the change is not defined.
sed -E '121,240d; s/"images_per_s":([0-9.]+)/"val_top1":\1/' history/history.jsonl |
    awk '{ if (NR <= 60) sub(/"val_top1":[0-9.]+/, "\"val_top1\":0"); print }' >rising
mkdir rise && mv rising rise/history.jsonl
expect 0 trend rise --metric val_top1 --json -o rise.json
expect 0 trend rise --metric val_top1
grep -q 'ratio inf (-..-) .* better$' out || fail "a step from 0 upwards is reported wrongly: $(cat out)"
grep -q '"ratio": null' rise.json || fail "a step from 0 upwards has a ratio: $(cat rise.json)"
if command -v gnuplot >/dev/null; then
    expect 0 plot rise.json --out risen --format svg
    grep -q 'from 0' risen/trend.svg || fail "a step from 0 upwards is not drawn"
fi

expect_error 2 "no history" trend
expect_error 2 "unknown metric" trend history --metric speed
expect_error 5 "no history in 'nothing'" trend nothing
expect_error 5 "none of the requested metrics" trend history --metric val_top1
echo '{}' >>history/history.jsonl
expect_error 5 "line 241: not an entry of a history" trend history
sed -i '$d' history/history.jsonl

if command -v gnuplot >/dev/null; then
    expect 0 trend history --out figure
    [[ -s figure/trend.png && -s figure/trend.svg ]] || fail "trend drew no pictures: $(cat out err)"
    expect 0 plot trend.json --out again --format svg
    grep -q '>2023-11-14<' figure/trend.svg && grep -q '>0100000<' figure/trend.svg || fail "the axis has no dates and commits"
    grep -q -- '>-10.* % since 2023-12-09 0100019<' figure/trend.svg || fail "a step is drawn without its date and commit"
    [[ $(head -c 5 figure/trend.pdf)$(tail -c 6 figure/trend.pdf) == %PDF-%%EOF ]] || fail "no whole PDF"
    cmp -s figure/trend.svg again/trend.svg || fail "the picture drawn from the record differs"
    sed 's/"point": 25/"point": 99/' trend.json >bad.json
    expect_error 5 "damaged record: 'point'" plot bad.json --out bad
fi
finish
