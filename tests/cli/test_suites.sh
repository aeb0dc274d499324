#!/usr/bin/env bash
# Acceptance suites and studies that are killed, interrupted or late, and continue.
. "$(dirname "$0")/common.sh" "$@"
export OMP_WAIT_POLICY=passive
cd "$scratch" || exit 1
own_program

# begin ARGS...: starts the program in the background as $job.
begin() {
    "$program" "$@" >out 2>err </dev/null &
    job=$!
}

# stop SIGNAL WANT: sends a signal to $job, and checks its exit code.
stop() {
    kill -s "$1" "$job"
    code=0
    { wait "$job"; } 2>/dev/null || code=$?
    ((code == $2)) || fail "after $1, the exit code is $code, not $2: $(<err)"
}

# idle: succeeds if no process of this test is running.
idle() { [[ -z $(own_processes) ]]; }

# --- accept --------------------------------------------------------------------------------------
memory='{"name": "a", "kind": "memory", "level": 1, "seconds": 1, "limit_s": 60, "args": {"max_mib": 4, "iters": 3, "threads": 1}}'
train='{"name": "long", "kind": "train", "level": 1, "seconds": 1, "limit_s": 60, "args": {"arch": "resnet8", "image_size": 32, "batch": 8, "classes": 10, "steps": 100000000, "threads": 1}}'

# spec CHECKS: writes spec.json.
spec() {
    printf '{"schema": 1, "name": "made", "about": "a test", "device": "cpu", "hardware": ["*"], "checks": [%s]}\n' "$1" >spec.json
}

# With --resume, a killed or interrupted suite runs only the checks that have no result. It waits until
# the command of the killed suite has ended.
for signal in KILL:137 TERM:143; do
    spec "$memory,$train"
    begin accept --spec ./spec.json --out "$signal"
    await 60 test -e "$signal/checks/long/r1/run/steps.jsonl"
    expect 1 accept --spec ./spec.json --out "$signal" --resume
    [[ $(head -n 1 err) == "ampscale: warning: waiting up to 20 s for another 'ampscale accept' in '$signal'" ]] || fail "a second suite does not say that it waits: $(<err)"
    [[ $(tail -n 1 err) == "ampscale: another 'ampscale accept' is using '$signal'"* ]] || fail "a second suite says: $(<err)"
    stop "${signal%:*}" "${signal#*:}"
    [[ $signal == KILL* ]] || grep -q 'interrupted by SIGTERM; --resume runs the remaining checks' err || fail "interrupted: $(<err)"
    [[ ! -e $signal/accept.json ]] || fail "an interrupted suite has a verdict"
    kept=$(stat -c %i "$signal/checks/a.json")
    sed -i 's/"steps": 100000000/"steps": 4/' spec.json "$signal/spec.json"
    expect 0 accept --spec ./spec.json --out "$signal" --resume
    [[ $(stat -c %i "$signal/checks/a.json") == "$kept" ]] || fail "a complete check was run again"
    expect_error 2 "the results in '$signal' are of a node that differs from 'other'" accept --spec ./spec.json --out "$signal" --resume --name other
    rm "$signal/node.json" # nothing says whose results these are
    expect_error 2 "the results in '$signal' are of a node that differs from " accept --spec ./spec.json --out "$signal" --resume
done
[[ -z $(find . -name 'checkpoint.safetensors') ]] || fail "the suite did not remove a checkpoint of a check that trains"

# --- study ---------------------------------------------------------------------------------------
# study_file STEPS LIMIT_S ARCHS: writes study.json: for each network four cells of two runs.
study_file() {
    cat >study.json <<END
{"schema": 1, "name": "tiny", "about": "for a test", "modes": {"nd": [1], "dp": [2]},
 "precisions": ["fp32"], "archs": [$3], "batch": {"weak": [4]},
 "data": [{"name": "dummy", "classes": 3, "train": 64, "val": 4},
          {"name": "jpeg", "generate": {"classes": 3, "train": 12, "val": 2, "size": 48}}],
 "image_size": 32, "threads": 1, "workers": 1, "repeats": 2, "warmup_steps": 1,
 "measured_steps": $1, "limit_s": $2, "train": ["--lr", "0.05"]}
END
}

