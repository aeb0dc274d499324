#!/usr/bin/env bash
# promtool accepts the textfile of a run with hostile names.
. "$(dirname "$0")/../cli/common.sh" "$@"

command -v promtool >/dev/null || { echo "promtool is not installed (Debian: prometheus)" && exit 77; }
cd "$scratch" || exit 1
name='say "hi", \o'
mkdir "$name" && "$build_dir/tests/export/export_made_run" "$name" || fail "no run was made"
expect 0 export "$name" --format prometheus -o x.prom
promtool check metrics <x.prom >checked 2>&1 || fail "promtool: $(cat checked)"
finish
