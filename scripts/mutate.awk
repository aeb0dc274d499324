# Reads tests/mutate/mutants.list for scripts/mutate. -v mode:
#     names   prints a line "name TAB area TAB file TAB tests TAB targets" for each mutant
#     apply   prints a source file, the second argument, with the changes of the mutant `only` (-v).
#             The exit code is 3 if the mutant's old lines do not occur exactly once in the file.
# Old and new lines are compared and written without indentation, so the list need not follow the
# indentation of the files. The first new line gets the indentation of the first old line.

function trimmed(text)
{
    sub(/^[ \t]+/, "", text)
    sub(/[ \t]+$/, "", text)
    return text
}

# program_of TEST: the target that ctest runs as TEST, which begins with its component.
function program_of(test)
{
    if (test ~ /^cli_/)
        return "cli_tests"
    match(test, /^(kernels_cuda|[a-z]+)_/)
    return "test_" substr(test, 1, RLENGTH - 1)
}

function print_name(    targets, list, i, n)
{
    if (name == "" || mode != "names")
        return
    targets = build
    n = split(tests, list, " ")
    for (i = 1; i <= n && build == ""; i++)
        targets = targets " " program_of(list[i])
    printf "%s\t%s\t%s\t%s\t%s\n", name, area, file, tests, trimmed(targets)
}

function matches_at(line,    i)
{
    for (i = 1; i <= n_old; i++)
        if (trimmed(text[line + i - 1]) != old[i])
            return 0
    return 1
}

FNR == NR {
    if ($1 == "mutant") {
        print_name()
        name = $2
        area = file = tests = build = ""
    } else if ($1 ~ /^(area|file|tests|build)$/) {
        rest = $0
        sub(/^[a-z]+ +/, "", rest)
        if ($1 == "area") area = rest
        if ($1 == "file") file = rest
        if ($1 == "tests") tests = rest
        if ($1 == "build") build = rest
    } else if (/^-/ && name == only)
        old[++n_old] = trimmed(substr($0, 2))
    else if (/^\+/ && name == only)
        new[++n_new] = trimmed(substr($0, 2))
    next
}

{ text[++lines] = $0 }

END {
    print_name()
    if (mode != "apply")
        exit
    for (i = 1; i + n_old - 1 <= lines; i++)
        if (matches_at(i)) {
            found++
            at = i
        }
    if (n_old == 0 || n_new == 0 || found != 1) {
        printf "mutant %s: its old lines occur %d times in the file\n", only, found >"/dev/stderr"
        exit 3
    }
    indent = text[at]
    sub(/[^ \t].*$/, "", indent)
    for (i = 1; i < at; i++)
        print text[i]
    for (i = 1; i <= n_new; i++)
        print indent new[i]
    for (i = at + n_old; i <= lines; i++)
        print text[i]
}