# summaries DIR: prints the complete runs and the times at which they ended.
summaries() {
    find "$1" -name summary.json -printf '%P %T@\n' 2>/dev/null | sort
}
some_are_complete() { (($(summaries s | wc -l) >= 3)); }

# A study is killed while a run trains. The process of the run ends too, and no complete run is
# repeated. A temporary file that remains in a data set is removed.
study_file 3 60 '"resnet8"'
begin study study.json --no-report --out s
await 60 some_are_complete
kill -STOP "$job" # stopped, so that it does not end before it is killed
expect_error 1 "another 'ampscale study' is using 's'" study study.json --out s
stop KILL 137
await 60 idle
summaries s >before
expect 5 study study.json --no-report --out s --analyse
one_line "an analysis of an incomplete study" "; the same command without --analyse runs "
touch s/data/jpeg/dataset.json.ampscale-tmp.0123456789abcdef s/data/jpeg/mine.tmp.1
expect 0 study study.json --no-report --out s
summaries s >after
[[ $(wc -l <after) == 8 && -z $(comm -23 before after) ]] || fail "of 8 runs, some are incomplete or were repeated: $(diff before after)"
[[ -z $(find s -name '*.safetensors' -o -name '*-tmp.*') ]] || fail "checkpoints or temporary files of the study remain"
[[ -e s/data/jpeg/mine.tmp.1 ]] || fail "the study removed a file of the user"
# A run that lost its rows has failed, and is repeated like one.
damaged=$(ls -d s/cells/*dummy*/r1 | head -n 1)
sed -i '/"step":2,/d' "$damaged/steps.jsonl"
expect 5 study study.json --no-report --out s
one_line "a study with a damaged run" "1 run of 's' failed; the same command with --retry runs it again"
expect 0 study study.json --no-report --out s --retry
rm -r "$damaged" && cp -r "${damaged%r1}r2" "$damaged" # a run that is not of the plan
expect 5 study study.json --no-report --out s
expect 0 study study.json --no-report --out s --retry
# A run that was paused is measured again.
paused=$(ls s/cells/*dummy*/r1/summary.json | head -n 1)
sed -i '0,/{/s//{"paused": true,/' "$paused"
expect 0 study study.json --no-report --out s --retry
! grep -q '"paused"' "$paused" || fail "a paused run was not measured again"
# A command of --on-save that stays behind does not hold the study's folder.
behind=6$$.5
sed "s|\"--lr\", \"0.05\"|&, \"--on-save\", \"setsid sleep $behind >/dev/null 2>\&1 \& sleep 0.5\"|" study.json >saves.json
for i in 1 2; do
    expect 0 study saves.json --no-report --out saves --only '^nd.*dummy'
done
pkill -f "sleep $behind" || fail "the command did not stay behind"
# A study joins neither the runs of two builds or machines, nor the attempts of two settings.
cp -r s two
sed -i 's/"model": "[^"]*"/"model": "another"/' two/cells/*jpeg*/r2/run.json
expect 5 study study.json --no-report --out two
one_line "a study on two machines" "2 runs of 'two' failed; "
# A cell takes runs of one device only; a call on another machine begins no run.
cp -r s three
sed -i 's/"device": "[^"]*"/"device": "another"/' three/cells/nd*jpeg*/r2/run.json
expect 5 study study.json --no-report --out three
one_line "a study on two devices" "1 run of 'three' failed; "
sed -i 's/"device": "[^"]*"/"device": "another"/' three/cells/*jpeg*/r?/run.json three/cells/nd*/r?/run.json # all of a cell
expect 5 study study.json --no-report --out three
grep -q "runs of 'three' failed; " err || fail "a study whose cells are of two devices: $(<err)"
sed -i 's/"model": "[^"]*"/"model": "another"/' three/cells/*/r?/run.json
expect_error 2 "'three' holds runs of another version, build or machine; give another --out" study study.json --out three --retry
sed -i 's/"version": "[^"]*"/"version": "0.0.1"/' two/cells/*/r?/run.json
expect_error 2 "'two' holds runs of another version, build or machine; give another --out" study study.json --out two --retry
damaged=$(ls -d s/cells/*dummy*/r2 | head -n 1)
resumed=$(sed 's/^{/{"event": "resume", "step": 2, /; s/"batch_size": [0-9]*/"batch_size": 64/' "$damaged/run.json" | tr -d '\n')
sed -i "/\"step\":2,/i $resumed" "$damaged/steps.jsonl"
expect 5 study study.json --no-report --out s
one_line "a study with a run that was resumed" "1 run of 's' failed; "

