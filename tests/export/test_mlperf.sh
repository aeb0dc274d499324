#!/usr/bin/env bash
# MLPerf's compliance checker, with ruleset 4.0.0, accepts two kinds of logs: the log of a complete
# run in the open division, and logs of runs that meet the rules of the closed division. If the
# checker rejects the log of a run, the export has warned of the broken rule.
. "$(dirname "$0")/../cli/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"

peers=$source_dir/tests/peers/run.sh
cd "$scratch" || exit 1

# warned LOG DIVISION TEXT: checks that the last export warned of TEXT, on stderr and in the log.
warned() {
    grep -qF "does not meet MLPerf Training 4.0.0 ($2 division): $3" err || fail "no warning '$3': $(<err)"
    grep -qF "# Not met: $3" "$1" || fail "$1 does not contain '$3': $(grep '^#' "$1")"
    grep -qF "# Ruleset: MLPerf Training 4.0.0, resnet, $2 division." "$1" || fail "$1 names no ruleset"
}

mkdir made && "$build_dir/tests/export/export_made_run" made || fail "no run was made"
expect_train 0 --dummy --dummy-train 40 --dummy-val 4 --classes 3 --epochs 2 --out run
expect 0 export run --format mlperf -o open.log
warned open.log open "it trained on synthetic tensors, not on ImageNet"
warned open.log open "its network is resnet8, not resnet50"
expect 0 export made --format mlperf --division closed -o sgd.log
warned sgd.log closed "its data set has 64 training and 50 validation images"
! grep -qE 'rate|decay' err || fail "the export warns of a rule that the run meets: $(<err)"
cp -r made lars
sed -i 's/"lars":0,/"lars":0.001,"lr_schedule":"poly","lr_power":2,"lr_end":0.0001,/' lars/run.json
expect 0 export lars --format mlperf --division closed -o lars.log
! grep -qE 'rate|decay' err || fail "the export warns of a rule that the run meets: $(<err)"
grep -q '"lars_opt_learning_rate_decay_poly_power", "value": 2.0' lars.log || fail "the log does not have 2.0 as the power of the decay: $(<lars.log)"
cp -r made decay
sed -i 's/"weight_decay":0.0001/"weight_decay":0.00015/' decay/run.json
expect 0 export decay --format mlperf --division closed -o decay.log
warned decay.log closed "its weight decay, 0.00015, is not 0.0001 times a power of 2"
cp -r run late
expect 0 export late --format mlperf --division closed -o late.log
warned late.log closed "its learning rate ends at 0.05, not at 0.0001"
warned late.log closed "its validation top-1 is "
((failures == 0)) || finish

bash "$peers" mlperf_logging -c '' || exit

# checks LOG: runs the checker on the log, and writes its output to the file `checked`.
checks() {
    bash "$peers" mlperf_logging -m mlperf_logging.compliance_checker --usage training \
        --ruleset 4.0.0 --werror "$1" >"$scratch/checked" 2>&1
}
for log in open.log sgd.log lars.log; do
    checks "$log" || fail "$log: $(cat "$scratch/checked")"
done
grep -v '"eval_accuracy"' sgd.log >lacking.log
for log in lacking.log decay.log late.log; do
    checks "$log" && fail "$log: the checker accepts a log that breaks a rule"
done
finish
