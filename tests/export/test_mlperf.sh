#!/usr/bin/env bash
# The compliance checker of MLPerf's logs finds nothing amiss by ruleset 4.0.0: in the log of a full
# run in the open division, and in that of a run which keeps the closed division's rules.
. "$(dirname "$0")/../cli/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"

peers=$source_dir/tests/peers/run.sh
cd "$scratch" || exit 1
mkdir made && "$build_dir/tests/export/export_made_run" made || fail "no run was made"
expect_train 0 --dummy --dummy-train 40 --dummy-val 4 --classes 3 --epochs 2 --out run
expect 0 export run --format mlperf -o open.log
expect 0 export made --format mlperf --division closed -o closed.log
((failures == 0)) || finish

bash "$peers" mlperf_logging -c '' || exit

# checks LOG: what the checker says of it.
checks() {
    bash "$peers" mlperf_logging -m mlperf_logging.compliance_checker --usage training \
        --ruleset 4.0.0 --werror "$1" >"$scratch/checked" 2>&1
}
for log in open.log closed.log; do
    checks "$log" || fail "$log: $(cat "$scratch/checked")"
done
grep -v '"eval_accuracy"' closed.log >lacking.log
checks lacking.log && fail "the checker does not miss what is not there"
finish
