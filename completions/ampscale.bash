# Completion of ampscale's command line for bash.
#
# Everything is asked of the program itself, so that nothing here can fall behind it: commands and
# flags come from --help; the values of flags and arguments from the word that stands for them there
# (FILE, DIR, RUN, DATA, or the choices themselves, as in step|cosine; other words in capitals are
# for the user to fill in); architectures from `ampscale info --list`.

# The commands of a family, as its help lists them: indented words before two spaces. None when the
# usage line has no <command>.
_ampscale_commands() {
    "$@" --help 2>/dev/null | sed -nE '1{/<command>/!q}; s/^  ([a-z][a-z0-9-]*)  +[^ ].*/\1/p'
}

# The flags of a command, each with what stands for its value, if it takes one:
# "-b N", "--batch-size N", "--evaluate". A flag's line ends where a space comes that follows no comma.
_ampscale_flags() {
    "$@" --help 2>/dev/null | awk '
        !/^  -[^-]|^      --/ { next }
        {
            sub(/^ +/, "")
            if (match($0, /[^,] /))
                $0 = substr($0, 1, RSTART)
            n = split($0, flag, ", ")
            value = flag[n] ~ /=/ ? flag[n] : ""
            sub(/^[^=]*=/, "", value)
            for (i = 1; i <= n; i++) {
                sub(/=.*/, "", flag[i])
                print flag[i], value
            }
        }'
}

# What stands for a command's arguments: the last word of its usage, "RUN..." or "[DATA]", without
# brackets and dots.
_ampscale_arguments() {
    "$@" --help 2>/dev/null | awk '
        NR > 1 && !/^ / { exit }
        { word = $NF }
        END {
            gsub(/[].[]/, "", word)
            if (word !~ /^-/)
                print word
        }'
}

# The names that `info --list` gives, one a line; its first line is a heading.
_ampscale_architectures() {
    "${program[@]}" info --list 2>/dev/null | awk 'NR > 1 { print $1 }'
}

# Fills COMPREPLY with the values of what the help calls $1.
_ampscale_value() {
    local word=$2 kind kinds choices=()
    IFS='|' read -ra kinds <<<"$1"
    for kind in "${kinds[@]}"; do
        case $kind in
        ARCH) mapfile -t -O "${#choices[@]}" choices < <(_ampscale_architectures) ;;
        FILE | FILE:*) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
        DIR | RUN | DATA) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
        # cuda:N,... is a device with its number to come; what is all in capitals is no word to offer.
        *[a-z0-9]*)
            kind=${kind%%:N*}
            [[ " ${choices[*]} " == *" $kind "* ]] || choices+=("$kind")
            ;;
        esac
    done
    ((${#COMPREPLY[@]} == 0)) || compopt -o filenames 2>/dev/null
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "${choices[*]}" -- "$word")
}

_ampscale() {
    local program=("${COMP_WORDS[0]}") word=${COMP_WORDS[COMP_CWORD]} flag='' i commands kind
    COMPREPLY=()

    # bash cuts --flag=value into three words.
    if [[ $word == '=' ]]; then
        word=
        flag=${COMP_WORDS[COMP_CWORD - 1]}
    elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == '=' ]]; then
        flag=${COMP_WORDS[COMP_CWORD - 2]}
    else
        flag=${COMP_WORDS[COMP_CWORD - 1]}
    fi

    # What `launch` runs is a command line of its own.
    local first=1
    if [[ ${COMP_WORDS[1]} == launch ]]; then
        for ((i = 2; i < COMP_CWORD && first == 1; i++)); do
            [[ ${COMP_WORDS[i]} != -- ]] || first=$((i + 1))
        done
    fi

    local command=("${program[@]}")
    commands=$(_ampscale_commands "${command[@]}")
    for ((i = first; i < COMP_CWORD; i++)); do
        [[ $'\n'$commands$'\n' == *$'\n'"${COMP_WORDS[i]}"$'\n'* ]] || break
        command+=("${COMP_WORDS[i]}")
        commands=$(_ampscale_commands "${command[@]}")
    done

    if [[ $flag == -* && $flag != -- ]]; then
        kind=$(_ampscale_flags "${command[@]}" | awk -v flag="$flag" '$1 == flag { print $2 }')
        # A flag that the help does not show.
        [[ $flag != --inject ]] || kind='slow-rank=|throttle=|bitflip=|lost-image'
        if [[ -n $kind ]]; then
            _ampscale_value "$kind" "$word"
            return
        fi
    fi
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_ampscale_flags "${command[@]}" | cut -d' ' -f1)" -- "$word")
    elif [[ -n $commands ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word")
    else
        _ampscale_value "$(_ampscale_arguments "${command[@]}")" "$word"
    fi
}

complete -F _ampscale ampscale
