# Reads ctest's JUnit reports; lists what was skipped and why, then counts in one line:
#     N passed, N failed, N skipped
# A test is what ctest ran. One that ctest could not start failed. A cmocka program that left cases
# out counts by its own result, and each such case counts as skipped besides. Exits 1 when a test
# failed or none ran.

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

# What follows is a test's output. A case's reason is what it said between its own RUN and SKIPPED
# lines; the summary at the end of a cmocka program names the skipped cases once more.
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
