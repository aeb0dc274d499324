# shellcheck shell=bash
# Shared by the scripts: the repository's root as working folder, stages with a log each, and failures
# that name stage and log. Sourced, never run.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
log_dir=build/log

# say TEXT...: one line for the user.
say() {
    printf '%s\n' "$*"
}

# die CODE TEXT...: one line on stderr, then exits with CODE.
die() {
    local code=$1
    shift
    printf '%s: %s\n' "scripts/$(basename "$0")" "$*" >&2
    exit "$code"
}

# jobs_default: cores that this process may use.
jobs_default() {
    nproc 2>/dev/null || echo 2
}

# need_number FLAG VALUE: a whole number from 1, or a usage error.
need_number() {
    [[ $2 =~ ^[1-9][0-9]*$ ]] || die 2 "$1 '$2': give a whole number from 1"
}

# stage NAME COMMAND...: runs the command with its output in a log, and reports result and seconds in
# one line. A failure shows the log's tail, names the log, and exits with the command's exit code.
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

# stage_shown NAME COMMAND...: the same for a command whose output is shown to the user.
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
