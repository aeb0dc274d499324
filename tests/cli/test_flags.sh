#!/usr/bin/env bash
# The manual names exactly the commands and flags that the program has.
. "$(dirname "$0")/common.sh" "$@"

page=$source_dir/docs/man/ampscale.1

# man_commands: the subsections of COMMANDS.
man_commands() {
    sed -n '/^\.Sh COMMANDS/,/^\.Sh [^C]/s/^\.Ss //p' "$page" | tr -d '"'
}

# man_flags COMMAND: the flags of the list items in its subsection.
man_flags() {
    awk -v command="$1" '
        /^\.S[sh] / { sub(/^\.S[sh] /, ""); gsub(/"/, ""); here = $0 == command; next }
        here && /^\.It Fl / {
            for (i = 2; i <= NF; i++)
                if ($i == "Fl")
                    print "-" $(i + 1)
        }' "$page" | sort
}

# same WHAT A B: the lines of A (the program's) and of B (the manual's) are the same.
same() {
    local line
    while read -r line; do
        [[ -z $line ]] || fail "$1: the manual lacks '$line'"
    done < <(comm -23 <(sort <<<"$2") <(sort <<<"$3"))
    while read -r line; do
        [[ -z $line ]] || fail "$1: the manual has '$line', which the program lacks"
    done < <(comm -13 <(sort <<<"$2") <(sort <<<"$3"))
}

commands=$(all_commands)
[[ -n $commands ]] || fail "'ampscale --help' lists no command"
same "commands" "$commands" "$(man_commands)"
while read -ra command; do
    flags=$(help_flags "${command[@]}")
    [[ -n $flags ]] || fail "'${command[*]} --help' lists no flags"
    same "${command[*]}" "$flags" "$(man_flags "${command[*]}")"
done <<<"$commands"
finish
