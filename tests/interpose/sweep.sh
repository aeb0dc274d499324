#!/usr/bin/env bash
# Runs a command many times. In each run, another call of the command fails (interpose.c,
# commands.sh):
#
#     sweep.sh PROGRAM SOURCE_DIR BUILD_DIR COMMAND [MOST [KIND:ERROR ...]]
#
# COMMAND is train, resume, ddp or ddp1 (calls of rank 0 or rank 1), launch (calls of the launcher
# and of its rank supervisors), ranks (calls of the ranks that it starts), study, studied (calls of
# the study's runs), accept or accepted (calls of the runs that accept starts).
#
# Each run must end in one of two ways. Either it writes the same bytes as a run without a fault. Or
# it prints one line and exits with a documented code. The same command, executed again in that
# folder, must then write the same bytes as a run without a fault. A run without a fault must sync
# what it writes.
#
# At most MOST calls of each kind fail, evenly distributed over the run (default 0: all calls). JOBS
# processes run at the same time (default 2). Prints rows of a table,
# which docs/explanation/reliability.md sums up by command.
. "$(dirname "$0")/../cli/common.sh" "${@:1:3}"
. "$source_dir/tests/cli/train.sh"
. "$source_dir/tests/interpose/interpose.sh"
. "$source_dir/tests/interpose/commands.sh"
cd "$scratch" || exit 1
command=$4 most=${5:-0} jobs=${JOBS:-2} faults=("${@:6}") base=$4 only=$4 shared=$scratch/shared
((${#faults[@]} > 0)) || mapfile -t faults < <(default_faults)
# `only` is the first argument of the processes whose calls fail.
case $command in
resume | ddp) only=train ;;
ddp1) base=ddp only=train ddp_rank=1 ;;
ranks) base=launch only=train ;;
studied) base=study only=train ;;
accepted) base=accept only=train ;;
esac
cp "$program" ampscale # interpose.c looks at this name
program=$scratch/ampscale
[[ ! -e $build_dir/cli/ampscale_gloo.so ]] || export AMPSCALE_GLOO_MODULE=$build_dir/cli/ampscale_gloo.so
[[ $base != ddp || -n ${AMPSCALE_GLOO_MODULE-} ]] || skip "this build has no Gloo, which ranks without MPI need"

mkdir shared
cd shared || exit 1
shard=0
"${base}_prepare"
((failures == 0)) || finish
# Counts the calls that can fail, in all processes of the command.
: >../syncs.txt
mkdir ../count
cd ../count || exit 1
fault=(LD_PRELOAD="$interpose" AMPSCALE_INTERPOSE_ONLY="$only" AMPSCALE_INTERPOSE_COUNT="$scratch/count.txt"
    AMPSCALE_INTERPOSE_SYNCS="$scratch/syncs.txt")
"${base}_run"
((code == done_code)) || fail "the run whose calls are counted ended with exit code $code: $(<err)"
"${base}_same" "the counted run"
cd ..

# Prints what a power cut could damage: a file that was put in place (by a rename) before its bytes
# were synced, a file whose folder was not synced after that, a journal whose end was not synced.
awk 'function name(path) { sub(/.*\//, "", path); return path }
    $1 == "write" { dirty[name($2)] }
    $1 == "file" { delete dirty[name($2)] }
    $1 == "rename" {
        if (name($2) in dirty)
            print $3 " was put in place unsynced"
        delete dirty[name($2)]
        if ($3 !~ /-tmp\./) # not a second name for a file that is in place
            placed[$3]
    }
    $1 == "folder" || $1 == "all" { delete placed }
    END {
        for (file in dirty)
            if (file ~ /\.jsonl$/)
                print "the end of " file " was not synced"
        for (file in placed)
            print "the folder of " file " was not synced"
    }' syncs.txt >unsynced.txt
