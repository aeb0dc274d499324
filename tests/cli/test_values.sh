#!/usr/bin/env bash
# Gives invalid values to every flag of every command. Each command must report the value in one
# line at once. It must not crash, hang, or begin its work.
. "$(dirname "$0")/common.sh" "$@"
cd "$scratch" || exit 1

# Invalid numbers. A flag whose value is text gets only the empty value, because it accepts almost
# any other text.
values=('' -1 nan 9223372036854775808 5x)
# the placeholders that --help prints for numbers
numbers=' N H S X P PX F E A W T M G B MIB LR SIZE SIGMA PERCENT SECONDS '

# valued_flags COMMAND...: prints the flags in the command's help that take a value, as
# --name=VALUE, one per line.
valued_flags() {
    "$program" "$@" --help | sed -nE 's/^  (-., |    )(--[a-z0-9-]+=[^ ]+).*/\2/p'
}

# try WANT FLAG VALUE COMMAND...: checks that the command refuses the value with one line, and that
# its exit code matches the pattern WANT.
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
