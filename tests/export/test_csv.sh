#!/usr/bin/env bash
# pandas reads the exported tables of a run, and finds every value of the run's records.
. "$(dirname "$0")/../cli/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"

cd "$scratch" || exit 1
expect_train 0 --dummy --dummy-train 40 --dummy-val 4 --classes 3 --epochs 2 --out run
expect 0 export run --format csv -o tables
((failures == 0)) || finish
exec bash "$source_dir/tests/peers/run.sh" pandas "$source_dir/tests/export/csv_peer.py" tables run
