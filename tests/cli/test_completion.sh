#!/usr/bin/env bash
# Completion offers the commands, each command's flags, and the values of flags.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/completions/ampscale.bash"

# offered_by_bash WORD...: prints the completions of the last word of a command line, one a line.
offered_by_bash() {
    COMP_WORDS=("$program" "$@")
    COMP_CWORD=$#
    _ampscale
    ((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"
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

# words_of SHELL WORD...: prints the completions that the shell offers, sorted, on one line.
words_of() {
    "offered_by_$1" "${@:2}" 2>"$scratch/err" | sed 's/\t.*//; s|/$||' | sort | xargs
}

# offers SHELL WANT WORD...: checks that exactly the words WANT are offered.
offers() {
    local got
    got=$(words_of "$1" "${@:3}")
    [[ $got == "$2" && ! -s $scratch/err ]] || fail "$1: completing 'ampscale ${*:3}' offers '$got', not '$2': $(<"$scratch/err")"
}

commands=$(all_commands)
[[ -n $commands ]] || fail "'ampscale --help' lists no command"
offers bash "$(sub_commands | sort | xargs)" ""
while read -ra command; do
    offers bash "$({ help_flags "${command[@]}" | grep -e '^--' && echo --help; } | sort | xargs)" "${command[@]}" --
done <<<"$commands"
networks=$(words_of bash train -a resnet)
[[ $networks == *resnet18*resnet50* ]] || fail "train -a offers '$networks'"

# zsh and fish, if installed, offer the same words.
mkdir -p "$scratch/some/run" && touch "$scratch/some/autumn" && cd "$scratch"/some || exit 1
export PATH=${program%/*}:$PATH
for shell in bash zsh fish; do
    command -v $shell >/dev/null || { echo "not tested: there is no $shell" && continue; }
    while IFS='|' read -r want line; do
        IFS=' ' read -ra line <<<"$line"
        [[ ${line[-1]} != _ ]] || line[-1]=
        offers $shell "$want" "${line[@]}"
    done <<EOF
train|tra
$(help_flags train | grep -e '^--lr' | sort | xargs)|train --lr
$networks|train -a resnet
constant cosine|train --lr-schedule co
dynamic|train --loss-scale _
cpu cuda ref|train --devices _
run|train ru
run|train --out r
a100 autumn|accept --spec a
collective conv|bench co
train|launch --nproc 2 -- tra
dynamic|launch --nproc 2 -- train --loss-scale d
|train --epochs _
EOF
done
while IFS='|' read -r want line; do
    IFS=' ' read -ra line <<<"$line"
    offers bash "$want" "${line[@]}"
done <<EOF
$networks|train --arch = resnet
1 2 3 4|accept --level =
lost-image|train --inject lo
run|plot --title x r
|info r
bfloat16|bench collective -d bf
broadcast|bench collective br
auto autumn|train --resume aut
$(words_of bash train --)|launch --nproc 2 -- train --
EOF
finish
