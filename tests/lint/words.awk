# Finds words that words.list bans. Reads words.list first, then the texts. Prints for each match
#     FILE:LINE: words -> term
# and exits with 1 if there is a match.

function words_of(text) {
    text = tolower(text)
    gsub(/[.,;:(){}\[\]=<>!?+|&]+/, " . ", text)
    gsub(/%+/, " % ", text)
    gsub(/[^a-z0-9%.]+/, " ", text)
    gsub(/^ +| +$/, "", text)
    return text
}

# Returns the part of a line of words.list after a mark, or "" if the line lacks the mark.
function part(line, mark,   at) {
    at = index(line, mark)
    if (!at)
        return ""
    line = substr(line, at + length(mark))
    sub(/ (->|!|@!?) .*/, "", line)
    return line
}

# Reads words.list, the first file. A line has a pattern, its term, and exceptions.
FNR == NR {
    if (/^#/ || /^ *$/)
        next
    n++
    pattern[n] = $0
    sub(/ -> .*/, "", pattern[n])
    term[n] = part($0, " -> ")
    right[n] = part($0, " ! ")
    only[n] = part($0, " @ ")
    except[n] = part($0, " @! ")
    any = any (n > 1 ? "|" : "") pattern[n]
    next
}

FNR == 1 {
    before = ""
    for (i = 1; i <= n; i++)
        used[i] = (only[i] == "" || FILENAME ~ only[i]) && (except[i] == "" || FILENAME !~ except[i])
}

# Searches a line together with the last four words of the previous line, to find phrases that a
# line break divides. Skips phrases that end within those words, because they have been reported.
{
    own = words_of($0)
    text = own == "" ? "" : " " before own " "
    if (text ~ (" (" any ") "))
        for (i = 1; i <= n; i++)
            if (used[i])
                look(i, text, length(before))
    m = split(own, word, " ")
    before = ""
    for (i = m > 4 ? m - 3 : 1; i <= m; i++)
        before = before word[i] " "
}

function look(i, text, seen,   at, found) {
    if (right[i] != "")
        while (match(text, " (" right[i] ") ")) {
            found = substr(text, RSTART, RLENGTH)
            gsub(/[^ ]/, "-", found)
            text = substr(text, 1, RSTART - 1) found substr(text, RSTART + RLENGTH)
        }
    at = 0
    while (match(substr(text, at + 1), " (" pattern[i] ") ")) {
        found = substr(text, at + RSTART + 1, RLENGTH - 2)
        at += RSTART + RLENGTH - 2
        if (at > seen) {
            bad = 1
            print FILENAME ":" FNR ": " found " -> " term[i]
        }
    }
}

END { exit bad }
