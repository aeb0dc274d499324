# shellcheck shell=bash
# Runs of the program with calls that fail (interpose.c). Sourced after cli/common.sh; a sanitizer's
# own library must be loaded first, so that builds with one leave these tests out.
sanitized && { echo "skipped: the calls of a program with sanitizers cannot be replaced" && exit 77; }

interpose=$build_dir/tests/interpose/libinterpose.so

# interposed SPEC COMMAND...: the function or program, with what SPEC says failing.
interposed() {
    local -x LD_PRELOAD=$interpose AMPSCALE_INTERPOSE=$1
    shift
    "$@"
}
