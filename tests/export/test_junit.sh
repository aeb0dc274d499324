#!/usr/bin/env bash
# The JUnit files of `compare` and `accept` are valid against tests/accept/junit.xsd, and their
# passed cases contain the measured values.
. "$(dirname "$0")/../cli/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"

cd "$scratch" || exit 1
for i in 1 2 3 4 5 6; do
    mkdir "run$i" && "$build_dir/tests/export/export_made_run" "run$i" || fail "no run was made"
done
expect 0 compare --junit compare.xml run[1-6] -- run[1-6]
cat >spec.json <<'END'
{"schema": 1, "name": "made", "about": "a test", "device": "cpu", "hardware": ["*"], "checks": [
 {"name": "memory", "kind": "memory", "level": 1, "seconds": 1, "limit_s": 60,
  "args": {"max_mib": 4, "iters": 3, "threads": 1}, "limits": {"copy": {"min": 0.001, "source": "a <test> & \"more\""},
  "triad": {"min": 1e9, "source": "none"}}}]}
END
expect 4 accept --spec ./spec.json --out accept
cp accept/accept.xml .
((failures == 0)) || finish

# passed FILE TEXT: checks that FILE has a passed test case that contains TEXT.
passed() {
    awk -v text="$2" '
        /<testcase/ { of = ""; bad = 0 }
        { of = of $0; bad += /<(failure|error|skipped)/ }
        /<\/testcase>/ { found += !bad && index(of, text) > 0 }
        END { exit !found }' "$1" || fail "no passed case of $1 contains '$2': $(<"$1")"
}
passed compare.xml '<property name="base" value="64"/>'
passed compare.xml '<property name="ratio" value="1.0000"/>'
passed accept.xml '<property name="value" value="'
passed accept.xml '<property name="limit" value='
passed accept.xml '<property name="source" value="a &lt;test&gt; &amp; &quot;more&quot;"/>'
passed accept.xml '<system-out>'

command -v xmllint >/dev/null || {
    ((failures == 0)) || finish
    echo "skipped: xmllint is not installed (Debian: libxml2-utils)" && exit 77
}
for file in compare.xml accept.xml; do
    xmllint --noout --schema "$source_dir/tests/accept/junit.xsd" $file 2>err || fail "$file is not valid JUnit: $(cat err)"
done
sed 's/ name="base"//' compare.xml >nameless.xml
xmllint --noout --schema "$source_dir/tests/accept/junit.xsd" nameless.xml 2>err && fail "the schema accepts a property without a name"
finish
