# shellcheck shell=bash
# Functions for tests of the command line. Sourced with the test's own arguments: binary, source
# tree, build tree. A test continues after a failed check, and ends with `finish`.
set -uo pipefail

program=$1
source_dir=$2
build_dir=$3
export program source_dir build_dir
# shellcheck source=tests/sanitized.sh
. "$source_dir/tests/sanitized.sh"
scratch=$(mktemp -d)
# Open MPI stores session files in TMPDIR. Jobs of several tests must not share this folder.
export TMPDIR=$scratch/tmp
mkdir "$TMPDIR"
trap 'rm -rf "$scratch"' EXIT
failures=0

# "${limited[@]}" COMMAND &: runs a command for at most 100 s. The test sends signals to it.
# Without --foreground, `timeout` sends SIGCONT after each signal. The leak sanitizer attaches to an
# ending process with SIGSTOP. SIGCONT cancels the SIGSTOP, and then neither process ends.
# shellcheck disable=SC2034 # for tests
limited=(timeout --foreground -k 10 100)

# fail TEXT: counts and reports one failed check.
fail() {
    printf 'FAILED: %s\n' "$*"
    failures=$((failures + 1))
}

# finish: ends the test. The exit code is 1 if a check has failed, else 0.
finish() {
    ((failures == 0)) || exit 1
    exit 0
}

# skip REASON: ends the test as skipped, unless a check has failed.
skip() {
    echo "skipped: $*"
    exit $((failures > 0 ? 1 : 77))
}

# fake_gpu: selects the fake GPU (tests/kernels/cuda/fake) as cuda:0. Its plans are stored in the
# scratch folder. Returns false if the build has no fake GPU.
fake_gpu() {
    export AMPSCALE_CUDA_MODULE=$build_dir/tests/kernels/cuda/fake/ampscale_cuda_fake.so
    export XDG_CACHE_HOME=$scratch/cache OMP_WAIT_POLICY=passive
    [[ -e $AMPSCALE_CUDA_MODULE ]]
}

# need_fake_gpu [OTHER]: calls fake_gpu, and ends the test as skipped if there is no fake GPU. With
# OTHER, also skips the test under sanitizers, because the test OTHER covers the code.
need_fake_gpu() {
    fake_gpu || skip "there is no fake GPU, because the build found no C++ compiler"
    [[ -z ${1-} ]] || ! sanitized ||
        skip "AddressSanitizer warns of the fibres on which the fake GPU's kernels run; $1 covers the code under sanitizers"
}

# run ARGS...: runs the program; fills `code`, $scratch/out and $scratch/err.
run() {
    code=0
    "$program" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
}

# expect CODE ARGS...: runs the program and checks its exit code.
expect() {
    local want=$1
    shift
    run "$@"
    ((code == want)) || fail "'ampscale $*' exited with $code, not $want: $(head -c 300 "$scratch/err")"
}

# one_line WHAT TEXT: checks that stderr is one line that contains TEXT.
one_line() {
    [[ $(wc -l <"$scratch/err") == 1 ]] || fail "$1 wrote $(wc -l <"$scratch/err") lines to stderr, not 1: $(cat "$scratch/err")"
    grep -qF -- "$2" "$scratch/err" || fail "$1 does not say '$2': $(cat "$scratch/err")"
}

# expect_error CODE TEXT ARGS...: checks the exit code, that stdout is empty, and that stderr is one
# line that contains TEXT.
expect_error() {
    local want=$1 text=$2
    shift 2
    expect "$want" "$@"
    [[ ! -s $scratch/out ]] || fail "'ampscale $*' wrote to stdout: $(head -c 300 "$scratch/out")"
    one_line "'ampscale $*'" "$text"
}

# await SECONDS COMMAND...: repeats the command until it succeeds. It must succeed within SECONDS.
await() {
    local end=$((SECONDS + $1)) seconds=$1
    shift
    until "$@"; do
        ((SECONDS < end)) || { fail "'$*' fails for $seconds s: $(tail -n 5 "$scratch/err")" && return 1; }
        sleep 0.05
    done
}

# own_program: copies the program, and its module for Gloo, to the scratch folder. The path then
# identifies the processes of this test.
own_program() {
    local module=$build_dir/cli/ampscale_gloo.so
    [[ ! -e $module ]] || cp "$module" "$scratch"
    cp "$program" "$scratch/ampscale"
    program=$scratch/ampscale
}

# own_processes: prints the process IDs of this test's program, one a line.
own_processes() {
    find /proc/[0-9]*/exe -maxdepth 0 -lname "$program" 2>/dev/null | cut -d/ -f3
}

# own_ranks: prints "RANK PID" of every rank that trains, one a line.
own_ranks() {
    local pid
    for pid in $(own_processes); do
        grep -qx train < <(tr '\0' '\n' <"/proc/$pid/cmdline" | sed -n 2p) || continue
        tr '\0' '\n' <"/proc/$pid/environ" |
            sed -nE "s/^(OMPI_COMM_WORLD_RANK|PMI_RANK|SLURM_PROCID|RANK)=(.*)/\2 $pid/p" | head -n 1
    done 2>/dev/null
}

# none_left WHAT: checks that all processes of this test's program end within 20 s.
none_left() {
    local i
    for ((i = 0; i < 200; i++)); do
        [[ -n $(own_processes) ]] || return 0
        sleep 0.1
    done
    fail "$1: these processes still run: $(own_processes | xargs ps -o pid=,args= -p)"
    own_processes | xargs kill -KILL
}

# sub_commands COMMAND...: prints the commands in the help of `ampscale COMMAND...`, one a line;
# prints nothing for a command without subcommands.
sub_commands() {
    "$program" "$@" --help | sed -nE '1{/<command>/!q}; s/^  ([a-z][a-z0-9-]*)  +[^ ].*/\1/p'
}

# all_commands: prints every command that can be run, one a line: "train", "data synth" ...
all_commands() {
    local name sub
    for name in $(sub_commands); do
        if [[ -n $(sub_commands "$name") ]]; then
            for sub in $(sub_commands "$name"); do
                echo "$name $sub"
            done
        else
            echo "$name"
        fi
    done
}

# help_flags COMMAND...: prints the flags in the command's help, one a line, without --help, which
# every command has. The flags of a line end at the first space that does not follow a comma.
help_flags() {
    "$program" "$@" --help | sed -nE '/^  -[^-]|^      --/{s/^ +//; s/([^,]) .*/\1/; s/, /\n/g; p}' |
        sed 's/=.*//' | grep -vx -e -h -e --help | sort
}
