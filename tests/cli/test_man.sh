#!/usr/bin/env bash
# The tools that show the manual accept it without a warning.
. "$(dirname "$0")/common.sh" "$@"

page=$build_dir/ampscale.1
template=$source_dir/docs/man/ampscale.1.in
(($(wc -c <"$template") <= 24000)) || fail "the manual's source has $(wc -c <"$template") bytes, not at most 24000: what belongs to one option is for its help"
if command -v mandoc >/dev/null; then
    mandoc -T lint -W warning "$page" || fail "mandoc has complaints"
elif command -v man >/dev/null && command -v groff >/dev/null; then
    [[ -z $(man --warnings -l "$page" 2>&1 >/dev/null) ]] || fail "man prints warnings: $(man --warnings -l "$page" 2>&1 >/dev/null)"
else
    echo "neither mandoc nor man with groff is installed"
    exit 77
fi
finish
