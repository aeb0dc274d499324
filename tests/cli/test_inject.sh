#!/usr/bin/env bash
# Faults injected into runs, and the checks that detect them.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"
cd "$scratch" || exit 1
small=(--dummy --dummy-train 80 --dummy-val 8 --classes 3 --threads 1 -j 1 --telemetry 0 -p 100 --epochs 1)

# An invalid fault is refused with one line, and so is a fault in a rank or parameter that the run
# does not have. No folder remains.
for fault in '' x slow-rank=1 throttle=0% bitflip=1:momentum lost-image=; do
    expect_error 2 "--inject '$fault'" train "${net[@]}" "${small[@]}" --out bad --inject "$fault"
done
expect_error 2 "rank 1 does not exist in a run of 1 ranks" train "${net[@]}" "${small[@]}" --out bad --inject slow-rank=1:20%
expect_error 2 "has no trained parameter 'fc'" train "${net[@]}" "${small[@]}" --out bad --inject bitflip=1:weight:fc
[[ ! -e bad ]] || fail "a refused run made its folder"

# changes NAME STEP FAULT: trains with the fault; the first value of the record that changes must be
# that of the step.
changes() {
    expect_train 0 "${small[@]}" --out "$1" --inject "$3"
    diff <(run_values good) <(run_values "$1") >diff
    [[ $(grep -m 1 '^< ' diff) == "< step $2 "* ]] || fail "$3 has changed $(head -n 2 diff), not step $2"
}

# A bit that is flipped in a gradient changes later steps, in a weight also the same step. The record
# names the flipped bit, and `compare` refuses the run.
expect_train 0 "${small[@]}" --out good
! grep -q '"inject"' good/run.json || fail "the record of a run without faults lists faults"
changes flipped 5 bitflip=4:gradient:fc.weight:22
grep -q '^injected faults: bitflip=4@0:gradient:fc.weight:22$' out || fail "the run does not print its fault: $(<out)"
grep -q '"bitflip=4@0:gradient:fc.weight:22"' flipped/run.json || fail "the record does not have the fault"
run compare good flipped
grep -q "config.inject" out || fail "compare does not refuse: $(<out)"
changes weight 4 bitflip=4:weight:fc.weight:22

# A run that loses an image ends after the epoch in which the image is lost.
expect_train 4 "${small[@]}" --epochs 3 --out lost --inject lost-image=1
grep -q "training of epoch 1, rank 0: an image was lost or read twice" err || fail "$(<err)"
[[ $(wc -l <lost/epochs.jsonl) == 1 ]] || fail "the epoch with the lost image was recorded"

# Throttling does not change the results of a step.
expect_train 0 "${small[@]}" --out slow --inject throttle=300%
diff <(run_values good) <(run_values slow) >diff || fail "throttling changed the results: $(head -n 4 diff)"

# Runs with the same settings have the same losses and the same final state, even with another
# number of workers (-j) or another output folder. A flipped bit changes the next loss. If it is
# flipped after the last loss, it changes only the final state.
expect_train 0 "${small[@]}" --out same -j 2 --expect good
grep -q "bitwise equal to those of 'good'$" out || fail "$(<out)"
expect_train 4 "${small[@]}" --out early --expect good --inject bitflip=4:gradient:fc.weight:22
grep -q "^ampscale: step 5: the loss is " err || fail "$(<err)"
expect_train 4 "${small[@]}" --out late --expect good --inject bitflip=9:gradient:fc.weight:20
grep -q "at the end differ from those of 'good'" err || fail "$(<err)"
for setting in '--lr 0.04' '--threads 2' '--accumulate 2'; do
    read -ra flag <<<"$setting"
    expect_error 2 "different runs cannot have the same bits" train "${net[@]}" "${small[@]}" "${flag[@]}" \
        --out other --expect good
done
[[ ! -e other ]] || fail "a refused run made its folder"
expect_error 5 "faults were injected into that run" train "${net[@]}" "${small[@]}" --out other --expect flipped
rm same/summary.json
expect_error 5 "that run is incomplete" train "${net[@]}" "${small[@]}" --out other --expect same

# The determinism check, on the small network.
expect 0 selftest --determinism --quick --threads 1 --repeats 2 --verbose
[[ $(grep -c '^PASS resnet8 .* bits [0-9a-f]\{16\}$' out) == 4 ]] || fail "there are not four cases that pass: $(<out)"
expect_error 2 "'1'" selftest --determinism --repeats 1
finish
