#!/usr/bin/env bash
# The site of the documents can be made, and no link in it leads nowhere.
. "$(dirname "$0")/common.sh" "$@"
command -v mkdocs >/dev/null || skip "mkdocs is not installed (scripts/setup --test)"

"$source_dir/scripts/site" "$build_dir" "$scratch/site" >"$scratch/out" 2>&1 || fail "scripts/site: $(<"$scratch/out")"
python3 "$source_dir/tests/site/links.py" "$scratch/site" || fail "links are broken"
for page in index docs/tutorial docs/reference/commands docs/reference/records docs/explanation/verdicts; do
    [[ -s $scratch/site/$page.html ]] || fail "the site lacks $page.html"
done
finish
