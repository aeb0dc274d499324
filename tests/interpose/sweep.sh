#!/usr/bin/env bash
# Fails the calls of a command one by one, over short runs (interpose.c, commands.sh):
#
#     sweep.sh PROGRAM SOURCE_DIR BUILD_DIR COMMAND [MOST [KIND:ERROR ...]]
#
# COMMAND is train, resume, ddp or ddp1 (calls of rank 0 or rank 1), launch (calls of the launcher),
# ranks (calls of the ranks that it starts), study, studied (calls of its runs), accept or accepted.
# Each attempt must end in one of two ways. It may give the same bytes as a run without a fault. Or
# it prints one line, exits with a documented code, and leaves a folder in which the same command
# then completes with these bytes. At most MOST calls of a kind are tried, evenly spread (default 0:
# all). JOBS processes work at the same time (default 2). Prints rows of the table of
# docs/reliability.md.
. "$(dirname "$0")/../cli/common.sh" "${@:1:3}"
. "$source_dir/tests/interpose/interpose.sh"
. "$source_dir/tests/interpose/commands.sh"
cd "$scratch" || exit 1
command=$4 most=${5:-0} jobs=${JOBS:-2}
faults=("${@:6}")
((${#faults[@]} > 0)) || mapfile -t faults < <(default_faults)
cp "$program" ampscale # interpose.c looks at this name
program=$scratch/ampscale only=${command}_only done=${command}_done shared=$scratch/shared

mkdir shared
cd shared || exit 1
"${command}_prepare"
((failures == 0)) || finish
# Counts the calls of all processes whose calls may fail.
mkdir ../count
cd ../count || exit 1
shard=0 fault=(LD_PRELOAD="$interpose" AMPSCALE_INTERPOSE_ONLY="${!only}" AMPSCALE_INTERPOSE_COUNT="$scratch/count.txt")
"${command}_run"
((code == ${!done})) || fail "the counted run: exit code $code: $(<err)"
"${command}_same" "the counted run"
((failures == 0)) || finish
cd ..

calls() {
    awk -v kind="$1" '$1 == kind { n += $2 } END { print n + 0 }' count.txt
}

# points: prints "KIND:ERROR N", one a line.
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

# one_line WHAT: checks that a failure prints one line. Each of several ranks may print one.
one_line() {
    local most=1 said
    [[ $command != ddp* ]] || most=2
    said=$(tr -d '\0' <err | sed 's/^.*\x1b\[K//' | grep '^ampscale: ' | grep -v -e '^ampscale: warning: ' -e ' the output of each is in ')
    [[ -n $said || ! $command == stud* ]] || said=$(grep ' FAILED: ' err)
    [[ -n $said || ! $command == accept* ]] || said=$(grep -E '^(MISSING|FAIL) ' out)
    [[ -n $said ]] || fail "$1: exit code $code, and no line says why: $(head -c 300 err)"
    [[ $command == stud* || $command == accept* || $(wc -l <<<"$said") -le $most ]] ||
        fail "$1: more than one line: $said"
}

# try FAULT N: runs once with a fault; adds "FAULT same" or "FAULT ended" to the outcomes.
try() {
    local what="$command, $1:$2" outcome=same
    rm -rf victim victim.log state
    fault=(LD_PRELOAD="$interpose" AMPSCALE_INTERPOSE="$1:$2" AMPSCALE_INTERPOSE_STATE="$PWD/state"
        AMPSCALE_INTERPOSE_ONLY="${!only}")
    "${command}_run"
    if [[ $1 == *:KILL ]] && ((code == 137)); then
        outcome=ended
    elif ((code != ${!done})); then
        outcome=ended
        case $code in
        1 | 2 | 4 | 5) one_line "$what" ;;
        124 | 137) fail "$what: hangs: $(head -c 300 err)" ;;
        *) fail "$what: exit code $code: $(head -c 300 err)" ;;
        esac
    fi
    if [[ $outcome == ended ]]; then
        "${command}_again"
        ((code == ${!done})) || fail "$what: not completed afterwards, exit code $code: $(head -c 300 err)"
    fi
    "${command}_same" "$what"
    echo "$1 $outcome" >>../outcomes-"$shard"
}

# work SHARD: tries every jobs-th point.
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
cat outcomes-* | awk -v command="$command" '{ n[$2]++ } END {
    printf "%s: %d points, %d the same bytes, %d one line and the same bytes afterwards\n", command, NR, n["same"], n["ended"] }'
cat failed-*
grep -c '^FAILED' <(cat failed-*) | sed 's/$/ faults/'
(($(cat outcomes-* | wc -l) == $(wc -l <points.txt))) || fail "points were left out"
finish