[[ ! -s unsynced.txt ]] || fail "$command: $(<unsynced.txt)"
[[ $command == ddp1 || $command == launch ]] || grep -q '^file ' syncs.txt || fail "$command: no file was synced"
((failures == 0)) || finish

calls() {
    awk -v kind="$1" '$1 == kind { n += $2 } END { print n + 0 }' count.txt
}

# points: prints a line "KIND:ERROR N" for each run: call N of this kind must fail with this error.
points() {
    local f n step i
    for f in "${faults[@]}"; do
        n=$(calls "${f%:*}") step=1
        ((most == 0 || n <= most)) || step=$(((n + most - 1) / most))
        for ((i = (step + 1) / 2; i <= n; i += step)); do
            echo "$f $i"
        done
    done
}

# one_line WHAT: checks that the failed run has printed one line. In `ddp` and `ddp1`, each rank may
# print one line.
one_line() {
    local most=1 said
    [[ $base != ddp ]] || most=2
    said=$(tr -d '\0' <err | sed 's/^.*\x1b\[K//' | grep '^ampscale: ' | grep -v -e '^ampscale: warning: ' -e ' the output of each is in ')
    [[ -n $said || $base != study ]] || said=$(grep ' FAILED: ' err)
    [[ -n $said || $base != accept ]] || said=$(grep -E '^(MISSING|FAIL) ' out)
    [[ -n $said ]] || fail "$1: exit code $code without a line that gives the reason: $(head -c 300 err)"
    [[ $base == study || $base == accept || $(wc -l <<<"$said") -le $most ]] ||
        fail "$1: the run printed more than one line: $said"
}

# try FAULT N: runs the command once with a fault. Appends "FAULT same" or "FAULT ended" to the
# outcomes. "ended" means that the run failed.
try() {
    local what="$command, $1:$2" outcome=same
    rm -rf victim victim.log state
    fault=(LD_PRELOAD="$interpose" AMPSCALE_INTERPOSE="$1:$2" AMPSCALE_INTERPOSE_STATE="$PWD/state"
        AMPSCALE_INTERPOSE_ONLY="$only")
    "${base}_run"
    if ((code != done_code)); then
        outcome=ended
        case $1:$code in
        *:KILL:137 | *:[1245]) [[ $code == 137 ]] || one_line "$what" ;;
        *:124 | *:137) fail "$what: the run hangs: $(head -c 300 err)" ;;
        *) fail "$what: the exit code is $code: $(head -c 300 err)" ;;
        esac
        "${base}_again"
        ((code == done_code)) || fail "$what: the same command did not complete afterwards, exit code $code: $(head -c 300 err)"
    fi
    "${base}_same" "$what"
    echo "$1 $outcome" >>../outcomes-"$shard"
}

# work SHARD: tries its share of points.txt: line SHARD (counted from 0), and then every N-th line,
# where N is the number of shards.
work() {
    local f n i=0
    shard=$1
    mkdir "shard-$1"
    cd "shard-$1" || exit 1
    while read -r f n; do
        ((i++ % jobs == shard)) || continue
        try "$f" "$n"
    done <../points.txt
    ((failures == 0))
}

points >points.txt
touch outcomes-0
pids=()
for ((i = 0; i < jobs; i++)); do
    (
        trap - EXIT
        failures=0
        work "$i"
    ) >"failed-$i" 2>&1 &
    pids+=($!)
done
for pid in "${pids[@]}"; do
    wait "$pid" || failures=$((failures + 1))
done
for f in "${faults[@]}"; do
    n=$(calls "${f%:*}")
    ((n > 0)) || continue
    same=$(cat outcomes-* | grep -cx "$f same") ended=$(cat outcomes-* | grep -cx "$f ended")
    printf '| %s | %s | %s | %d | %d | %d | %d |\n' "$command" "${f%:*}" "${f#*:}" "$n" "$((same + ended))" "$same" "$ended"
done
cat failed-*
(($(cat outcomes-* | wc -l) == $(wc -l <points.txt))) || fail "points were left out"
finish
