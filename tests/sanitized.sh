# shellcheck shell=bash
# To be sourced by a shell test that has set `program`.

# sanitized: whether the program is built with sanitizers. Sanitizers check memory and threads, but
# no numbers. In such a build, a test may therefore compute less, as long as it runs the same code.
sanitized() {
    [[ $(ldd "$program") == *lib[at]san* ]]
}
