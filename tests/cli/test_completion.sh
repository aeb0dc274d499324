#!/usr/bin/env bash
# Completion offers the commands, each command's flags, and the values of flags.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/completions/ampscale.bash"

# complete_words WORD...: prints the completions of the last word of a command line, one a line,
# sorted.
complete_words() {
    COMP_WORDS=("$program" "$@")
    COMP_CWORD=$#
    _ampscale
    ((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}" | sort
}

# offers WANT WORD...: checks that exactly the words WANT are offered.
offers() {
    local want=$1 got
    shift
    got=$(complete_words "$@")
    [[ $got == "$want" ]] || fail "completing 'ampscale $*' offers '${got//$'\n'/ }', not '${want//$'\n'/ }'"
}

commands=$(all_commands)
[[ -n $commands ]] || fail "'ampscale --help' lists no command"
offers "$(sub_commands | sort)" ""
offers "train" tra
while read -ra command; do
    flags=$(help_flags "${command[@]}" | grep -e '^--')
    offers "$(printf '%s\n--help' "$flags" | sort)" "${command[@]}" --
done <<<"$commands"

networks=$(complete_words train -a resnet)
[[ $networks == *resnet18* && $networks == *resnet50* ]] || fail "train -a offers '$networks'"
offers "$networks" train --arch = resnet
offers $'constant\ncosine' train --lr-schedule co
offers $'O0\nO1\nO2\nO3' train --opt-level = O
offers "dynamic" train --loss-scale ""
offers $'cpu\ncuda\nref' train --devices ""
offers "" launch --hosts ""
offers $'1\n2\n3\n4' accept --level ""
offers "" train --epochs ""
offers "lost-image" train --inject lo

mkdir -p "$scratch/some/run" && touch "$scratch/some/autumn" && cd "$scratch"/some
offers "run" train ru
offers "run" train --out r
offers "run" plot --title x r
offers "" info r
offers $'collective\nconv' bench co
offers bfloat16 bench collective -d bf
offers broadcast bench collective br
offers $'auto\nautumn' train --resume aut
offers "train" launch --nproc 2 -- tra
offers "$(complete_words train --)" launch --nproc 2 -- train --
offers "dynamic" launch -- train --loss-scale ""
offers $'cores\nnone' launch --bind ""

# zsh and fish, if installed, offer the same words. The leak sanitizer is off, because it sometimes
# hangs in a pipeline of zsh. The tests above have run the same commands with the leak sanitizer.
export PATH=${program%/*}:$PATH
sanitized && export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
words_of() {
    "offered_by_$1" "${@:2}" 2>"$scratch/err" | sed 's/\t.*//; s|/$||' | sort
}
# shellcheck disable=SC2016,SC2329 # fish expands the variables, and words_of calls the function
offered_by_fish() {
    fish --no-config -c 'source $argv[1]; complete -C "ampscale "(string join " " -- $argv[2..])' \
        "$source_dir/completions/ampscale.fish" "$@"
}
# zsh completes only on a terminal. Here, functions that print replace zsh's own completion
# functions.
# shellcheck disable=SC2016,SC2329 # zsh expands the variables, and words_of calls the function
offered_by_zsh() {
    zsh -f -c '
        source=$1; shift
        words=(ampscale "$@") CURRENT=$(($# + 1)) word=${@[-1]}
        compset() { word=${word#*=}; }
        compadd() { shift; print -rl -- ${(M)@:#$word*}; }
        _files() { [[ $1 == -/ ]] && print -rl -- $word*(/N) || print -rl -- $word*(N); }
        _describe() { local -a all=("${(@)${(@P)@[-1]}%%:*}"); print -rl -- ${(M)all:#$word*}; }
        eval "$(sed "\$d" $source)"; _ampscale' zsh "$source_dir/completions/ampscale.zsh" "$@" | grep .
}
for shell in zsh fish; do
    command -v $shell >/dev/null || { echo "not tested: there is no $shell" && continue; }
    while IFS='|' read -r want line; do
        IFS=' ' read -ra line <<<"$line"
        [[ ${line[-1]} != _ ]] || line[-1]=
        got=$(words_of $shell "${line[@]}")
        got=${got//$'\n'/ }
        [[ $got == "$want" && ! -s $scratch/err ]] ||
            fail "$shell: completing 'ampscale ${line[*]}' offers '$got', not '$want': $(<"$scratch/err")"
    done <<EOF
train|tra
$(help_flags train | grep -e '^--lr' | sort | tr '\n' ' ' | sed 's/ $//')|train --lr
constant cosine|train --lr-schedule co
dynamic|train --loss-scale _
cpu cuda ref|train --devices _
run|train ru
run|train --out r
a100 autumn|accept --spec a
collective conv|bench co
train|launch --nproc 2 -- tra
dynamic|launch -np 2 train --loss-scale d
|train --epochs _
EOF
    [[ $(words_of $shell train -a resnet) == "$networks" ]] || fail "$shell: train -a offers '$(words_of $shell train -a resnet)'"
done
finish
