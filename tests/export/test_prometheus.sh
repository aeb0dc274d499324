#!/usr/bin/env bash
# promtool and prometheus_client accept the textfile of a run with a hostile name.
. "$(dirname "$0")/../cli/common.sh" "$@"

cd "$scratch" || exit 1
name='say "hi", \o'
mkdir "$name" && "$build_dir/tests/export/export_made_run" "$name" || fail "no run was made"
expect 0 export "$name" --format prometheus -o x.prom
if command -v promtool >/dev/null; then
    promtool check metrics <x.prom >checked 2>&1 || fail "promtool: $(cat checked)"
else
    echo "promtool is not installed (Debian: prometheus)"
fi
((failures == 0)) || finish
exec bash "$source_dir/tests/peers/run.sh" prometheus_client "$source_dir/tests/export/prometheus_peer.py" \
    x.prom "$name"
