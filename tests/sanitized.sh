# shellcheck shell=bash
# For tests in a shell, whose `program` is what they test. Sourced. See sanitized.h for those in C.

# sanitized: whether the program is built with sanitizers. They look at memory and threads, and not at
# numbers: where a test does less for them, what is left takes the same ways through the code.
sanitized() {
    [[ $(ldd "$program") == *lib[at]san* ]]
}
