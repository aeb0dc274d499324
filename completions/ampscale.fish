# Completion of ampscale's command line for fish. The program itself is asked, so that nothing here
# can be out of date: commands come from --help, flags from the list that the manual is made of
# (--mdoc), architectures from `ampscale info --list`.

# The commands of a family with their summaries, one a line; none if $argv is no family.
function __ampscale_commands
    $argv --help 2>/dev/null | awk '
        NR == 1 && !/<command>/ { exit }
        /^  [a-z][a-z0-9-]*  +[^ ]/ { name = $1; sub(/^ +[^ ]+ +/, ""); print name "\t" $0 }'
end

# The flags of a command, one a line: flag, the word for its value or nothing, help.
function __ampscale_flags
    $argv --mdoc 2>/dev/null | awk '
        /^\.It / {
            n = split(substr($0, 5), item, " , ")
            getline
            sub(/^\\&/, "")
            sub(/\.$/, "")
            value = item[n] # a flag of one letter is listed without it
            if (!sub(/^.* Ar /, "", value))
                value = ""
            for (i = 1; i <= n; i++) {
                sub(/^Fl /, "-", item[i])
                sub(/ .*/, "", item[i])
                print item[i] "\t" value "\t" $0
            }
        }'
end

# The word for a command's arguments: the last one of its usage, without brackets and dots.
function __ampscale_arguments
    $argv --help 2>/dev/null | awk '
        NR > 1 && !/^ / { exit }
        { word = $NF }
        END { gsub(/[].[]/, "", word); if (word !~ /^-/) print word }'
end

# Offers values for the word $argv[2] of the help: paths that begin with $argv[3], or the choices.
# $argv[1] is the program.
function __ampscale_value
    for kind in (string split '|' -- $argv[2])
        switch $kind
            case ARCH
                $argv[1] info --list 2>/dev/null | awk 'NR > 1 { print $1 }'
            case FILE 'FILE:*'
                __fish_complete_path $argv[3]
            case DIR RUN DATA
                __fish_complete_directories $argv[3]
            case '*'
                # cuda:N,... is a device with its number to come; a word in capitals is the user's.
                if string match -qr '[a-z0-9]' -- $kind
                    string replace -r ':N.*|,\.\.\.$' '' -- $kind
                end
        end
    end
end

function __ampscale_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l program $words[1]
    set -l top (__ampscale_commands $program | cut -f 1)

    # What `launch` runs is a command line of its own.
    set -l first 2
    if test "$words[2]" = launch
        for i in (seq 3 (count $words))
            if test "$words[$i]" = --; or contains -- $words[$i] $top
                set first (test "$words[$i]" = --; and math $i + 1; or echo $i)
                break
            end
        end
    end

    set -l command $program
    set -l commands (__ampscale_commands $command)
    for i in (seq $first (count $words))
        contains -- "$words[$i]" (string split -f 1 \t -- $commands); or break
        set -a command $words[$i]
        set commands (__ampscale_commands $command)
    end

    set -l flag $words[-1]
    set -l prefix ''
    set -l rest $word
    if string match -qr '^--[^=]+=' -- $word
        set flag (string replace -r '=.*' '' -- $word)
        set prefix "$flag="
        set rest (string replace -r '^[^=]*=' '' -- $word)
    end
    set -l flags (__ampscale_flags $command)
    if string match -q -- '-*' $flag; and test "$flag" != --
        for line in $flags
            set -l part (string split \t -- $line)
            if test "$part[1]" = "$flag"; and test -n "$part[2]"
                for value in (__ampscale_value $program $part[2] $rest)
                    echo $prefix$value
                end
                return
            end
        end
    end
    if string match -q -- '-*' $word
        for line in $flags
            set -l part (string split \t -- $line)
            printf '%s\t%s\n' $part[1] $part[3]
        end
        printf '%s\t%s\n' --help 'print the flags and exit'
    else if set -q commands[1]
        printf '%s\n' $commands
    else
        __ampscale_value $program (__ampscale_arguments $command) $word
    end
end

complete -c ampscale -f -a '(__ampscale_complete)'
