#!/usr/bin/env bash
# Studies of real runs: the plan, resuming after a kill, cells that fail, and studies that are
# refused.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"
cd "$scratch" || exit 1

# study_file ARCHS: writes study.json, a study of four cells for each network, with two repeats of
# each cell.
study_file() {
    cat >study.json <<END
{"schema": 1, "name": "tiny", "about": "for a test", "modes": {"nd": [1], "dp": [2]},
 "precisions": ["fp32"], "archs": [$1], "batch": {"weak": [4]},
 "data": [{"name": "dummy", "classes": 3, "train": 64, "val": 4},
          {"name": "jpeg", "generate": {"classes": 3, "train": 12, "val": 2, "size": 48}}],
 "image_size": 32, "threads": 1, "workers": 1, "repeats": 2, "warmup_steps": 1,
 "measured_steps": 3, "limit_s": 60, "train": ["--lr", "0.05"]}
END
}

# summaries DIR: prints the complete runs and the times at which they ended.
summaries() {
    find "$1" -name summary.json -printf '%P %T@\n' | sort
}

cell=cells/nd-fp32-resnet8-dummy-1x4
study_file '"resnet8"'

# The plan.
expect 0 study study.json --dry-run --out s
[[ $(wc -l <out) == 8 && ! -e s ]] || fail "a dry run prints $(wc -l <out) commands instead of 8, or starts runs"
grep -qx "ampscale train --dummy .* -b 4 --mode nd .* --steps 4 .* --out s/$cell/r2" out ||
    fail "the plan lacks a run: $(cat out)"
expect 0 study quick --print
cmp -s out "$source_dir/study/presets/quick.json" || fail "--print does not print the preset"

# The study is killed while a run trains. The process of the run ends too, and the study does not
# count the incomplete run.
"$program" study study.json --no-report --out s >log 2>&1 </dev/null &
study=$!
for ((i = 0; i < 600; i++)); do
    (($(find s -name summary.json 2>/dev/null | wc -l) < 3)) || break
    sleep 0.02
done
kill -STOP "$study" # stopped, so that it does not end before it is killed
expect_error 1 "another 'ampscale study' is using 's'" study study.json --out s
kill -KILL "$study"
{ wait "$study"; } 2>/dev/null
sleep 0.5
summaries s >before
(($(wc -l <before) >= 3)) || fail "fewer than 3 runs were complete before the study was killed: $(cat log)"

# A process that was killed left a temporary file in a data set. The file is removed when the data
# set is completed.
touch s/data/jpeg/dataset.json.tmp.1

# The study is interrupted. The message says how to resume.
if (($(wc -l <before) < 7)); then
    "$program" study study.json --no-report --out s >out 2>err </dev/null &
    study=$!
    sleep 0.3
    kill -TERM "$study"
    code=0
    wait "$study" || code=$?
    ((code == 0 || code == 143)) || fail "the interrupted study exited with $code: $(cat err)"
    if ((code == 143)); then
        grep -q '^ampscale: interrupted.*; the same command continues the study$' err ||
            fail "an interrupted study says: $(cat err)"
    fi
fi
mkdir -p "s/$cell/r9"
expect 0 study study.json --no-report --out s
summaries s >after
[[ $(wc -l <after) == 8 ]] || fail "$(wc -l <after) of 8 runs are complete: $(cat err)"
[[ -z $(comm -23 before after) ]] || fail "complete runs were repeated: $(comm -23 before after)"
[[ -z $(find s -name '*.safetensors' -o -name '*.tmp*') ]] || fail "checkpoints or temporary files of the study remain"
[[ $(grep -c -e -bound -e 'no single bound' -e 'not enough' -e oversubscribed out) == 4 ]] ||
    fail "there is no verdict for each of the 4 cells: $(cat out)"

# If a study is complete, the same command repeats no run and writes the same analysis.
cp s/analysis.json analysis.before
expect 0 study study.json --no-report --out s
[[ ! -s $scratch/err ]] || fail "a study that was complete ran again: $(cat err)"
expect 0 study study.json --out s --analyse
cmp s/analysis.json analysis.before || fail "the same runs gave another analysis"
cmp -s <(summaries s) after || fail "runs were run again"

