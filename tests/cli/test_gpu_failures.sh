#!/usr/bin/env bash
# Makes calls of CUDA, cuDNN and cuBLASLt fail in training runs on the fake GPU: the first, a middle
# and the last call of each function, inside and outside of captures. In each run, either only one
# call fails, or this call and all later calls of the function fail. The run must end in one of
# three ways: it completes; it completes on a lower rung of the ladder, after a warning; or it exits
# with one line and a documented exit code. It must not crash, hang or fail silently.
#
# Then `ampscale accept` checks the fake GPU. In the processes of its checks, such calls fail too.
# The record must have a verdict for every check. At the end, prints how many runs ended in each way.
#
# AMPSCALE_ONLY_FAILURES=PATTERN runs only failures whose "CONFIGURATION CALL:N" matches PATTERN.
. "$(dirname "$0")/common.sh" "$@"

need_fake_gpu runners_ladder_runs
export OMP_NUM_THREADS=1
only=${AMPSCALE_ONLY_FAILURES-}

# The time limit of a run in seconds. A run takes one second, so a run that reaches the limit hangs,
# even if the machine is busy.
limit=300

steps=3
train=(train --dummy -a resnet8 --image-size 8 -b 2 --classes 10 --steps $steps -p 1 --threads 1
       --devices cuda:0)
# The flags of each run. A run that times plans needs more memory than the fake GPU usually has.
declare -A options=([fp32]="--precision fp32" [amp]="--precision O1 --pdl on"
                    [timed]="--precision O1 --fuse all --steps 1")
declare -A memory=([fp32]=1 [amp]=1 [timed]=4 [checks]=1)

# Checks of the GPU: training and operations.
cat >"$scratch/checks.json" <<'SPEC'
{
  "schema": 1, "name": "checks", "about": "Checks on networks of a few pixels, for calls that fail",
  "device": "cuda:0", "hardware": ["*"],
  "checks": [
    {"name": "throughput", "kind": "throughput", "level": 1, "seconds": 30, "limit_s": 280,
     "args": {"rows": "fp32:2,amp:2", "net": "resnet8", "image_size": 8, "steps": 3, "rounds": 1},
     "limits": {"rounds_fp32_2": {"min": 1, "source": "a row is a number"}}},
    {"name": "operations", "kind": "operations", "level": 1, "seconds": 10, "limit_s": 200, "args": {"every": 400},
     "limits": {"wrong": {"max": 0, "source": "a wrong value is a wrong value"}}}
  ]
}
SPEC

# attempt CONFIGURATION FOLDER [FAILURE]: executes one run; its exit code is the result. The folder
# gets the run's records and output.
attempt() {
    local config=$1 folder=$2 command=("${train[@]}")
    [[ $config != checks ]] || command=(accept --spec "$scratch/checks.json")
    mkdir "$folder"
    # shellcheck disable=SC2086 # the options are split into words
    XDG_CACHE_HOME=$folder/cache AMPSCALE_FAKE_FAIL=${3-} AMPSCALE_FAKE_MEMORY=${memory[$config]} \
        timeout -k 5 $limit "$program" "${command[@]}" ${options[$config]-} --out "$folder/run" \
        >"$folder/out" 2>"$folder/err" </dev/null
}

# check_outcome FOLDER CODE: prints the outcome of the checks. If the device cannot be opened, the
# check 'hardware' reports it, and no further check is run.
check_outcome() {
    local verdict='^(PASS|WARN|FAIL|MISSING) +'
    if [[ $2 != [0145] ]] || grep -qsE 'ended by a signal|not done within' "$1/run/accept.json"; then
        echo "bad: exit code $2, or a check that crashed or hung"
    elif [[ ! -s $1/run/accept.json ]]; then
        (($(grep -c '^ampscale: ' "$1/err") == 1)) && echo "one line" || echo "bad: no record"
    elif grep -qE "${verdict}throughput[,:]" "$1/out" && grep -qE "${verdict}operations[,:]" "$1/out"; then
        echo "a verdict for each check"
    else
        grep -qE "^(FAIL|MISSING) +hardware" "$1/out" && echo "no device, one line" || echo "bad: no verdict of a check"
    fi
}

