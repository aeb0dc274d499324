# Reads ctest's JUnit reports. Lists the skipped tests with reasons, then prints one line:
#     N passed, N failed, N skipped
# Counts tests of ctest. A test that ctest could not start counts as failed. A cmocka program with
# skipped cases counts by its own result, and each of these cases also counts as skipped. Exits with
# 1 if a test failed or no test ran.

function attribute(name) {
    return match($0, " " name "=\"[^\"]*\"") ? substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4) : ""
}

function plain(text) {
    gsub(/&lt;/, "<", text)
    gsub(/&gt;/, ">", text)
    gsub(/&quot;/, "\"", text)
    gsub(/&amp;/, "\\&", text)
    return text
}

function skip(name, why) {
    name = name ": " (why == "" ? "no reason given" : plain(why))
    skipped++
    if (times[name]++ == 0)
        line[++lines] = name
}

/^[ \t]*<testcase / {
    test = attribute("name")
    state = attribute("status")
    why = said = ""
    next
}

/^[ \t]*<skipped / {
    if (state == "disabled")
        why = "disabled"
    else if (attribute("message") !~ /^SKIP_/)
        state = "fail"
    next
}

/^[ \t]*<\/testcase>/ {
    if (state == "run")
        passed++
    else if (state == "fail")
        failed++
    else
        skip(test, said != "" ? said : why)
    test = ""
    next
}

# The following lines are the output of a test. The reason of a skipped case is its output between
# its RUN and SKIPPED lines. The summary of a cmocka program repeats the names of the skipped cases.
{
    sub(/^[ \t]*<system-out>/, "")
    sub(/<\/system-out>$/, "")
}

/^\[ RUN      \] / {
    running = substr($0, 14)
    said = ""
    next
}

/^\[  SKIPPED \] / && running != "" {
    skip(test "/" running, said)
    running = ""
    next
}

/^\[/ {
    running = ""
    next
}

test != "" && /[^ \t]/ {
    said = $0
}

END {
    if (lines > 0)
        print "\nSkipped:"
    for (i = 1; i <= lines; i++)
        printf "  %s%s\n", line[i], (times[line[i]] > 1 ? " (" times[line[i]] " times)" : "")
    printf "\n%d passed, %d failed, %d skipped\n", passed, failed, skipped
    exit failed > 0 || passed == 0
}