# If the record of a run does not match its cell, the analysis names that run.
cp -r s wrong
for change in 's/"batch_size": 4/"batch_size": 2/' 's/"arch": "resnet8"/"arch": "resnet18"/' 's/"mode": "nd"/"mode": "dp"/' \
    's/"precision": "fp32"/"precision": "bf16"/' 's/"dummy_train": 64/"dummy_train": 32/' 's/"seed": ./"seed": 7/' \
    's/"steps": 4/"steps": 5/' 's/"workers": 1/"workers": 2/' 's/"devices": "cpu"/"devices": "ref"/' 's/"dummy": true/"dummy": false/'; do
    for r in r1 r2; do
        sed "$change" "s/$cell/$r/run.json" >"wrong/$cell/$r/run.json"
    done
    expect 5 study study.json --out wrong --analyse
    grep -q "\"missing\": \"'wrong/$cell/r2' was run " wrong/analysis.json ||
        fail "the changed setting $change is not reported: $(grep '"missing"' wrong/analysis.json)"
done
# The reports that people read.
grep -qx "| nd-fp32-resnet8-dummy-1x4 |.*" s/RESULTS.md || fail "RESULTS.md lacks a cell"
grep -q '<td class="name">nd-fp32-resnet8-dummy-1x4</td>' s/RESULTS.html || fail "RESULTS.html lacks a cell"
if command -v gnuplot >/dev/null; then
    grep -qxF '![efficiency](<figures/efficiency.svg>)' s/RESULTS.md || fail "there is no figure"
    [[ -s s/figures/efficiency.svg ]] || fail "a figure is not drawn"
fi

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
expect_error 2 "host 'good;id'" study hal --out h --hosts 'good;id'
expect_error 2 "host '-oProxyCommand=id'" study hal --out h --hosts -oProxyCommand=id
PATH=$scratch/bin:$PATH expect_error 5 "no run was started: data 'imagenet': there is no folder 'data/imagenet/train'; data 'imagenet': there is no folder 'data/imagenet/val'; good has 1 of 4 GPUs; bad does not answer: ssh: Could not resolve hostname bad; --hosts: 64 ranks need 56 more slots" \
    study hal --out h --hosts good:4,bad:4
[[ -z $(find h -name '*.log' -o -name '*.failed') ]] || fail "a study started runs although something is missing"
expect 0 study hal --dry-run --out h --hosts a:4,b:4
[[ $(wc -l <out) == 18 ]] || fail "study hal has $(wc -l <out) runs, not the 18 of the published study"
grep -q "^ampscale launch --nproc 8 --hosts a:4,b:4 .* -b 208 --mode ddp --devices cuda --opt-level O2 -j 20 .* --lr-milestones 30,60,80 " out ||
    fail "the preset hal does not match the published study: $(grep 'nproc 8' out)"
"$program" info >info.out
if grep -q '^  cuda:0 .*not available' info.out; then
    expect 5 study hal --out h --only '^nd-'
    grep -q "there is no folder 'data/imagenet/val'; this machine has 0 of 1 GPUs" err || fail "stderr does not name what is missing for the study on this machine: $(cat err)"
fi
sed 's/"limit_s": 60/"limit_s": 60, "launcher": ["srun"]/' study.json >own.json
expect_error 2 "its own 'launcher'" study "$scratch/own.json" --out h --hosts a

# The output folder has the results of another study.
sed -i 's/"measured_steps": 3/"measured_steps": 4/' study.json
expect_error 2 "'s' holds the results of a study that differs from 'tiny'" study study.json --out s

# A cell whose run failed is recorded as failed, and the other cells run. The same command repeats
# the failed run only with --retry.
study_file '"resnet8", "resnet9"'
expect 5 study study.json --no-report --out f --only '^nd-.*dummy.*r1$'
grep -q "nd-fp32-resnet9-dummy-1x4 r1: .* FAILED: .*'resnet9'" err || fail "the message does not name the failed run: $(cat err)"
grep -q "nd-fp32-resnet9-dummy-1x4 .*missing: .*'resnet9'" out || fail "the output does not report the cell of 'resnet9' as missing: $(cat out)"
grep -q "nd-fp32-resnet8-dummy-1x4 .* bound\|nd-fp32-resnet8-dummy-1x4 .*-bound" out || fail "the other cell is missing: $(cat out)"
grep -q '"missing": .*resnet9' f/analysis.json || fail "analysis.json does not give the reason of the failure"
expect 5 study study.json --no-report --out f --only '^nd-.*dummy.*r1$'
grep -q "1 run of 'f' failed; the same command with --retry runs it again" err || fail "stderr does not name the flag that runs the failed run again: $(cat err)"
[[ $(wc -l <err) == 1 ]] || fail "a failed run was repeated without --retry: $(cat err)"
expect 5 study study.json --no-report --out f --only '^nd-.*dummy.*r1$' --retry
[[ $(grep -c FAILED err) == 1 ]] || fail "a failed run was not repeated with --retry: $(cat err)"

