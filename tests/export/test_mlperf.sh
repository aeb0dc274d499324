#!/usr/bin/env bash
# MLPerf's compliance checker, with ruleset 4.0.0, accepts the log of a complete run in the open
# division, and logs of runs that meet the rules of the closed division. It rejects a log of which
# the export has warned, and a log that lacks an event.
. "$(dirname "$0")/../cli/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"

peers=$source_dir/tests/peers/run.sh
cd "$scratch" || exit 1

# closed RUN [RULE]: exports a log for the closed division. The export warns of RULE, or of no rule
# of the learning rate or its decay.
closed() {
    expect 0 export "$1" --format mlperf --division closed -o "$1.log"
    if (($# > 1)); then
        grep -qF "(closed division): $2" err || fail "no warning '$2': $(<err)"
        grep -qF "# Not met: $2" "$1.log" || fail "$1.log does not contain '$2'"
    else
        ! grep -qE 'rate|decay' err || fail "the export warns of a rule that $1 meets: $(<err)"
    fi
}

mkdir made && "$build_dir/tests/export/export_made_run" made || fail "no run was made"
expect_train 0 --dummy --dummy-train 40 --dummy-val 4 --classes 3 --epochs 2 --out late
expect 0 export late --format mlperf -o open.log
closed late "its learning rate ends at 0.05, not at 0.0001"
closed made
cp -r made lars
sed -i 's/"lars":0,/"lars":0.001,"lr_schedule":"poly","lr_power":2,"lr_end":0.0001,/' lars/run.json
closed lars
cp -r made decay
sed -i 's/"weight_decay":0.0001/"weight_decay":0.00015/' decay/run.json
closed decay "its weight decay, 0.00015, is not 0.0001 times a power of 2"
grep -v '"eval_accuracy"' made.log >lacking.log
((failures == 0)) || finish

bash "$peers" mlperf_logging -c '' || exit
for log in open made lars lacking decay late; do
    code=0
    bash "$peers" mlperf_logging -m mlperf_logging.compliance_checker --usage training \
        --ruleset 4.0.0 --werror $log.log >checked 2>&1 || code=1
    case $log in
    open | made | lars) ((code == 0)) || fail "$log.log: $(<checked)" ;;
    *) ((code)) || fail "$log.log: the checker accepts a log that breaks a rule" ;;
    esac
done
finish
