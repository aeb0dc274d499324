#!/usr/bin/env bash
# Completion offers the commands, each command's flags, and the values of flags.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/completions/ampscale.bash"

# complete_words WORD...: what is offered for the last of the words after the program's name, one a
# line, sorted.
complete_words() {
    COMP_WORDS=("$program" "$@")
    COMP_CWORD=$#
    _ampscale
    ((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}" | sort
}

# offers WANT WORD...: exactly that is offered.
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
! sanitized || commands=$(head -n 5 <<<"$commands")
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
finish
