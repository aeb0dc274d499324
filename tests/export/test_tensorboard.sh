#!/usr/bin/env bash
# TensorBoard reads the files that a run wrote before and after a resume, and the files that were
# exported from records.
. "$(dirname "$0")/../cli/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"

cd "$scratch" || exit 1
mkdir made && "$build_dir/tests/export/export_made_run" made || fail "no run was made"
expect_train 0 --dummy --dummy-train 40 --dummy-val 4 --classes 3 --steps 3 --epochs 2 --out live --tensorboard tb
expect_train 0 --dummy --dummy-train 40 --dummy-val 4 --classes 3 --epochs 2 --out live --tensorboard tb --resume auto \
    --prometheus live.prom
grep -qxF 'ampscale_steps_total{run="live"} 10' live.prom || fail "the resumed run counts other steps: $(<live.prom)"
expect 0 export live made --format tensorboard -o exported
((failures == 0)) || finish
exec bash "$source_dir/tests/peers/run.sh" tensorboard "$source_dir/tests/export/tensorboard_peer.py" \
    tb/live exported/live exported/made