# outcome CONFIGURATION FOLDER CODE: prints the outcome. If the outcome is not allowed, the text
# begins with "bad" and gives the reason.
outcome() {
    local falls lines wanted=$steps rung
    [[ $1 != checks ]] || { check_outcome "${@:2}" && return; }
    [[ $1 != timed ]] || wanted=1
    falls=$(grep -c "^ampscale: warning: rung '" "$2/err")
    lines=$(($(wc -l <"$2/err") - falls))
    case $3-$lines in
    0-0)
        rung=$(sed -nE 's/^    "rung": "([^"]*)".*/\1/p' "$2/run/summary.json")
        if (($(grep -c '"loss"' "$2/run/steps.jsonl") != wanted)) || ! grep -q '"ended_by": "steps"' "$2/run/summary.json"; then
            echo "bad: the records are not complete"
        elif [[ -z $rung || ($rung == auto && $falls != 0) ]]; then
            echo "bad: rung '$rung' is recorded after $falls changes to a lower rung"
        else
            ((falls == 0)) && echo "whole" || echo "lower rung"
        fi
        ;;
    [145]-1) [[ $(tail -n 1 "$2/err") == "ampscale: "* ]] && echo "one line" || echo "bad: not a message of ampscale" ;;
    *) echo "bad: exit code $3, and $lines lines on stderr that are not warnings of a lower rung" ;;
    esac
}

# examine CONFIGURATION FAILURE NUMBER: executes the run and adds a line to the outcomes.
examine() {
    local folder=$scratch/$3 code=0 how
    attempt "$1" "$folder" "$2" || code=$?
    how=$(outcome "$1" "$folder" "$code")
    printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$how" "$(head -n 1 "$folder/err")" >>"$scratch/outcomes"
    [[ $how != bad* ]] || sed "s/^/    $2: /" "$folder/err" >>"$scratch/details"
    rm -rf "$folder"
}

# fail_each CALL COUNT: prints the failures of the first, a middle and the last of COUNT calls.
fail_each() {
    local n
    for n in $(printf '%s\n' 1 $((($2 + 1) / 2)) "$2" | sort -nu); do
        printf '%s\n' "$1:$n" "$1:$n:sticky"
    done
}

# count_calls CONFIGURATION: counts the calls of a run without a failure.
count_calls() {
    AMPSCALE_FAKE_COUNT=$scratch/count.$1 attempt "$1" "$scratch/counted.$1" ||
        fail "$1: $(head -n 1 "$scratch/counted.$1/err")"
    [[ $(outcome "$1" "$scratch/counted.$1" 0) == @("whole"|"a verdict for each check") ]] || fail "$1: a run without failures did not complete"
}

# failures_of CONFIGURATION: prints the possible failures, one a line, from the counted calls. For a
# check, prints only the first call of each function, because each process of a check counts its own
# calls.
failures_of() {
    local call outside inside
    if [[ $1 == checks ]]; then
        sed -E 's/ .*//' "$scratch/count.$1" | sort -u | sed -E 's/.*/&:1\n&:1:sticky/'
        return
    fi
    while read -r call outside inside; do
        fail_each "$call" $((outside + inside))
        ((inside == 0)) || fail_each "$call@capture" "$inside"
    done <"$scratch/count.$1"
}

touch "$scratch/outcomes" "$scratch/details"
number=0
for config in fp32 amp timed checks; do
    [[ -z $only || $only == $config* || $only == '*'* ]] || continue
    count_calls $config
    while read -r failure; do
        number=$((number + 1))
        # shellcheck disable=SC2053 # $only is a pattern
        [[ -z $only || "$config $failure" == $only ]] || continue
        while (($(jobs -rp | wc -l) >= $(nproc))); do
            wait -n
        done
        examine "$config" "$failure" $number &
    done < <(failures_of $config)
done
wait

[[ -s $scratch/outcomes ]] || fail "nothing was made to fail"
echo "Injected failures: $(wc -l <"$scratch/outcomes") of $number"
cut -f 1,3 "$scratch/outcomes" | sed 's/: .*//' | sort | uniq -c
if grep -q $'\tbad' "$scratch/outcomes"; then
    fail "some runs neither completed nor ended with one line:"
    grep $'\tbad' "$scratch/outcomes" | cut -f 1-3
    cat "$scratch/details"
fi
[[ -z $only ]] || cat "$scratch/outcomes"
finish
