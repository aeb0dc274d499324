#!/usr/bin/env bash
# Tests that the launcher reports why a rank failed, also if mpirun kills the rank before it exits.
# Runs with every installed MPI. Each rank is a script.
set -uo pipefail

job=$(realpath "$1")
scratch=$(mktemp -d)
# Open MPI stores its session files in TMPDIR. Jobs of parallel tests would share the default
# folder.
export TMPDIR=$scratch/tmp
mkdir "$TMPDIR"
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
failures=0

starters=()
for name in mpirun mpirun.openmpi mpiexec.hydra; do
    path=$(realpath "$(command -v "$name")" 2>/dev/null) || continue
    [[ " ${starters[*]} " == *" $path "* ]] || starters+=("$path")
done
((${#starters[@]} > 0)) || { echo "neither Open MPI's nor MPICH's mpirun is installed" && exit 77; }

# fails WANT FIRST SECOND: runs a job of two ranks. Rank 0 executes the script FIRST, and rank 1
# executes SECOND. Checks that the exit code is WANT. The scripts can call `say` to print a reason,
# `rest N` to wait N tenths of a second, and `hang` to ignore SIGTERM for 20 seconds. `rest`
# consists of many short waits, because a shell may handle a signal only after its current wait.
fails() {
    rm -rf logs
    cat >rank <<END
#!/usr/bin/env bash
say() { echo "ampscale: \$1" >&2; }
hang() { trap '' TERM; exec 3<>"$scratch/nothing"; read -r -t 20 -u 3; }
rest() { exec 3<>"$scratch/nothing"; for ((i = 0; i < \$1; i++)); do read -r -t 0.1 -u 3; done; }
if [[ \${OMPI_COMM_WORLD_RANK:-\$PMI_RANK} == 0 ]]; then
    $2
else
    $3
fi
END
    code=0
    "$job" "$mpirun" "$scratch/logs" "$scratch/rank" >out 2>err </dev/null || code=$?
    [[ $code == "$1" ]] || fail "the exit code is $code, not $1"
}

fail() {
    printf 'FAILED: %s, %s\n' "$mpirun" "$*"
    sed 's/^/    /' err logs/rank-*.log
    failures=$((failures + 1))
}

# says LINE...: each LINE is a regular expression. Checks that stderr has, after its first line, as
# many lines as there are expressions, and that each expression matches one of these lines.
says() {
    local line
    [[ $(tail -n +2 err | wc -l) == "$#" ]] || fail "stderr has $(($(wc -l <err) - 1)) lines after the first, not $#"
    for line; do
        grep -qxE -- "ampscale: $line" < <(tail -n +2 err) || fail "no line says '$line'"
    done
}

one='rank 1 \(host [^ ]+, pid [0-9]+\)'
: >rank && chmod +x rank && mkfifo nothing

for mpirun in "${starters[@]}"; do
    # Rank 0 fails first, and its message names rank 1. Rank 1 has printed a reason and hangs. The
    # launcher must report both reasons.
    fails 1 'rest 10; say "rank 1 did not answer"; exit 1' 'say "the disk is gone"; hang'
    says "rank 1 did not answer" "(rank 1|$one had failed before the launcher ended it): the disk is gone"

    # A rank fails. mpirun ends the supervisor of this rank before the supervisor has detected that
    # the rank exited. The launcher must report only this rank.
    fails 1 'rest 200' 'say "the disk is gone"; rest 3; kill -TERM $PPID; hang'
    says "$one had failed before the launcher ended it: the disk is gone"

    # The rank handles SIGTERM, and chooses its exit code. The launcher must report this exit code.
    fails 5 'rest 200' 'trap "exit 5" TERM; say "the disk is gone"; rest 3; kill -TERM $PPID; rest 200'
    says "$one exited with code 5: the disk is gone"

    # A killed supervisor reports nothing. The launcher then finds the reason in the log of the
    # rank.
    fails 1 'rest 200' 'say "warning: slow"; say "the disk is gone"; rest 3; kill -KILL $PPID; hang'
    grep -qx "ampscale: rank 1: the disk is gone" err || fail "the reason is lost: $(<err)"

    # A rank prints only a progress line before it fails. The launcher must not report that line as
    # the reason.
    fails 4 'echo "[1/2] PASS" >&2; exit 4' 'rest 10'
    says "rank 0 \\(host [^ ]+, pid [0-9]+\\) exited with code 4"

    # After the reason why MPI_Init failed, Open MPI prints lines without a reason.
    fails 1 'echo "no space for gds" >&2; echo "*** and potentially your MPI job)" >&2
        echo "[vm:8] Local abort before MPI_INIT completed completed successfully, but" >&2; exit 1' 'rest 10'
    says "rank 0 \\(host [^ ]+, pid [0-9]+\\) exited with code 1: no space for gds"

    # The reason lies within a text that ends with a rule, if the rank cannot start a thread.
    fails 1 'printf "%s\n" ----- "It looks like pmix_init failed:" "" "  thread_start failed" "  --> Returned value -1" ----- >&2
        echo "*** on a NULL communicator" >&2; exit 1' 'rest 10'
    says "rank 0 \\(host [^ ]+, pid [0-9]+\\) exited with code 1: thread_start failed --> Returned value -1"

    # Rank 1 prints a warning, and another line after SIGTERM. The launcher must report neither as a
    # reason.
    fails 1 'rest 10; say "no memory"; exit 1' 'trap "say terminated; exit 1" TERM; say "warning: slow"; rest 200'
    says "no memory"
done
exit $((failures > 0))
