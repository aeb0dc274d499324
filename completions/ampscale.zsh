#compdef ampscale
# Completion of ampscale's command line for zsh. The program itself is asked, so that nothing here can
# be out of date: commands come from --help, flags from the list that the manual is made of (--mdoc),
# architectures from `ampscale info --list`.

# The commands of a family as "name:summary", one a line; none if the arguments are no family.
_ampscale_commands() {
    "$@" --help 2>/dev/null | awk '
        NR == 1 && !/<command>/ { exit }
        /^  [a-z][a-z0-9-]*  +[^ ]/ { name = $1; sub(/^ +[^ ]+ +/, ""); print name ":" $0 }'
}

# The flags of a command, one a line: flag, the word for its value or "-", help.
_ampscale_flags() {
    "$@" --mdoc 2>/dev/null | awk '
        /^\.It / {
            n = split(substr($0, 5), item, " , ")
            getline
            sub(/^\\&/, "")
            sub(/\.$/, "")
            value = item[n] # a flag of one letter is listed without it
            if (!sub(/^.* Ar /, "", value))
                value = "-"
            for (i = 1; i <= n; i++) {
                sub(/^Fl /, "-", item[i])
                sub(/ .*/, "", item[i])
                print item[i] "\t" value "\t" $0
            }
        }'
}

# The word for a command's arguments: the last one of its usage, without brackets and dots.
_ampscale_arguments() {
    "$@" --help 2>/dev/null | awk '
        NR > 1 && !/^ / { exit }
        { word = $NF }
        END { gsub(/[].[]/, "", word); if (word !~ /^-/) print word }'
}

# Offers values for the word $1 of the help: paths, or the choices.
_ampscale_value() {
    local kind
    local -aU choices
    for kind in ${(s:|:)1}; do
        case $kind in
        (ARCH) choices+=(${(f)"$($program info --list 2>/dev/null | awk 'NR > 1 { print $1 }')"}) ;;
        (FILE|FILE:*) _files ;;
        (DIR|RUN|DATA) _files -/ ;;
        # cuda:N,... is a device with its number to come; a word in capitals is for the user to fill in.
        (*[a-z0-9]*) choices+=(${${kind%%:N*}%,...}) ;;
        esac
    done
    (( ! ${#choices} )) || compadd -- $choices
}

_ampscale() {
    local program=${(Q)words[1]} word=${words[CURRENT]} flag=${words[CURRENT - 1]} first=2 i line kind
    local -a top command commands flags part described
    top=(${(f)"$(_ampscale_commands $program)"})

    # What `launch` runs is a command line of its own.
    if [[ ${words[2]} == launch ]]; then
        for ((i = 3; i < CURRENT; i++)); do
            [[ ${words[i]} == -- ]] && first=$((i + 1)) && break
            (( ${top[(I)${words[i]}:*]} )) && first=$i && break
        done
    fi

    command=($program)
    commands=($top)
    for ((i = first; i < CURRENT; i++)); do
        (( ${commands[(I)${words[i]}:*]} )) || break
        command+=(${words[i]})
        commands=(${(f)"$(_ampscale_commands $command)"})
    done

    flags=(${(f)"$(_ampscale_flags $command)"})
    if [[ $word == --*=* ]]; then
        flag=${word%%=*}
        compset -P '*='
    fi
    if [[ $flag == -* && $flag != -- ]]; then
        for line in $flags; do
            part=(${(ps:\t:)line})
            if [[ ${part[1]} == $flag && ${part[2]} != - ]]; then
                _ampscale_value ${part[2]}
                return
            fi
        done
    fi
    if [[ $word == -* ]]; then
        for line in $flags; do
            part=(${(ps:\t:)line})
            described+=("${part[1]}:${part[3]}")
        done
        _describe -o 'flag' described
        described=('--help:print the flags and exit')
        _describe -o 'flag' described
    elif (( ${#commands} )); then
        _describe 'command' commands
    else
        _ampscale_value "$(_ampscale_arguments $command)"
    fi
}

_ampscale "$@"
