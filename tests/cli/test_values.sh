#!/usr/bin/env bash
# Invalid values for every flag of every command: one line says so at once, whatever the flag, and
# no command crashes, hangs, or begins to work.
. "$(dirname "$0")/common.sh" "$@"
cd "$scratch" || exit 1

# Invalid numbers. Flags with text accept almost any word, but not an empty one.
values=('' -1 nan 9223372036854775808 5x)
! sanitized || values=('' 9223372036854775808)
numbers=' N H S X P PX F E A W T M G B MIB LR SIZE SIGMA PERCENT SECONDS ' # as helps call them

# valued_flags COMMAND...: prints the flags in its help that take a value, as --name=VALUE, one a
# line.
valued_flags() {
    "$program" "$@" --help | sed -nE 's/^  (-., |    )(--[a-z0-9-]+=[^ ]+).*/\2/p'
}

# try WANT FLAG VALUE COMMAND...: checks that the value is refused with an exit code that matches
# the pattern WANT.
try() {
    local want=$1 flag=$2 value=$3
    shift 3
    code=0
    timeout -k 1 20 "$program" "$@" "$flag" "$value" >out 2>err </dev/null || code=$?
    # shellcheck disable=SC2053 # a pattern
    [[ $code == $want ]] || fail "'$* $flag '$value'' ended with $code: $(head -c 300 err)"
    [[ $(wc -l <err) == 1 ]] || fail "'$* $flag '$value'' wrote $(wc -l <err) lines: $(head -c 300 err)"
    tried=$((tried + 1))
}

tried=0
while read -ra command; do
    while IFS='=' read -r flag meaning; do
        if [[ $numbers != *" $meaning "* ]]; then
            try '[125]' "$flag" '' "${command[@]}"
            continue
        fi
        for value in "${values[@]}"; do
            try 2 "$flag" "$value" "${command[@]}"
        done
    done < <(valued_flags "${command[@]}")
done < <(all_commands)
((tried > 300)) || fail "only $tried values were tried"
finish
