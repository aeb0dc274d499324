# shellcheck shell=bash
# To be sourced by a shell test that has set `program`. See sanitized.h for
# tests in C.

# sanitized: whether the program is built with sanitizers. They check memory and threads, and not
# numbers, so a test may compute less for them as long as it runs the same code.
sanitized() {
    [[ $(ldd "$program") == *lib[at]san* ]]
}
