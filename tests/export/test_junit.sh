#!/usr/bin/env bash
# The JUnit file of `compare` is valid against tests/accept/junit.xsd, and its passed cases contain
# the measured values. (cli_accept does the same for the file of `accept`.)
. "$(dirname "$0")/../cli/common.sh" "$@"

cd "$scratch" || exit 1
for i in 1 2 3 4 5 6; do
    mkdir "run$i" && "$build_dir/tests/export/export_made_run" "run$i" || fail "no run was made"
done
expect 0 compare --junit compare.xml run[1-6] -- run[1-6]
grep -q '<property name="ratio" value="1.0000"/>' compare.xml || fail "no ratio in: $(<compare.xml)"
grep -qE '<(failure|error)[ >]' compare.xml && fail "equal runs have not passed: $(<compare.xml)"
command -v xmllint >/dev/null || skip "xmllint is not installed (Debian: libxml2-utils)"
xmllint --noout --schema "$source_dir/tests/accept/junit.xsd" compare.xml 2>err || fail "not valid JUnit: $(<err)"
finish