# A long run ends when its study is killed, stops when the study gets SIGINT, and fails at its time
# limit.
study_file '"resnet8"'
sed -i 's/"measured_steps": 3/"measured_steps": 1000000/; s/"limit_s": 60/"limit_s": 2/' study.json
cp "$program" long

# runs_on: succeeds if a process of the program named "long" is running.
runs_on() {
    [[ -n $(find /proc/[0-9]*/exe -maxdepth 0 -lname "$scratch/long" 2>/dev/null) ]]
}

# long_study: starts the study in the background, and returns when its first run has started.
long_study() {
    rm -rf long-out
    ./long study study.json --out long-out --only '^nd-.*dummy.*r1$' >out 2>err </dev/null &
    study=$!
    for ((i = 0; i < 600; i++)); do
        [[ ! -e long-out/$cell/r1/run.json ]] || return 0
        sleep 0.02
    done
    fail "the long run does not begin: $(cat err)"
}

# ended: waits until all processes of the study have ended.
ended() {
    for ((i = 0; i < 300; i++)); do
        runs_on || return 0
        sleep 0.02
    done
    fail "a run still runs after the end of its study"
}

long_study
kill -KILL "$study"
{ wait "$study"; } 2>/dev/null
ended
long_study
kill -INT "$study"
code=0
wait "$study" || code=$?
((code == 130)) || fail "an interrupted study exited with $code: $(cat err)"
grep -qx 'ampscale: interrupted by Interrupt; the same command continues the study' err ||
    fail "an interrupted study says: $(cat err)"
runs_on && fail "the study ended before its run had ended"
[[ ! -e long-out/$cell/r1/summary.json && ! -e long-out/$cell/r1.failed ]] ||
    fail "an interrupted run counts as complete or failed"
run study study.json --no-report --out long-out --only '^nd-.*dummy.*r1$'
grep -q 'r1: .* FAILED: not done within the limit of 2 s$' err || fail "the time limit was not enforced: $(cat err)"

[[ -z $(find s -name '*.tmp*') ]] || fail "incomplete files remain: $(find s -name '*.tmp*')"

# A file that is not the specification of a study is refused.
echo '{"schema": 1, "nmae": "x"}' >bad.json
expect_error 2 "'bad.json': unknown key 'nmae'; did you mean 'name'?" study bad.json --out b
echo '{' >bad.json
expect_error 2 "'bad.json' line 2" study bad.json --out b
expect_error 2 "unknown preset 'quikc'" study quikc --out b
expect_error 2 "--out" study study.json
expect_error 2 "is not a regular expression" study study.json --out b --only '('
[[ ! -e b ]] || fail "a study with an invalid specification made its folder"

# A full disk stops the study. When the disk has space again, the study can be resumed.
mkdir disk
if mount -t tmpfs -o size=256k tmpfs disk 2>/dev/null; then
    study_file '"resnet8"'
    head -c 200k /dev/zero >disk/ballast
    run study study.json --no-report --out disk/s --only dummy
    ((code != 0)) || fail "a study succeeded on a full disk"
    grep -qi 'no space left' err out || fail "no message says that the disk is full: $(cat err)"
    rm disk/ballast
    mount -o remount,size=4m disk
    expect 0 study study.json --no-report --out disk/s --only dummy --retry
    [[ $(tail -n 1 out) == '4 runs that --only does not match are missing; the same command without --only runs them.' ]] ||
        fail "the last line is wrong: $(tail -n 1 out)"
    expect 5 study study.json --no-report --out disk/s --analyse
    grep -q 'lacks 4 runs; the same command without --analyse runs them' err || fail "stderr does not name the flag to leave out: $(cat err)"
    [[ $(summaries disk/s | wc -l) == 4 ]] || fail "the study does not resume when the disk has space again: $(cat err)"
    umount disk
    mount -t tmpfs -o size=60k tmpfs disk
    run study study.json --no-report --out disk/s --only jpeg
    ((code == 5)) && grep -q "cannot make data 'jpeg': .*[Nn]o space " err ||
        fail "no message says that there is no space for the data; exit code $code, $(cat err)"
    umount disk
else
    echo "the full disk was not tested, because no tmpfs can be mounted"
fi
finish
