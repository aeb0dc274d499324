#!/usr/bin/env bash
# SuperBench's analyzer reads the exported rows of two runs. It groups their metrics under
# SuperBench's own name, model-benchmarks.
. "$(dirname "$0")/../cli/common.sh" "$@"

cd "$scratch" || exit 1
mkdir -p a b && "$build_dir/tests/export/export_made_run" a && "$build_dir/tests/export/export_made_run" b ||
    fail "no runs were made"
expect 0 export a b --format superbench -o results-summary.jsonl
((failures == 0)) || finish
exec bash "$source_dir/tests/peers/run.sh" jsonlines,pandas "$source_dir/tests/export/superbench_peer.py" \
    results-summary.jsonl
