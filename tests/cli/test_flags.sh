#!/usr/bin/env bash
# The manual describes each command of the program once, with all of its flags, and no other
# command.
. "$(dirname "$0")/common.sh" "$@"

template=$source_dir/docs/man/ampscale.1.in
page=$build_dir/ampscale.1

# same WHAT A B: checks that the lines of A (the program's) equal the lines of B (the manual's).
same() {
    local line
    while read -r line; do
        [[ -z $line ]] || fail "$1: the manual lacks '$line'"
    done < <(comm -23 <(sort <<<"$2") <(sort <<<"$3"))
    while read -r line; do
        [[ -z $line ]] || fail "$1: the manual has '$line', which the program lacks"
    done < <(comm -13 <(sort <<<"$2") <(sort <<<"$3"))
}

# page_flags COMMAND: prints the flags of the list items in the command's subsection of the
# generated page.
page_flags() {
    awk -v command="$1" '
        /^\.S[sh] / { sub(/^\.S[sh] /, ""); gsub(/"/, ""); here = $0 == command; next }
        here && /^\.It Fl / {
            for (i = 2; i <= NF; i++)
                if ($i == "Fl")
                    print "-" $(i + 1)
        }' "$page" | sort
}

commands=$(all_commands)
[[ -n $commands ]] || fail "'ampscale --help' lists no command"
same "commands" "$commands" "$(sed -n 's/^@options //p' "$template")"
known='--help --version'
while read -ra command; do
    flags=$(help_flags "${command[@]}")
    [[ -n $flags ]] || fail "'${command[*]} --help' lists no flags"
    same "${command[*]}" "$flags" "$(page_flags "${command[*]}")"
    known+=" ${flags//$'\n'/ }"
done <<<"$commands"

# The commands reference has the help of each command, and the records reference the keys of records.
reference=$build_dir/docs/reference
while read -r command; do
    # shellcheck disable=SC2086 # the name is one or two words
    diff <(awk -v title="## ampscale $command" '$0 == title { on = 1; next } /^## / { on = 0 } on && !/^```|^$/' "$reference/commands.md") \
        <("$program" $command --help | grep .) >"$scratch/differences" || fail "commands.md: '$command' differs: $(<"$scratch/differences")"
done <<<"$commands"
for key in images_per_s comm_s top1 seed time_to_accuracy; do
    grep -qE "^\| \`([a-z_.]+\.)?$key\` \| [a-z\`]+.* \| .+ \|$" "$reference/records.md" || fail "records.md has no row of '$key'"
done

# Each flag in the prose of the manual must be a flag of a command.
while read -r flag; do
    [[ " $known --inject --inject-overflow " == *" $flag "* ]] || fail "the manual mentions '$flag', but no command has this flag"
done < <(grep -oE '^\.(Fl|Cm .* Fl) -[a-z][a-z0-9-]*|^@note [a-z0-9-]+' "$template" | sed -E 's/.*(Fl -|@note )/--/' | sort -u)

# A note on a flag or command that no longer exists is an error.
for bad in $'@options info\n@note nonesuch\nWord.\n@end' $'@options nonesuch\n@end' '@options info'; do
    printf '%s\n' "$bad" >"$scratch/bad.in"
    ! "$source_dir/docs/man/make-page" "$program" "$scratch/bad.in" >"$scratch/page" 2>"$scratch/err" || fail "make-page made a page of '$bad'"
    grep -q '^make-page: ' "$scratch/err" || fail "make-page does not say what is wrong with '$bad': $(cat "$scratch/err")"
done
finish
