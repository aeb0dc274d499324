# Finds words that words.list bans. Reads words.list first, then each text as one record. Prints for
# each match
#     FILE:LINE: words -> term
# and exits with 1 if there is a match.

# Returns the part of a line of words.list after a mark, or "" if the line lacks the mark. A space
# stands for any space, also for the end of a line.
function part(line, mark,   at) {
    at = index(line, mark)
    if (!at)
        return ""
    line = substr(line, at + length(mark))
    sub(/ (->|!|@!?) .*/, "", line)
    return line
}

function spaced(pattern) {
    gsub(/ /, "[ \n]+", pattern)
    return pattern == "" ? "" : "[ \n](" pattern ")[ \n]"
}

FNR == NR {
    if (/^#/ || /^ *$/)
        next
    n++
    pattern[n] = spaced(part(" -> " $0, " -> "))
    term[n] = part($0, " -> ")
    right[n] = spaced(part($0, " ! "))
    only[n] = part($0, " @ ")
    except[n] = part($0, " @! ")
    next
}

{
    text = "\n" tolower($0) "\n"
    gsub(/[.,;:(){}\[\]=<>!?+|&]+/, " . ", text)
    gsub(/%+/, " % ", text)
    gsub(/[^a-z0-9%.\n]+/, " ", text)
    for (i = 1; i <= n; i++)
        if (text ~ pattern[i] && (only[i] == "" || FILENAME ~ only[i]) && (except[i] == "" || FILENAME !~ except[i]))
            look(i, text)
}

# Hides the phrases in which the words are right, then prints what is left.
function look(i, text,   found, before, line) {
    while (right[i] != "" && match(text, right[i])) {
        found = substr(text, RSTART, RLENGTH)
        gsub(/[a-z]/, "-", found)
        text = substr(text, 1, RSTART - 1) found substr(text, RSTART + RLENGTH)
    }
    for (line = 0; match(text, pattern[i]); text = substr(text, RSTART + RLENGTH - 1)) {
        before = substr(text, 1, RSTART + RLENGTH - 2) # its newlines are counted; the first is none
        found = substr(text, RSTART + 1, RLENGTH - 2)
        line += gsub(/\n/, "", before)
        gsub(/[ \n]+/, " ", found)
        print FILENAME ":" line ": " found " -> " term[i]
        bad = 1
    }
}

END { exit bad }
