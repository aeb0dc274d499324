#!/usr/bin/env bash
# Everything that the documents name exists: each ampscale command and its flags, each script, each
# linked file, and each source file.
. "$(dirname "$0")/common.sh" "$@"
cd "$source_dir" || exit 1

mapfile -t docs < <(find README.md CONTRIBUTING.md CHANGELOG.md docs -name "*.md" | sort)
commands=$(all_commands)
families=$(sed -n 's/ .*//p' <<<"$commands" | sort | uniq -d)

# invocations FILE: prints the ampscale commands in the file, one a line, from the command's name
# on. Reads code blocks and code in sentences. Includes commands that a launcher starts after '--'.
invocations() {
    awk '
        /^```/ { code = !code; next }
        code || /^    / {
            sub(/ #.*/, "")
            $0 = begun $0
            begun = sub(/\\$/, "") ? $0 : ""
            if (begun == "" && (sub(/^ *(.* )?ampscale /, "") || sub(/^.*scripts\/gpu-check .* -- /, "")))
                print
            next
        }
        { n = split($0, part, "`"); for (i = 2; i <= n; i += 2) if (sub(/^ampscale /, "", part[i])) print part[i] }' "$1" |
        sed -E 's/ -- (bench|train|accept|selftest|study) /\n\1 /; s/ [|>&].*//; s/[\\()]//g'
}

# flags_of COMMAND...: prints the command's flags, and caches them, because many lines need the same
# flags.
declare -A flags_known
flags_of() {
    [[ -v flags_known["$*"] ]] || flags_known["$*"]=$(help_flags "$@")
    flags=${flags_known["$*"]}
}

check_invocation() {
    local file=$1 word flag flags
    shift
    local command=("$1")
    if grep -qx -- "$1" <<<"$families"; then
        [[ $# == 1 || $2 != [a-z]* ]] || command+=("$2")
        ((${#command[@]} == 2)) || return 0
    fi
    [[ $1 != help ]] || return 0
    grep -qx -- "${command[*]}" <<<"$commands" || { fail "$file uses '${command[*]}', which is not a command" && return; }
    flags_of "${command[@]}"
    for word in "${@:${#command[@]}+1}"; do
        [[ $word != -- ]] || break
        [[ $word =~ ^--?[a-z] && $word != --help ]] || continue
        flag=${word%%=*} # underscores are dashes, and -np is horovodrun's spelling
        [[ $flag != -np ]] || flag=--np
        grep -qx -e "${flag//_/-}" <<<"$flags" || fail "$file: '${command[*]}' has no flag '$word'"
    done
}

# anchors FILE: prints the names of the headings in links, as GitHub makes them.
anchors() {
    sed -nE 's/^#+ +//p' "$1" | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}

found=0
for file in "${docs[@]}"; do
    while read -ra words; do
        [[ ${words[0]-} =~ ^[a-z][a-z-]*$ ]] || continue
        found=$((found + 1))
        check_invocation "$file" "${words[@]}"
    done < <(invocations "$file")

    while IFS= read -r link; do
        [[ -e $(dirname "$file")/${link%%#*} ]] || fail "$file: there is no '$link'"
        [[ $link != *.md#* ]] || grep -qxF -e "${link#*#}" < <(anchors "$(dirname "$file")/${link%%#*}") ||
            fail "$file: '$link' has no such heading"
    done < <(grep -oE '\]\([^):]+\)' "$file" | sed 's/^](//; s/)$//' | grep -v '^#')

    while IFS= read -r path; do
        [[ $path == *NAME* || $path == *SUBJECT* ]] || [[ -e $path ]] || compgen -G "$path" >/dev/null || fail "$file: there is no '$path'"
    done < <(grep -oE '`[a-z_]+/[A-Za-z0-9_./*-]+\.(c|h|cu|cuh|sh|py|awk|cmake|gp|list|open|txt|md)`|(^|[^/.a-z])(scripts/[a-z-]+|tests/[a-z_/]*[a-z_](\.[a-z]+)?)' "$file" |
        sed -E 's/^[^a-z]//; s/`//g' | sort -u)

    while IFS= read -r name; do
        [[ -n $(find . -path ./build -prune -o -name "$name" -print -quit) ]] || fail "$file: there is no '$name'"
    done < <(grep -oE '`[a-z0-9_]+\.(c|h|cu|cuh)`' "$file" | tr -d '`' | sort -u)
done
# Commits named in documents are in the history. Skipped if the repository or a part of its history
# is missing.
if [[ -e .git && $(git rev-parse --is-shallow-repository 2>/dev/null) == false ]]; then
    for hash in $(grep -ohE '`([0-9a-f]{7}|git show [0-9a-f]{7})`' "${docs[@]}" | grep -oE '[0-9a-f]{7}'); do
        git merge-base --is-ancestor "$hash" HEAD 2>/dev/null || fail "there is no commit '$hash'"
    done
fi
# The flags of gpu-check.
help=$(scripts/gpu-check --help)
while read -r flag; do
    grep -qE -e "(^|[[ ])$flag([] ]|$)" <<<"$help" || fail "scripts/gpu-check has no flag '$flag'"
done < <(sed -e ':a' -e '/\\$/{N;s/\\\n//;ba}' "${docs[@]}" | sed -nE 's/.*scripts\/gpu-check ([^`#]*).*/\1 -- /; T; s/ -- .*//; p' | grep -oE -e '--[a-z-]+' | sort -u)
((found > 100)) || fail "only $found commands were found"
echo "$found commands"
finish