# Nor does a study continue a run of epochs that another build has begun: it begins none of the others.
sed 's/"measured_steps": 3/"epochs": 1/' study.json >epochs.json
expect 0 study epochs.json --no-report --out e --only 'dummy.*r1$'
rm -r e/cells/*dp*/
begun=$(ls -d e/cells/*/r1)
rm "$begun/summary.json" && touch "$begun/checkpoint.safetensors"
sed -i 's/"version": "[^"]*"/"version": "0.0.1"/' "$begun/run.json"
expect_error 2 "'$begun' was begun by another version, build or machine; remove it to begin it anew, " study epochs.json --no-report --out e --only 'dummy.*r1$'

# A step of several batches has all their images.
sed 's/"--lr", "0.05"/&, "--accumulate", "3"/' study.json >several.json
expect 0 study several.json --no-report --out several --only '^nd.*dummy'
images=$(sed -nE '0,/"images"/s/.*"images":([0-9]+),.*/\1/p' several/cells/nd*dummy*/r1/steps.jsonl | head -n 1)
[[ $images == 12 ]] && grep -q '"batch": 12,' several/analysis.json && grep -q '"accumulate": 3' several/analysis.json ||
    fail "a step of three batches: $images images, $(grep -A9 '"name": "nd' several/analysis.json)"

# A list of runs waits for its reader.
sed 's/"repeats": 2/"repeats": 60/; s/"weak": \[4\]/"weak": [4, 8, 16, 32, 64, 128]/; s/\["fp32"\]/["fp32", "bf16", "amp"]/' study.json >many.json
"$program" study many.json --dry-run --out m 2>err | { sleep 2; cat >out; }
[[ $(grep -c ' train ' out) == $(sed -n 's/^# runs: \([0-9]*\),.*/\1/p' out) ]] || fail "a list of runs lacks some: $(tail -n 2 out) $(<err)"

# A log that is a link or a pipe is neither followed nor waited for.
mkdir -p foreign/data && echo precious >precious
for make in "ln -s $PWD/precious" mkfifo; do
    $make foreign/data/jpeg.log
    "${limited[@]}" "$program" study study.json --no-report --out foreign >out 2>err </dev/null && fail "a study wrote to a log made by '$make'"
    grep -q "cannot write 'foreign/data/jpeg.log': not a regular file" err && [[ $(<precious) == precious ]] || fail "a log made by '$make': $(<err) $(<precious)"
    rm foreign/data/jpeg.log
done

# A cell whose run failed is recorded as failed, and the other cells run. The same command repeats the
# failed run only with --retry.
expect 0 train --dummy -a resnet8 --image-size 32 --classes 3 --dummy-train 4 --dummy-val 4 -b 4 --epochs 1 --out w
study_file 3 60 '"resnet8", "resnet18"' # which cannot start from the weights of resnet8
sed -i 's|"--lr"|"--init", "w/checkpoint.safetensors", "--lr"|' study.json
few=(study study.json --no-report --only '^nd-.*dummy.*r1$')
expect 5 "${few[@]}" --out f
grep -q "nd-fp32-resnet18-dummy-1x4 .*missing: .*w/checkpoint" out || fail "the output does not report the cell of 'resnet18' as missing: $(<out)"
grep -qE "nd-fp32-resnet8-dummy-1x4 .*([ -]bound|disturbed)" out || fail "the other cell is missing: $(<out)"
expect 5 "${few[@]}" --out f
[[ $(wc -l <err) == 1 ]] && grep -q "1 run of 'f' failed; the same command with --retry runs it again" err || fail "without --retry: $(<err)"
expect 5 "${few[@]}" --out f --retry
[[ $(grep -c FAILED err) == 1 ]] || fail "a failed run was not repeated with --retry: $(<err)"

# A long run stops when the study gets SIGINT, and fails at its time limit.
study_file 1000000 60 '"resnet8"'
begin "${few[@]}" --out l
cell=l/cells/nd-fp32-resnet8-dummy-1x4/r1
await 60 test -e $cell/run.json
stop INT 130
grep -qx 'ampscale: interrupted by SIGINT; the same command continues the study' err || fail "an interrupted study says: $(<err)"
idle || fail "the study ended before its run had ended"
[[ ! -e $cell/summary.json && ! -e $cell.failed ]] || fail "an interrupted run counts as complete or failed"
sed -i 's/"limit_s": 60/"limit_s": 2/' study.json l/plan.json
run "${few[@]}" --out l
grep -q 'r1: .* FAILED: not done within the limit of 2 s$' err || fail "the time limit was not enforced: $(<err)"
# The reason of a run that fails again, here one that the kernel kills, replaces the old one. A failed
# run is repeated at once.
sed -i 's/"limit_s": 2/"limit_s": 60/' study.json l/plan.json
rm -r $cell
killed=
another_trains() { child=$(pgrep -P "$job") && [[ $child != "$killed" && -e $cell/steps.jsonl ]]; }
begin "${few[@]}" --out l --retry
for i in 1 2; do
    await 60 another_trains
    kill -KILL "$child"
    killed=$child
done
{ wait "$job"; } 2>/dev/null
grep -q 'r1: .* FAILED: ended by a signal (Killed): ' err || fail "a killed run: $(<err)"
grep -q 'ended by a signal (Killed)' $cell.failed || fail "a killed run: $(<$cell.failed)"

# If data, hosts or devices are missing, no run is started, and one line names everything that is
# missing. A script replaces ssh.
mkdir bin
cat >bin/ssh <<'END'
#!/bin/bash
while [[ $1 != -- ]]; do shift; done
[[ $2 == good ]] || { echo "ssh: Could not resolve hostname $2" >&2; exit 255; }
echo '{"devices": [{"device": "cpu", "usable": true}, {"device": "cuda:0", "usable": true}, {"device": "cuda:1", "usable": false}]}'
END
chmod +x bin/ssh
PATH=$scratch/bin:$PATH expect_error 5 "no run was started: data 'imagenet': there is no folder 'data/imagenet/train'; data 'imagenet': there is no folder 'data/imagenet/val'; good has 1 of 4 GPUs; bad does not answer: ssh: Could not resolve hostname bad; --hosts: 64 ranks need 56 more slots" \
    study hal --out h --hosts good:4,bad:4
[[ -z $(find h -name '*.log' -o -name '*.failed') ]] || fail "a study started runs although something is missing"

# --- ranks ---------------------------------------------------------------------------------------
# A study with jobs of two ranks, started by ampscale launch or by a launcher that the user names. If
# it is interrupted, the ranks stop too.
. "$source_dir/tests/comm/mpi.sh"
mpi_find "$("$build_dir/tests/comm/mpi_ranks" version)"
mkdir mpi
ln -s "$(command -v "${mpi_launch[0]}")" mpi/mpirun
PATH=$scratch/mpi:$PATH
words=$(printf '"%s", ' "${mpi_launch[@]}")
ranks='s/"dp": \[2\]/"ddp": [2]/; s/"repeats": 2/"repeats": 1/'
cell=cells/ddp-fp32-resnet8-dummy-weak-2x4
for name in launched own; do
    study_file 15 60 '"resnet8"'
    sed -i "$ranks" study.json
    [[ $name == launched ]] || sed -i "s|\"repeats\"|\"launcher\": [$words\"-n\", \"{ranks}\"], &|" study.json
    expect 0 study study.json --no-report --out $name --only dummy
    [[ -s $name/$cell/r1/ranks.jsonl ]] || fail "the record has no ranks: $(cat $name/$cell/r1.log)"
    [[ $(sed -nE 's/^ *"speedup": ([0-9.]+),$/\1/p' $name/analysis.json | wc -l) == 2 ]] || fail "no speed-up"
done
[[ -s launched/$cell/r1-logs/rank-1.log ]] || fail "rank 1 has no log"
study_file 1000000 60 '"resnet8"'
sed -i "$ranks" study.json
begin study study.json --no-report --out r --only '^ddp.*dummy'
await 60 test -s r/$cell/r1/steps.jsonl
stop TERM 143
await 60 idle
[[ ! -e r/$cell/r1/summary.json ]] || fail "an interrupted run counts as complete"
finish
