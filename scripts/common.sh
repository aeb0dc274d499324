# shellcheck shell=bash
# Shared by the scripts. Makes the repository's root the working folder. Runs stages, each with a
# log. If a stage fails, prints the names of the stage and of its log. To be sourced, not run.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
log_dir=build/log

# say TEXT...: prints one line for the user.
say() {
    printf '%s\n' "$*"
}

# die CODE TEXT...: prints one line on stderr, and exits with CODE.
die() {
    local code=$1
    shift
    printf '%s: %s\n' "scripts/$(basename "$0")" "$*" >&2
    exit "$code"
}

# jobs_default: prints the number of cores that this process may use.
jobs_default() {
    nproc 2>/dev/null || echo 2
}

# need_number FLAG VALUE: exits with a usage error unless VALUE is a whole number from 1.
need_number() {
    [[ $2 =~ ^[1-9][0-9]*$ ]] || die 2 "$1 '$2': give a whole number from 1"
}

# stage NAME COMMAND...: runs the command with its output in a log, and prints the result and the
# seconds in one line. After a failure, prints the end of the log and its name, and exits with the
# command's exit code.
stage() {
    local name=$1 log start=$SECONDS code=0
    shift
    mkdir -p "$log_dir"
    log=$log_dir/${name//[^A-Za-z0-9]/-}.log
    printf '%-36s' "$name ..."
    "$@" >"$log" 2>&1 </dev/null || code=$?
    if ((code == 0)); then
        say "done ($((SECONDS - start)) s)"
        return
    fi
    say "failed"
    tail -n 30 "$log" >&2
    die "$code" "stage '$name' failed; all of its output is in $log"
}

# stage_shown NAME COMMAND...: runs the command without a log, so the user sees its output. After a
# failure, exits with the command's exit code.
stage_shown() {
    local name=$1 code=0
    shift
    say "$name ..."
    "$@" || code=$?
    ((code == 0)) || die "$code" "stage '$name' failed; the command was: $*"
}

# build PRESET JOBS [CMAKE ARGS...]: configures and builds into build/PRESET.
build() {
    local preset=$1 jobs=$2
    shift 2
    stage "configure $preset" cmake --preset "$preset" "$@"
    stage "build $preset" cmake --build --preset "$preset" -j "$jobs"
}
