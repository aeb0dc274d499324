#!/usr/bin/env bash
# Faults injected into one of several ranks: flipped bits, and lost images.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"
. "$(dirname "$0")/ranks.sh"
cd "$scratch" || exit 1
small=(--dummy --dummy-train 72 --dummy-val 8 --classes 3 -b 4 --threads 1 -j 1 --telemetry 0 -p 100 --epochs 1)

# says TEXT: checks that ampscale wrote one line, and that it contains the text.
says() {
    grep -qF -- "$1" err || fail "no '$1': $(<err)"
    [[ $(grep -vc ': steps are slower with ' < <(grep '^ampscale: ' err)) == 1 ]] || fail "stderr does not have exactly one line of ampscale: $(<err)"
}

# In one of three ranks, a low bit of a gradient is flipped, then a low bit of a weight. The update
# rounds the gradient's error away, but the weight's error stays. The message names the rank in both
# cases.
expect_ranks 4 3 "${small[@]}" --out a --check-replicas 1 --inject bitflip=2@1:gradient:fc.weight:64
says "the gradients of rank 1, device 0 differ from those of rank 0, device 0 and of most other devices in 'fc.weight'"
[[ $(run_values a | grep -c '^step') == 3 ]] || fail "not stopped after step 2"
expect_ranks 4 3 "${small[@]}" --out b --inject bitflip=2@0:weight:conv1.weight:40
says "the weights of rank 0, device 0 differ from those of rank 1, device 0 and of most other devices"
expect_ranks 4 2 "${small[@]}" --out c --check-replicas 2 --inject bitflip=1:gradient:layer1.0.conv1.weight:0
says "the gradients of rank 1, device 0 differ from those of rank 0, device 0 in 'layer1.0.conv1.weight'"
says "it is unknown which one"
expect_ranks 0 3 "${small[@]}" --out d --check-replicas 1
expect_ranks 4 2 "${small[@]}" --out e --devices cpu:2 --dp-reduce all --check-replicas 1 \
    --inject bitflip=3@0:weight:fc.bias:2
says "the weights of rank 0, device 1 differ from those of rank 0, device 0 and of most other devices"

# One rank computes twice as long as the other: the run, its summary and `watch` name that rank. If
# both ranks are equally fast, no rank is named. A rank may be slow by chance, so the test tries
# three runs. This test runs alone, because other tests at the same time would also make ranks slow.
many=(--dummy --dummy-train 800 --dummy-val 8 --classes 3 -b 4 --threads 1 -j 1 --telemetry 0 -p 1000 --epochs 2)
expect_ranks 0 2 "${many[@]}" --out slow --inject slow-rank=1:100%
grep -qE '^Straggler: rank 1 \(.*\), \+' <(tr '\r' '\n' <out) || fail "slow rank 1 is not named: $(tail -n 1 out)"
grep -q '"slow": true' slow/summary.json || fail "the summary does not call rank 1 slow"
grep -q 'ranks  *straggler: rank 1, ' < <("$program" watch --once slow) || fail "watch does not name it"
for i in 1 2 3; do
    expect_ranks 0 2 "${many[@]}" --out "even-$i"
    grep -q '^No straggler: ' <(tr '\r' '\n' <out) && break
done
grep -q '"slow": false' "even-$i/summary.json" || fail "in three runs, a rank is called slow without a cause: $(tail -n 1 out)"

# If several ranks lose images in the same epoch, only one line is printed.
expect_ranks 4 2 "${small[@]}" --out f --inject lost-image
says "an image was lost or read twice"
finish
