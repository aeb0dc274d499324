#!/usr/bin/env bash
# Programs that read records. One study, one acceptance and pairs of runs are made once; then every
# reader is asked for what its users want of it: study, plot, report, predict, accept, compare, trend,
# export, watch.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/made_runs.sh"
export OMP_WAIT_POLICY=passive
cd "$scratch" || exit 1
hal=$source_dir/results/published/hal_v100.csv

# has FILE PATTERN: checks that a line of the file matches the extended regular expression.
has() {
    grep -qE -- "$2" "$1" || fail "$1 has no '$2': $(head -c 800 "$1")"
}

# lacks FILE PATTERN: checks that no line matches.
lacks() {
    ! grep -qE -- "$2" "$1" || fail "$1 has '$2': $(grep -E -- "$2" "$1" | head -n 3)"
}

# count N FILE PATTERN: checks the number of matching lines.
count() {
    [[ $(grep -cE -- "$3" "$2") == "$1" ]] || fail "not $1 lines of $2 have '$3': $(head -c 800 "$2")"
}

# --- study ---------------------------------------------------------------------------------------
cat >study.json <<'END'
{"schema": 1, "name": "tiny", "about": "for a test", "modes": {"nd": [1], "dp": [2]},
 "precisions": ["fp32"], "archs": ["resnet8"], "batch": {"weak": [4]},
 "data": [{"name": "dummy", "classes": 3, "train": 12, "val": 4}],
 "image_size": 32, "threads": 1, "workers": 1, "repeats": 1, "warmup_steps": 1,
 "measured_steps": 3, "limit_s": 60, "train": ["--lr", "0.05"]}
END
nd=s/cells/nd-fp32-resnet8-dummy-1x4/r1
dp=s/cells/dp-fp32-resnet8-dummy-weak-2x4/r1
expect 0 study study.json --dry-run --out s
[[ $(grep -vc '^#' out) == 2 && ! -e s && ! -s err ]] || fail "a dry run prints $(wc -l <out) lines, starts runs or warns: $(<err)"
has out '^# runs: 2, cells: 2, estimated time: unknown until runs are complete$'
has out "^ampscale train --dummy .* -b 4 --mode nd .* --steps 4 .* --out $nd$"
expect 0 study quick --print
cmp -s out "$source_dir/study/presets/quick.json" || fail "--print does not print the preset"
expect 0 study hal --dry-run --out h --hosts a:4,b:4
[[ $(grep -vc '^#' out) == 18 ]] || fail "study hal has $(wc -l <out) runs, not the 18 of the published study"
has out '^ampscale launch --nproc 8 --hosts a:4,b:4 .* -b 208 --mode ddp --devices cuda --opt-level O2 -j 20 .* --lr-milestones 30,60,80 '
# The cells of weak and strong scaling with one batch per device are one training.
expect 0 study quick --dry-run
[[ $(grep -v '^#' out | sed 's/ --out .*//' | sort | uniq -d | wc -l) == 0 ]] || fail "study quick trains twice: $(sort out | uniq -d)"
has out '^# runs: 128, cells: 16, '
expect 0 study quick --dry-run --only 'jpeg-1x32/r[12]'
count 5 out .
has out '^# runs: 4, cells: 2, '

expect 0 study study.json --out s
count 2 out '-bound$|no single bound$|not enough to say$|oversubscribed$|disturbed$'
has s/RESULTS.md '^\| nd-fp32-resnet8-dummy-1x4( \(disturbed\))? \|'
has s/RESULTS.html '<td class="name">nd-<wbr>fp32-<wbr>resnet8-<wbr>dummy-<wbr>1x4( \(disturbed\))?</td>'
has s/RESULTS.md '^Quality of the data: \*\*(fair|poor)\*\*\. 20[0-9-]+ [0-9:]+ .*UTC, host .* 2 of 2 cells ran only once'
has s/RESULTS.md '^\*\*(The data are poor, see their quality\. )?2 devices: [0-9.]+x the throughput of one \(efficiency '
cp s/analysis.json before
before=$(stat -c %y $nd/summary.json)
expect 0 study study.json --no-report --out s # repeats no run
[[ ! -s err && $(stat -c %y $nd/summary.json) == "$before" ]] || fail "a study that was complete ran again: $(<err)"
expect 0 study study.json --dry-run --out s
[[ $(<out) == "# runs: 0, cells: 0, estimated time: 0 s" ]] || fail "a dry run of a complete study prints $(<out)"
cp -r s partly && rm -r partly/${nd#s/}
expect 0 study study.json --dry-run --out partly
has out '^# runs: 1, cells: 1, estimated time: [0-9]+ s$'
# A folder of an earlier version, which ran the cells of both scalings, continues with each cell once.
sed 's/"weak": \[4\]/"weak": [4], "strong": [8]/' study.json >both.json
expect 0 study both.json --no-report --out b2 --only 2x4
sed -i 's/"name": "dp-fp32-resnet8-dummy-weak-2x4"/"name": "dp-fp32-resnet8-dummy-strong-2x4"/' b2/plan.json
expect 0 study both.json --no-report --out b2
[[ $(grep -c 'strong' b2/plan.json) == 2 && $(find b2 -name summary.json | wc -l) == 3 ]] || fail "a folder of an earlier plan: $(find b2 -name summary.json) $(grep strong b2/plan.json)"
[[ $(sed -n '/"series"/,$p' b2/analysis.json | grep -c dp-fp32-resnet8-dummy-weak-2x4) == 2 ]] || fail "the cell is not in both series"
expect 0 study study.json --out s --analyse --no-report
cmp s/analysis.json before || fail "the same runs gave another analysis"

# If the record of a run does not match its cell, the analysis names that run.
cp -r s wrong
for change in 's/"batch_size": 4/"batch_size": 2/' 's/"mode": "nd"/"mode": "dp"/' 's/"precision": "fp32"/"precision": "bf16"/' \
    's/"seed": ./"seed": 7/' 's/"steps": 4/"steps": 5/' 's/"devices": "cpu"/"devices": "ref"/' 's/"dummy": true/"dummy": false/'; do
    sed "$change" $nd/run.json >wrong/${nd#s/}/run.json
    expect 5 study study.json --out wrong --analyse --no-report
    grep -q "\"missing\": \"'wrong/${nd#s/}' was run " wrong/analysis.json || fail "the changed setting $change is not reported"
done
sed 's/"measured_steps": 3/"measured_steps": 4/' study.json >other.json
expect_error 2 "'s' holds the results of a study that differs from 'tiny'" study other.json --out s
sed 's/"limit_s": 60/"limit_s": 60, "launcher": ["srun"]/' study.json >own.json
expect_error 2 "its own 'launcher'" study ./own.json --out h --hosts a
expect_error 2 "--out" study study.json
expect_error 2 "unknown preset 'quik'" study quik
expect_error 2 "--only 'nothing' matches no run; a run's name is like 'nd-fp32-resnet8-dummy-1x4/r1'" study study.json --out s --only nothing
expect_error 2 "--only '^dp-.*/r2$' matches no run" study study.json --out s --only '^dp-.*/r2$'
sed 's/"classes": 3, "train": 12, "val": 4/"folder": "nowhere"/' study.json >absent.json
expect_error 5 "no run was started: data 'dummy': there is no folder 'nowhere/train'" study absent.json --out absent
# Every bad value is reported before the first run, each in a line that names its key.
sed 's/"resnet8"/"resnet9"/; s/"fp32"/"fp16", "fp32"/; s/"--lr", "0.05"/"--lrr", "0.05"/' study.json >bad.json
for how in "--out bad" --dry-run; do
    read -ra words <<<"$how"
    expect 2 study ./bad.json "${words[@]}"
    [[ $(wc -l <err) == 3 && ! -s out && ! -e bad ]] || fail "bad values: $(<err)"
    has err "^ampscale: './bad.json': 'archs': unknown network 'resnet9'; did you mean resnet8\? known: "
    has err "^ampscale: './bad.json': 'precisions': unknown precision 'fp16'; use "
    has err "^ampscale: './bad.json': 'train': unknown flag '--lrr'; did you mean --lr\?"
done
sed 's/"--lr", "0.05"/"--mixup", "x"/' study.json >bad.json
expect_error 2 "'./bad.json': 'train': --mixup 'x': give a number" study ./bad.json --dry-run
sed 's/"--lr", "0.05"/"--dp-reduce", "all"/' study.json >bad.json
expect_error 2 "cell 'nd-fp32-resnet8-dummy-1x4': --dp-reduce needs several devices" study ./bad.json --dry-run
sed 's/"dp": \[2\]/"dp": [64]/; s/"limit_s": 60, //' study.json >many.json
expect 0 study ./many.json --dry-run
has err "^ampscale: warning: cell 'dp-fp32-resnet8-dummy-weak-64x4': 64 threads on "
has out ', estimated time: unknown until runs are complete$'
# A run fails: its data has a file that is no image.
expect 0 data synth --out images --classes 2 --train 2 --val 2 --size 32
find images -name '*.JPEG' -exec sh -c 'echo no image >"$1"' _ {} \;
sed 's/"classes": 3, "train": 12, "val": 4/"folder": "images"/' study.json >failing.json
for message in "FAILED: " "1 run of 'f' failed; the same command with --retry runs it again"; do
    expect 5 study failing.json --no-report --only '^nd-' --out f
    has out "nd-fp32-resnet8-dummy-1x4 .*missing: "
    has err "$message"
done
# A run that other work disturbed is measured once more, at the end; with --retry also one of an earlier call.
# The launcher's first attempt at each run ends with a record of a busy machine.
cat >launcher <<'END'
#!/usr/bin/env bash
ranks=$1 program=$2 out=
shift 2
"$program" launch --comm gloo --nproc "$ranks" -- "$@" || exit
for word; do [[ $previous != --out ]] || out=$word; previous=$word; done
echo "$out" >>attempts
[[ $(grep -cx "$out" attempts) != 1 ]] || sed -i 's/"disturbed": false/"disturbed": true/' "$out/summary.json"
END
chmod +x launcher
sed 's/"modes": {[^}]*}/"modes": {"ddp": [2]}/; s/"limit_s": 60/"limit_s": 60, "launcher": [".\/launcher", "{ranks}"]/' study.json >again.json
expect 0 study ./again.json --no-report --out again
[[ $(sort attempts | uniq -c | awk '{print $1}' | sort -u) == 2 ]] || fail "runs of a busy machine are not measured again once: $(<attempts) $(<err)"
has err '^a run was disturbed by other work; measuring it again$'
expect 0 study ./again.json --no-report --out again
[[ $(sort attempts | uniq -c | awk '{print $1}' | sort -u) == 2 ]] || fail "a complete run was measured again without --retry"
sed -i 's/"disturbed": false/"disturbed": true/' "$(tail -n 1 attempts)/summary.json"
expect 0 study ./again.json --no-report --out again --retry
[[ $(wc -l <attempts) -ge 3 ]] || fail "a disturbed run was not measured again with --retry: $(<attempts)"
expect_error 2 "is not a regular expression" study study.json --out b --only '('
expect_error 2 "'-oProxyCommand=id' is not a host's name" study hal --out b --hosts -oProxyCommand=id
[[ ! -e b && ! -e h ]] || fail "a study with an invalid specification made its folder"

# --- plot and report -----------------------------------------------------------------------------
if command -v gnuplot >/dev/null; then
    has s/RESULTS.md '^!\[Efficiency against devices\]\(<figures/efficiency.svg>\)$'
    for format in png svg pdf; do
        [[ -s s/figures/efficiency.$format ]] || fail "the study has no efficiency.$format: $(ls s/figures)"
    done
    expect 0 plot s --format svg --published "$hal:may" --published "$hal:feb"
    for name in training_throughput training_time efficiency scaling_weak top1_train top1_val top5_train top5_val cell_split loss split; do
        [[ -s s/plots/$name.svg ]] && grep -qxF "s/plots/$name.svg" out || fail "plot did not draw figure '$name': $(<out)"
    done
    has s/plots/efficiency.svg '>published: feb V100-16<'
    has s/plots/split.svg '>dp-fp32-resnet8-dummy'
    has err '^scaling_strong: skipped'
    has s/plots/top1_val.svg '>nd fp32 1x4<'
    : >s/plots/accuracy.svg # of an earlier version
    sed '/"epochs": \[/,/^   \],/d' s/analysis.json >half-analysis && mkdir older && mv half-analysis older/analysis.json
    expect 0 plot older/analysis.json --format svg --out older
    has err '^top1_train, top1_val, top5_train, top5_val: skipped, the analysis has no curves; .* --analyse adds them$'
    expect 0 plot s --format svg
    [[ ! -e s/plots/accuracy.svg ]] || fail "a figure of an earlier version remains"
    expect 0 plot s/analysis.json --format pdf --out alone
    [[ $(tail -c 6 alone/training_time.pdf) == %%EOF && ! -e alone/loss.pdf ]] || fail "plot of analysis.json: $(ls alone)"
    cp -r $nd half && rm half/summary.json half/outcome.json
    expect 0 plot $dp half --format svg --out runs
    has err "^note: run 'half' is not complete: killed: process [0-9]* of host .* ended and wrote no outcome$"
    has runs/loss.svg 'half<'
    expect 0 plot "$hal" --format svg
    has hal_v100-plots/efficiency.svg '>published: may'
fi
expect_error 2 "no run to draw: give the folder of a run" plot
expect_error 2 "needs a folder for its figure" plot s/analysis.json
expect_error 2 "is not a study" plot s/cells --published "$hal:may"
expect_error 2 "give FILE:SERIES" plot s --published may
expect_error 2 "known: feb, may" plot s --published "$hal:june"
expect_error 2 "one at a time" plot s s --out x
for words in "plot s" "report s -o x" "trend s" "predict s/analysis.json" "amp-report s" "study study.json --out t"; do
    read -ra command <<<"$words"
    expect_error 2 "the limit is 6400 pixels" "${command[@]}" --width 64 --dpi 200
done
[[ ! -e t && ! -e x ]] || fail "a picture that is too wide was refused after work had begun"
# A report quotes the words of a run's command for a shell.
cp -r $nd "=cmd()"
sed -i 's/"ampscale train"/"$(touch pwned) train"/' "=cmd()/run.json"
expect 0 report --no-figures "=cmd()" -o report.md
grep -qF "'\$(touch pwned) train'" report.md || fail "a report's command is not quoted: $(grep touch report.md)"

# --- predict -------------------------------------------------------------------------------------
expect 0 predict "$hal:feb" --fit-up-to 32 --ranks 32..128
has out '^fit *to 5 points, up to 32 ranks'
has out '^fitted .*latency between nodes'
count 5 out ' fitted$'
count 1 out '^ *64 .* held out$'
awk '$1 == 128 && NF > 8 && $5 < 65 { found = 1 } END { exit !found }' out || fail "the forecast for 128 ranks has no efficiency below 65 %"
expect 0 predict "$hal:feb" --fit-up-to 32 --ranks 32..128 --out drawn
if command -v gnuplot >/dev/null; then
    expect 0 plot drawn/predict.json --out again --format svg
    cmp -s drawn/forecast.svg again/forecast.svg || fail "the figure that plot draws from the record differs"
fi
# The storage delivers only half of the images per second that 64 GPUs need.
expect 5 predict "$hal:may" --network 20,10 --ranks 64 --input-bandwidth 2.15625 --image-bytes 115000
awk '$1 == 64 && $2 == "18750.0" && $NF == "input" { found = 1 } END { exit !found }' out || fail "storage is not the limit: $(<out)"
# Points outside the interval: one line, with --json too, which marks them.
code=0
"$program" predict "$hal:feb" --fit-up-to 16 --ranks 64 --json >out 2>err || code=$?
[[ $code == 5 && $(wc -l <err) == 1 ]] || fail "a forecast that measurements refute exits with $code: $(<err)"
has err 'does not hold: .*: 2 of 2 held-out points lie outside .* [+]17.8 points of efficiency, at 64 ranks; '
count 2 out '"outside": true'
expect 0 predict $nd $dp --fit --ranks 2..4 --ranks-per-node 4 # runs on 1 and 2 devices
lacks out 'between nodes'
[[ $(awk '/ fitted$/ { print $1 }' out | tr '\n' ' ') == "1 2 " ]] || fail "the forecast does not have two measured points: $(<out)"
run predict "s/analysis.json:dp fp32 resnet8 dummy weak" --network 20,1 --ranks 4,8 --ranks-per-node 8
has out '^tiny: dp fp32 resnet8 dummy weak$'
count 2 out ' calibration point$| held out'
cp -r "$dp" resumed # its later half with another batch
half=$(($(wc -l <resumed/steps.jsonl) / 2))
resumed=$(sed "s/^{/{\"event\": \"resume\", \"step\": $half, /; s/\"batch_size\": [0-9]*/\"batch_size\": 64/" resumed/run.json | tr -d '\n')
sed -i "/\"step\":$half,/i $resumed" resumed/steps.jsonl
expect 5 predict $nd resumed --fit --ranks 2..4
has err "'resumed' was resumed with another 'batch_size'"
sed -i 's/"image_size": [0-9]*/"image_size": 64/' resumed/run.json
expect 5 predict $nd resumed --fit --ranks 2..4
has err "'resumed' has another 'image_size' than '$nd'"
cp -r "$nd" paused && sed -i '0,/{/s//{"paused": true,/' paused/summary.json
expect 5 predict paused --ranks 1
has err "'paused' was paused, so its times are not valid"
expect 0 report paused -o paused.md --no-figures
has paused.md '1 paused: not valid are their mean and wall-clock figures'
# A study's points of one batch over all devices are of strong scaling.
sed -E '/"name": "dp-fp32-resnet8-dummy-weak-2x4"/,/"batch"/s/"batch": 8/"batch": 4/' s/analysis.json >strong.json
expect 0 predict strong.json:1 --fit --ranks 1,2,4 --ranks-per-node 4 --json
[[ $(sed -n '/"forecast"/,/^ \]/s/^ *"batch": \([0-9]*\),.*/\1/p' out | head -n 3 | tr '\n' ' ') == "4 2 1 " ]] || fail "strong scaling: $(grep batch out)"
# A mistyped run is no folder to be made, and no study.
expect_error 5 "no run in 'typo': there is no such folder" plot typo
expect_error 5 "cannot open 'typo': there is no such folder" compare s typo
[[ ! -e typo ]] || fail "a mistyped run was made"
# Modes of one process stay on their node, whether a study or a run was measured.
for source in s/analysis.json s/analysis.json:1 "$nd" "$dp"; do
    expect_error 2 " is one process, and a node has " predict "$source" --network 20,1 --ranks 4,8
done
expect_error 2 "no series 'x': 's/analysis.json' has 1 series: append a colon and the number or name of one: 1 'dp fp32 resnet8 dummy weak'" predict s/analysis.json:x --network 20,1
# A recorded study on one host: its series by name; nothing about several nodes was measured.
recorded=$source_dir/results/recorded/cpu-avx512-2-threads/study-quick/analysis.json
expect_error 2 "has 16 series: append a colon and the number or name of one: 1 'dp fp32 resnet8 synthetic weak', 2 'dp" predict "$recorded" --fit
expect 0 predict "$recorded:ddp fp32 resnet8 synthetic weak" --fit --ranks 2..64
has out '^assumed *not measured: .*latency between nodes 500 us, bandwidth between nodes 5 GB/s'
lacks out '^(known|fitted).*between nodes'
cp out by_name.txt
expect 0 predict "$recorded:5" --fit --ranks 2..64
cmp -s out by_name.txt || fail "a series has another forecast by name than by number"
expect_error 2 "mode dp is one process" predict "$recorded:1" --network 5,12 --ranks 2..256
# Two ranks that share one host reach a third of the efficiency: more ranks do not reach more.
awk '/"name"/ { cell = $2 } cell ~ /"ddp-fp32-resnet8-synthetic-weak-2x32"/ && !done && /"(median|low|high)"/ {
    sub(/[0-9.]+/, 1300, $2); done = ++n == 3 } { print }' "$recorded" >shared.json
expect 0 predict shared.json:5 --fit --ranks 2..64
awk '$1 ~ /^[0-9]+$/ && NF > 8 { if ($5 > 35 || (seen && $5 > before)) bad = 1; before = $5; seen++ }
    END { exit bad || seen != 6 }' out || fail "the efficiency rises with ranks: $(<out)"
# A predicted step instead of a measurement.
cat >step.json <<'END'
{"schema": 1, "bench": "step_predict", "device": "a GPU", "net": "resnet50", "batch": 256, "image_size": 224,
 "precision": "amp", "sums": {"predicted_images_per_s": 10000.0, "published_share": 0.8}}
END
expect 0 predict step.json --network 2,50 --ranks 1..64
has out '^The time of the step is predicted, not measured.$'
has out '^assumed *not measured: time of an image 0.125 ms'
has out ' 1 +8000.0 .*predicted, not measured$'
awk '$1 == 64 && NF > 8 { found = $3 < 0.8 * $2 && $4 > 1.25 * $2 } END { exit !found }' out || fail "the interval has no error of the predicted step: $(<out)"
sed 's/0.8}/0}/' step.json >damaged.json
expect_error 5 "'published_share' is missing or out of range" predict damaged.json --network 2,50
expect_error 2 "exclude each other" predict --gpu h100 step.json --network 2,50
expect_error 2 "--precision need --gpu" predict step.json --precision amp --network 2,50
expect_error 2 "unknown GPU 'h300'" predict --gpu h300 --network 2,50
expect_error 5 "no run in 'nosuch'" predict nosuch
expect_error 5 "have 1 ranks" predict $nd $nd --network 20,1
expect_error 2 'no measurement to start from' predict --fit
expect_error 2 'known: feb, may' predict "$hal:june" --fit
expect_error 2 'no network to forecast for' predict "$hal:feb"
expect_error 2 'ascending order' predict "$hal:feb" --fit --ranks 4,2
expect_error 2 'a fit needs at least two' predict "$hal:feb" --fit-up-to 3
expect_error 2 'several sources must all be folders of runs' predict "$hal:feb" "$hal:may" --fit
expect_error 5 "cannot open 'none.csv'" predict none.csv --fit
expect_error 5 'lists fewer than two ranks' predict "$hal:feb" --nccl-table "$hal"

# --- compare and trend ---------------------------------------------------------------------------
make_runs base 0
make_runs same 0.1
make_runs slow 10
make_runs other 0 64
expect 0 compare base same
has out '^passed: 0 regressions'
expect 0 compare slow base
has out 'better$'
expect 3 compare base slow
count 2 out 'REGRESSION$'
count 5 out '\(worse\)$'
[[ ! -s err ]] || fail "a regression is reported as an error: $(<err)"
expect 3 compare --metric all base slow
count 7 out 'REGRESSION$'
expect 0 compare --threshold 15 base slow
expect 3 compare --threshold images_per_s=5 --threshold 15 base slow
expect 3 compare --alpha 0.01 base/r* -- slow/r*
expect 5 compare --metric comm_s base same
has out 'no value of comm_s to compare'
expect 5 compare base/r* -- slow/r[1-4]
has err 'give at least 6 complete runs'
expect 5 compare --pair always base same
has out 'did not take turns'
expect 5 compare --markdown x.md --junit x.xml base other
has out "config.batch_size: '32' in the first run of BASE, '64' in another"
has x.md '^\| resnet18 \| config.batch\\_size \| 32 \| 64 \| .*\| refused \|$'
has x.xml 'message="the runs differ in config.batch_size \(32 / 64\)'
expect 0 compare --allow-different config.batch_size base other
# Attempts under a quota of the processor, or with a variable that others lack, are not the same run.
cp -r same limited
for i in {1..9}; do
    attempt=$(sed 's/^{/{"event": "resume", "step": 10, /; s/}}$/}, "host": {"cpu": {"quota": 0.5}}}/' limited/r$i/run.json)
    sed -i "/\"step\":10,/i $attempt" limited/r$i/steps.jsonl
done
expect 5 compare base limited
has out "host.cpu.quota: 'absent' in the first run of BASE, 'absent, then 0.5' in another"
expect_error 2 "'--alpha' follows '--': flags must come before it" compare base/r* -- --alpha 0.01 slow/r*
expect_error 2 "give BASE NEW" compare base
expect_error 5 "is neither a run, nor a folder of runs, nor a study" compare base "$TMPDIR"
expect_error 5 "cannot open 'nothing'" compare base nothing
expect_error 2 "--metric 'speed': unknown metric; known: images_per_s_mean, images_per_s, " compare --metric speed base same
expect_error 2 "--pair 'maybe': give auto, never or always" compare --pair maybe base same

# Storage that stalls in one step of each run does not change the median step, but the mean.
cp -r same stalled
for i in {1..9}; do
    sed -i '15s/"data_s":0,\(.*\)"total_s":[0-9.]*/"data_s":6,\1"total_s":6.1/' stalled/r$i/steps.jsonl
done
expect 3 compare base stalled
has out '^  images_per_s_mean .* 0\.1[0-9]* .*REGRESSION$'
has out '^  images_per_s .* equivalent$'
expect 0 compare --metric images_per_s base stalled
expect 0 report stalled -o stalled.md --no-figures # 10 steps after warm-up, of 32 images
has stalled.md '45\.7 images/s \(mean\) in run r1; no validation'
has stalled.md '^\| r1 \| [0-9.]+ \| 45\.7 \|'

# Runs that vary too much are inconclusive. Disturbed, damaged and incomplete runs are named.
for i in 1 2 3 4 5 6 7 8 9; do
    make_run "uneven/r$i" "$(awk -v i=$i 'BEGIN { print i % 3 ? 0.11 : 0.09 }')"
done
expect 5 compare base uneven
has out '^inconclusive: 0 regressions'
has err '^ampscale: [0-9] of [0-9] metrics are inconclusive: .*; give about [0-9]+ runs per side'
cp -r same noisy
echo '{"schema": 1, "ended_by": "steps", "noise": {"disturbed": true, "reason": "9.0 % of the steps took more than 1.5 times the median"}}' >noisy/r2/summary.json
expect 0 compare base noisy
count 2 out 'disturbed by other work: 0 of 9 runs of BASE, 1 of 9 of NEW'
expect 0 compare --json --markdown x.md --junit x.xml --benchmark-action x.bench base noisy
has <(tr -d ' \n' <out) '"disturbed":\{"base":0,"new":1\},"alpha"'
has x.md '^\*\*passed: .*; disturbed by other work: 0 of 9 runs of BASE, 1 of 9 of NEW\*\*$'
has x.xml 'name="disturbed" value="0 of 9 runs of BASE, 1 of 9 of NEW"'
has x.bench 'runs, of which 0 and 1 were disturbed"'
expect 0 report noisy -o noisy.md --no-figures
count 1 noisy.md 'complete, disturbed: 9.0 % of the steps'
has noisy.md '^Quality of the data: .* 9 runs: 1 disturbed by other work, 8 without a record of it'
cp -r same torn
cp -r torn/r1 torn/r10
echo 'x' >>torn/r3/steps.jsonl
expect 5 compare base torn
has out "incomplete: 1 damaged run of NEW left out: 'torn/r3/steps.jsonl' line 21: not valid JSON"
has out '^resnet18.*9 and 9 runs$'
cp -r same cut && rm cut/r6/summary.json && echo '{}' >cut/r98.failed # as a study records a failed run
expect 5 compare --markdown x.md --junit x.xml base cut
has out '2 of 10 runs of NEW are incomplete'
has x.md '\| 2 of 10 runs of NEW are incomplete, for example .* \|$'
has x.xml 'message="2 of 10 runs of NEW are incomplete'

# Other programs read the files of a comparison.
expect 3 compare --markdown x.md --junit x.xml --json -o x.json --benchmark-action x.bench base slow
has x.md '\| images\\_per\\_s \| .* \| REGRESSION \|'
[[ $(sed -n 3p x.md) == '**REGRESSION: 2 regressions, '* ]] || fail "x.md does not begin with the verdict: $(head -n 5 x.md)"
lacks x.md 'equivalent \|$'

! command -v python3 >/dev/null || python3 - <<'PY' || fail "other programs cannot read the files"
import json, xml.etree.ElementTree as tree
suite = tree.parse("x.xml").getroot().find("testsuite")
cases = suite.findall("testcase")
assert len(cases) == int(suite.get("tests")) == 7
assert len(suite.findall("testcase/failure")) == int(suite.get("failures")) == 2
record = json.load(open("x.json"))
assert record["record"] == "compare" and not record["passed"]
step = [m for m in record["cells"][0]["metrics"] if m["name"] == "step_s"][0]
assert abs(step["ratio"] - 1.1) < 1e-6 and step["verdict"] == "worse" and step["base"]["n"] == 9
assert "resnet18: images_per_s" in [b["name"] for b in json.load(open("x.bench"))]
PY
has x.xml '<property name="ratio" value="1.1'
! command -v xmllint >/dev/null || xmllint --noout --schema "$source_dir/tests/accept/junit.xsd" x.xml 2>err ||
    fail "x.xml is not JUnit's: $(<err)"
expect 1 compare --json -o no/such/folder.json base slow

# Runs are recorded in a history, and compared with its accepted runs.
expect_error 5 "'ampscale compare --record history RUNS' begins one" compare --history history same
expect 0 compare --history history --record history --markdown x.md base
has x.md 'resnet18 \|.* 0 of 0 runs in .history. are accepted'
has out "  not compared, begins a base: .* 0 of 0 runs in 'history' are accepted"
has out '^not compared, begins a base: 0 regressions$'
expect 0 compare --history history --record history same
expect 3 compare --history history --record history slow
count 18 history/history.jsonl '"accepted":true'
count 9 history/history.jsonl '"accepted":false'
expect 3 compare --history history --last 7 slow
has out '7 and 9 runs'
expect 5 compare --history history other
has err "^ampscale: nothing to compare with: apart from the new runs, 0 of 27 runs in 'history' are accepted .*; the nearest has config.batch_size '32' there, '64' now; --record with the same folder begins a new base, --allow-different NAME ignores a field$"
[[ $(wc -l <history/history.jsonl) == 27 ]] || fail "a comparison that was not asked to record did"
expect_error 5 "nothing is recorded" compare --record history cut
expect_error 2 "give new runs only" compare --history history base -- same
# A history of an earlier version lacks the mean, which then is not gating.
make_runs later 0.2
mkdir earlier && sed 's/"images_per_s_mean":[^,]*,//' history/history.jsonl >earlier/history.jsonl
lacks earlier/history.jsonl images_per_s_mean
expect 0 compare --history earlier --record earlier same
lacks out 'images_per_s_mean'
count 9 earlier/history.jsonl '"images_per_s_mean":[0-9]'
expect 0 compare --history earlier later
has out '^  images_per_s_mean .*\(equivalent\)$'
printf '{"record": "hist' >>history/history.jsonl # the next call removes an incomplete last line
expect 0 compare --record history base
[[ $(wc -l <history/history.jsonl) == 36 ]] || fail "the history has $(wc -l <history/history.jsonl) lines"
for change in 's/.*/[]/' 's/"accepted":true/"accepted":1/' 's/"images_per_s":[0-9.]*/"images_per_s":"fast"/' 's/"schema":1/"schema":2/'; do
    mkdir -p damaged && sed "2$change" history/history.jsonl >damaged/history.jsonl
    ! cmp -s history/history.jsonl damaged/history.jsonl || fail "'$change' changes nothing"
    expect_error 5 "line 2: not an entry of a history" compare --history damaged same
done

expect 0 compare --record shaky noisy
count 1 shaky/history.jsonl '"disturbed":true'
expect 0 compare --history shaky same
has out '^passed: .*disturbed by other work: 1 of 9 runs of BASE, 0 of 9 of NEW$'

# After a change of the machine, of a library or of a setting, the same command begins a new base,
# and compares with it from the second commit on. A base grows until it has five runs.
machine='"host": {"kernel": "6.1"}, "libraries": {"oneDNN": "3.4"},'
started=1700000000
# fresh DIR [EDIT]: gives the runs new start times, and edits their run.json.
fresh() {
    for run in "$1"/r*/run.json; do
        sed -i -E "s/(\"schema\": 1,)( \"started_s\": [0-9]+,)?/\1 \"started_s\": $((started++)),/; ${2-}" "$run"
    done
}
gate() { expect "$1" compare --history guarded --record guarded --junit x.xml "$2"; }
make_runs first 0 && fresh first "s/\"config\"/$machine &/"
cp -r first second && fresh second
gate 0 first
gate 0 second
has out '^passed: '
for change in 's/6.1/6.2/' 's/3\.4/3.5/' 's/"batch_size": 32/"batch_size": 64/' 's/"arch"/"precision": "bf16", &/'; do
    for turn in 1 2 3 4; do
        rm -rf commit && cp -r first commit
        ((turn > 2)) || rm -r commit/r[4-9]
        fresh commit "$change"
        gate 0 commit
        case $turn in
        1) has out 'begins a base: .*; the nearest has (host|libraries|config)\.[a-zA-Z_.]+ .* there, .* now' ;;
        2) has out 'begins a base: .* 3 of [0-9]+ runs' ;;
        *) has out '^passed: ' ;;
        esac
        ((turn > 2)) || has x.xml '<skipped'
    done
    rm -rf commit && cp -r first commit && fresh commit "$change"
    sed -i -E 's/"total_s":[0-9.]+/"total_s":0.2/' commit/r*/steps.jsonl
    gate 3 commit
done

# A ratio to values of 0 has no interval.
for side in zeros1 zeros2; do
    cp -r first $side && fresh $side
    for i in {1..9}; do
        printf '{"epoch":0,"steps":20,"lr":0.1,"train_images":640,"train_loss":1,"train_top1":0,"train_top5":0,"val_images":100,"val_loss":1,"val_top1":%s,"val_top5":1,"best_top1":1,"images_per_s_mean":1,"images_per_s":1,"images_per_s_p5":1,"images_per_s_p95":1,"images_per_s_wall":1,"train_s":1,"val_s":1,"checkpoint_s":0,"bytes_per_s":0,"files_per_s":0,"decode_ms":0,"bad_images":0,"elapsed":1}\n' \
            $((i % 3)) >$side/r$i/epochs.jsonl
    done
done
expect 5 compare zeros1 zeros2
has err 'val_top1 of .* is 0 in runs of BASE, so that no ratio to BASE has an interval; leave it out by --metric$'
lacks err 'nan'

# The same runs on both sides, under whatever path, are refused.
expect_error 2 "'first/r1' of BASE and 'first/r1' of NEW are the same run; give each run once" compare first first
ln -s first alias
expect_error 2 "are the same run" compare first alias
expect_error 2 "are the same run" compare first/r* -- "$PWD"/alias/r[1-7]
mkdir twin && cp -r first/r1 twin && ln -s r1 twin/latest
expect_error 2 "are the same run" compare --record doubled twin
[[ ! -e doubled ]] || fail "a run that was given twice was recorded"
expect_error 2 "are the same run" compare s s

# A run that has its start time counts once, however often it is recorded.
cp -r same timed
for i in {1..9}; do
    sed -i "s/{\"schema\": 1,/&\"started_s\": 170000000$i.5,/" timed/r$i/run.json
done
expect 0 compare --record once base
for turn in 1 2; do
    expect 0 compare --history once --record once timed
    has out ', 9 and 9 runs$'
    count 18 once/history.jsonl '"accepted":true'
done

# Forty points of three runs; the last fifteen points are 10 % slower.
mkdir steps
awk 'BEGIN { for (i = 0; i < 40; i++) for (k = 0; k < 3; k++) {
    v = (100 + (i * 37 % 11) / 10 + k / 100) * (i < 25 ? 1 : 0.9)
    printf "{\"record\":\"history\",\"schema\":1,\"added_s\":%d,\"started_s\":%d,\"commit\":\"%07x\",\"accepted\":%s,\"end\":{\"by\":\"steps\",\"steps\":20,\"epochs\":0},\"fingerprint\":{\"config.arch\":\"resnet18\",\"config.batch_size\":32},\"metrics\":{\"images_per_s\":%.4f,\"step_s\":%.6f}}\n", 1700000000 + 86400 * i, 1700000000 + 86400 * i + k - 100, 1048576 + i, i < 25 ? "true" : "false", v, 1 / v
} }' >steps/history.jsonl
sed 's/"config.batch_size":32/"config.batch_size":64/; s/"images_per_s":[0-9.]*/"images_per_s":100/' steps/history.jsonl >flat
cat flat >>steps/history.jsonl
expect 0 trend steps
has out '^resnet18 \(batch_size 32\), images_per_s: 40 points from 2023-11-14 to 2023-12-23'
has out '^  2023-12-09  point 26   0100019 +ratio 0.90.*worse$'
count 1 out 'no change$'
expect 0 trend steps --metric step_s
has out 'ratio 1.1.*worse$'
expect 0 trend steps --threshold 20
lacks out 'worse$'
expect 0 trend steps --json -o trend.json
if command -v gnuplot >/dev/null; then
    expect 0 plot trend.json --out trends --format svg
    has trends/trend.svg '>-10.* % since 2023-12-09 0100019<'
    expect 0 trend steps --out drawn
    cmp -s drawn/trend.svg trends/trend.svg || fail "trend and plot draw different figures of the same record"
    sed 's/"point": 25/"point": 99/' trend.json >bad.json
    expect_error 5 "damaged record: 'point'" plot bad.json --out bad
fi
# The names of series show the settings in which they differ: injected faults first, or that there are none.
mkdir faults
sed '1,120!d; s/"config.batch_size":32/&,"config.inject.0":"slow:2"/' steps/history.jsonl >faults/history.jsonl
sed '1,120!d' steps/history.jsonl >>faults/history.jsonl
cat flat >>faults/history.jsonl
expect 0 trend faults
for name in 'batch_size 64' 'inject slow:2' 'no inject, batch_size 32'; do
    has out "^resnet18 \\($name\\), images_per_s: 40 points"
done
# A change for the worse fails with --fail-on until it is taken back, or is older than --last points.
expect 3 trend steps --fail-on worse
expect 0 trend steps --fail-on worse --threshold 20
expect 0 trend steps --fail-on worse --last 15
mkdir dip
sed '1,120!d' steps/history.jsonl >dip/history.jsonl
sed '1,60!d; s/"added_s":17/"added_s":18/; s/"started_s":[0-9]*/"started_s":null/' steps/history.jsonl >>dip/history.jsonl
expect 0 trend dip --fail-on worse --json -o dip.json
count 1 dip.json '"taken_back": true'
expect 0 trend dip
has out 'point 26 .*worse, taken back$'
has out 'better$'
# A new kernel makes a new series, unless it is allowed to differ.
mkdir kernel
sed '1,120!d; s/"config.batch_size":32/&,"host.kernel":"6.1"/; 76,$s/6\.1"/6.2"/' steps/history.jsonl >kernel/history.jsonl
expect 0 trend kernel --fail-on worse
count 2 out ' points? .* no change$'
expect 3 trend kernel --fail-on worse --allow-different host.kernel
has out '^resnet18, images_per_s: 40 points'
has out '^  2023-12-09  point 26   0100019 .*worse$'
# Lines in any order, or twice, as a merge of two files leaves them, give the same series.
expect 0 trend kernel --allow-different host
cp out sorted
mkdir merged
{ tail -60 kernel/history.jsonl && cat kernel/history.jsonl; } >merged/history.jsonl
expect 0 trend merged --allow-different host
cmp -s out sorted || fail "the order of lines changes the series: $(<out)"
has err "^ampscale: 'merged': the lines are not in order of time, and 60 repeat others: sorted"
# A last line that lacks only its newline counts, and is kept; a line that was cut off is not.
mkdir ends
head -c -1 kernel/history.jsonl >ends/history.jsonl
expect 0 trend ends --allow-different host
cmp -s out sorted || fail "a complete last line without newline is lost: $(<out)"
expect 0 compare --record ends base
count 1 ends/history.jsonl '"started_s":1703369502,' # the complete line 120
[[ $(wc -l <ends/history.jsonl) == 129 ]] || fail "the history has $(wc -l <ends/history.jsonl) lines"
expect_error 2 "no history" trend
expect_error 2 "unknown metric" trend steps --metric speed
expect_error 5 "none of the requested metrics" trend steps --metric val_top1
echo '{}' >>steps/history.jsonl
expect_error 5 "line 241: not an entry of a history" trend steps

# --- export and watch ----------------------------------------------------------------------------
expect 0 export $nd --format csv -o tables
[[ $(<out) == $'tables/steps.csv\ntables/epochs.csv\ntables/ranks.csv\ntables/telemetry.csv' ]] || fail "export printed: $(<out)"
[[ $(wc -l <tables/steps.csv) == 5 ]] || fail "steps.csv does not have the lines of the record"
expect 0 export "=cmd()" --format csv -o formula # no name is a formula of a spreadsheet
lacks formula/steps.csv '^='
has formula/steps.csv "^'=cmd\(\),"
touch exported.prom.ampscale-tmp.0123456789abcdef # of a killed export
expect 0 export $nd --format prometheus -o exported.prom
! command -v python3 >/dev/null || python3 - $nd <<'END' || fail "the time of the last record: $(grep timestamp exported.prom)"
import json, re, sys
last = float(re.search(r'^ampscale_last_record_timestamp_seconds\S* (\S+)', open("exported.prom").read(), re.M)[1])
rows = [json.loads(i) for name in ("steps", "epochs") for i in open(f"{sys.argv[1]}/{name}.jsonl")]
end = json.load(open(sys.argv[1] + "/run.json"))["started_s"] + max(i.get("elapsed", 0) for i in rows)
sys.exit(abs(last - end) > 0.01)
END
[[ $(echo exported.prom*) == exported.prom ]] || fail "temporary files remain: $(echo exported.prom*)"
has exported.prom "^ampscale_run_finished\\{run=\"$nd\"\\} 1\$"
# Runs of the same name have labels of their own; a name is given to one run.
expect 0 export $nd $dp --format prometheus -o both.prom
for run in $nd $dp; do
    has both.prom "^ampscale_run_finished\\{run=\"$run\"\\} 1\$"
done
[[ $(grep -v '^#' both.prom | sed 's/ .*//' | sort | uniq -d) == '' ]] || fail "two samples have the same labels"
expect 0 export $nd --format prometheus --run-name nightly -o named.prom
has named.prom '^ampscale_run_finished\{run="nightly"\} 1$'
expect 0 export $dp --format tensorboard --run-name nightly -o named
ls named/nightly/events.out.* >/dev/null || fail "no event file of the run's name"
[[ ! -s err ]] || fail "a first export warns: $(<err)"
cp -r $nd last_year
sed -i -E 's/"started_s": [0-9.]+/"started_s": 1706702400/' last_year/run.json
expect 0 export last_year --format tensorboard --run-name nightly -o named
one_line "an export beside another run's" "warning: 'named/nightly' has event files of another run or export, "
expect 0 export $dp --format csv --run-name nightly -o named
has named/steps.csv '^nightly,'
! command -v python3 >/dev/null || python3 - $dp <<'END' || fail "the tables have values that were not measured: $(head -n 2 named/epochs.csv)"
import csv, json, sys
for name in ("epochs",):
    rows = [json.loads(i) for i in open(f"{sys.argv[1]}/{name}.jsonl")]
    for row, line in zip([i for i in rows if "event" not in i], csv.DictReader(open(f"named/{name}.csv"))):
        for key, cell in line.items():
            assert key == "run" or key in row or cell == "" or cell == "0" and key not in ("energy_j", "joules_per_image", "loss_scale"), (name, key, cell)
END
expect_error 2 "--run-name names only one run, but 2 were given" export $nd $dp --format csv --run-name nightly -o x
expect_error 2 "no run to export" export
expect_error 2 "no format" export $nd -o x
expect_error 2 "no place to export to" export $nd --format csv
expect_error 2 "have the same name" export $nd $dp --format csv -o x
expect_error 2 "only one run" export $nd "=cmd()" --format mlperf -o x
expect_error 5 "there is no such folder" export s/none --format csv -o x
expect_error 1 "cannot write" export $nd --format prometheus -o no/such/folder.prom
[[ ! -e x ]] || fail "a refused export wrote a file"

expect 0 watch $nd --once --ascii
has out '^ended: steps, after 4 steps in '
lacks out '[^ -~]'
has <(LC_ALL=C.UTF-8 "$program" watch $nd --once) '[▁▂▃▄▅▆▇█]'
has $nd/outcome.json '"outcome": "done"'
expect_error 2 "nothing to watch" watch
expect_error 5 "it has no run.json" watch . --once
# --- accept --------------------------------------------------------------------------------------
# spec CHECKS: prints a spec. memory NAME LIMITS: prints a check that takes a moment.
spec() {
    printf '{"schema": 1, "name": "made", "about": "a test", "device": "cpu", "hardware": ["*"], "checks": [%s]}\n' "$1"
}
memory() {
    printf '{"name": "%s", "kind": "memory", "level": 1, "seconds": 1, "limit_s": 60, "args": {"max_mib": 4, "iters": 3, "threads": 1}, "limits": {%s}}' "$1" "$2"
}
facts() {
    printf '{"name": "%s", "kind": "facts", "level": 1, "seconds": 1, "limit_s": 60, "limits": {%s}}' "$1" "$2"
}
right='"cores": {"min": 1}'

# Built-in specs can be listed, printed and planned without their hardware.
expect 0 accept --list
for name in cpu h200 h100 a100 v100 bring-up bring-up-quick; do
    has out "^$name "
done
expect 0 accept --spec h200 --print
cp out printed.json
expect 0 accept --spec ./printed.json --dry-run --level 4 --hours 16
has out 'train-amp.7 .*level 2'
has out '--devices cuda:7'
has out 'about 1[67]\.[0-9] h'
expect 0 accept --spec h200 --dry-run --gpus 2 --level 1
lacks out 'cuda:2'
# On a GPU, bring-up takes three passes: two calls of five and seven minutes, and the rest.
most=(0 300 420 560)
for pass in 1 2 3; do
    expect 0 accept --spec bring-up --pass $pass --dry-run --device cpu
    sum=$(sed -nE '$s/^[0-9]+ checks, about ([0-9]+) s$/\1/p' out)
    ((sum > 0 && sum <= most[pass])) || fail "the planned time of pass $pass is $(tail -n 1 out)"
    cut -d' ' -f1 out | grep -vE '^$|^[0-9]' >>names
done
expect 0 accept --spec bring-up --dry-run
[[ $(sort -u names | wc -l) == $(grep -c level out) ]] || fail "the three passes together do not have all checks of bring-up"
expect_error 2 "give --spec" accept
expect_error 2 "give --out DIR" accept --spec cpu
expect_error 2 "is not built in" accept --spec ./printed.json --print
expect_error 2 "no check 'speed' in 'cpu'; its checks are selftest, same-bits" accept --spec cpu --only speed --out x
expect_error 2 "'cpu' has no burn-in check up to level 2" accept --spec cpu --out x --hours 1
expect_error 5 "cannot open './none.json'" accept --spec ./none.json --out x

# All checks pass. A warning passes, except with --strict. A metric that was not measured is missing.
spec "$(facts a "$right"', "speed": {"min": 1, "absent": "skip"}, "memory_gib": {"fleet_within": 5}')" >good.json
expect 0 accept --spec ./good.json --out good
has out '^accepted: checks: 2 passed, .*; metrics with a limit: .* 2 skipped, 0 missing$'
for file in out good/accept.md; do
    has $file '1 metric needs a fleet baseline and was not judged here; .* correctness and reproducibility only, no speed'
done
lacks out 'judged only by comparison' # the line above says it once
expect_error 2 "--resume continues them" accept --spec ./good.json --out good
spec "$(facts a '"cores": {"warn_min": 1e9}')" >warn.json
expect 0 accept --spec ./warn.json --out warn
expect 4 accept --spec ./warn.json --out strict --strict
spec "$(memory a '"speed": {"min": 1}')" >missing.json
expect 5 accept --spec ./missing.json --out missing
has out '^incomplete: '
spec "$(facts a "$right")" | sed 's/"device": "cpu"/"device": "cuda:63"/' >absent.json
expect 5 accept --spec ./absent.json --out absent
has out "^MISSING hardware.*: no device 'cuda:63': "
has out '^MISSING a: not run'
expect_error 2 "are of a spec that differs from" accept --spec ./absent.json --device cpu --out absent --resume

# A run that takes too long fails, and so does a metric below its limit. The later checks are measured
# nevertheless. The losses of repeated runs have the same bits.
long='{"name": "long", "kind": "train", "level": 1, "seconds": 1, "limit_s": 1, "args": {"arch": "resnet8", "image_size": 32, "batch": 8, "classes": 10, "steps": 100000000, "threads": 1}, "limits": {}}'
bits=$(sed 's/"long"/"bits"/; s/"limit_s": 1/"limit_s": 60, "repeats": 2/; s/100000000/4/; s/{}}$/{"loss_bits": {"same": true}}}/' <<<"$long")
spec "$(facts a '"cores": {"min": 1e9}'),$long,$bits" >fail.json
expect 4 accept --spec ./fail.json --out fail --level 2
has out '(FAIL|MISSING) *long, .*not done within the limit of 1 s' # MISSING on a busy machine
has out 'is below 1e\+09'
has out 'PASS *loss_bits'
has <(tr -d '\n' <fail/accept.md) 'ampscale train --dummy'
for dir in good fail missing; do
    for file in accept.json accept.md accept.html accept.xml spec.json; do
        [[ -s $dir/$file ]] || fail "no $dir/$file"
    done
done

# A spec is made from the results of good hardware.
expect 0 accept --make-spec good
has err 'a.cores: .*twice as wide'
has out '"baseline"'
cp out made.json
expect 0 accept --spec ./made.json --dry-run
expect_error 2 "are of different specs" accept --make-spec good warn
cp -r good doubled
expect_error 5 "'doubled' holds results of a node '" accept --make-spec good doubled
sed -i -E 's/^( *"device": )"[^"]*"/\1"another"/; s/^( *"node": )"[^"]*"/\1"other"/' doubled/accept.json
expect_error 5 "'doubled' was measured on 'another', others on '" accept --make-spec good doubled
expect_error 5 "holds no results" accept --make-spec good "$TMPDIR"

# fleet FILE RATE...: writes results of nodes n0, n1 ... with these rates; 'null' means no value.
fleet() {
    local file=$1 rate i=0
    for rate in "${@:2}"; do
        echo "{\"node\": \"n$((i++))\", \"hardware\": \"<x> & | 'z'\", \"train/return_code\": 0, \"train/images_per_s\": $rate}"
    done >"$file"
}
fleet slow.jsonl 100 101 70 null 100
printf 'n0\nn1 slots=8\nn2\nn3\nn4\naway\n' >expected
expect 4 accept --node-list slow.jsonl --expect expected --out judged
[[ $(xargs <judged/good.txt) == 'n0 n1 n4' && $(<judged/failed.txt) == n2 && $(xargs <judged/missing.txt) == 'n3 away' ]] ||
    fail "the lists of nodes: $(head judged/*.txt)"
has out 'FAIL train/images_per_s: 30.0 % worse than the median of 4 nodes \(100\)'
has out 'MISSING train/images_per_s: not measured here; 4 of 5 nodes have a value'
has out 'MISSING no results of this node were found'
has out '^FAILED: 6 nodes: 3 passed'
! command -v xmllint >/dev/null || xmllint --noout --schema "$source_dir/tests/accept/junit.xsd" judged/fleet.xml 2>err ||
    fail "fleet.xml is not JUnit's: $(<err)"
expect 4 accept --node-list judged/results-summary.jsonl # the written results give the same verdicts
fleet warning.jsonl 100 94 100 100
expect 0 accept --node-list warning.jsonl
expect 4 accept --node-list warning.jsonl --strict
expect 4 accept --node-list warning.jsonl --within 5
fleet two.jsonl 100 100
expect 5 accept --node-list two.jsonl
expect_error 5 "node 'n0' occurs twice" accept --node-list two.jsonl two.jsonl
expect_error 5 "line 1" accept --node-list expected
expect_error 5 "no results of nodes in '$scratch/tables'" accept --node-list "$scratch/tables"
expect_error 5 "cannot open 'none'" accept --node-list two.jsonl --expect none
expect_error 2 "unexpected argument 'two.jsonl'" accept two.jsonl

# The results of made-up nodes: what other work the real machine had is removed from the record of a
# check, and five nodes get it. Other work on n3 took 63 % of the time; n4's record is cut off.
# others SHARE FILE: sets the share of other processes.
others() {
    sed -i -E 's/"(steal|others|throttled)": [0-9.e-]+/"\1": 0/; s/"seconds": [0-9.e-]+,/"seconds": 10,/; s/"disturbed": true/"disturbed": false/
        s/"verdict": "MISSING"/"verdict": "PASS"/; s/"others": 0/"others": '"$1"'/' "$2/accept.json"
}
spec "$(memory fast '"copy": {"fleet_within": 5}, "wrong": {"max": 0}')" >fast.json
run accept --spec ./fast.json --out n1 --name one
has n1/accept.json '"node": "one"'
others 0.01 n1
for i in 2 3 4 5; do
    cp -r n1 n$i
done
expect_error 5 "'n1' and 'n2' are both results of a node 'one'; give the folder that holds them, to use the folders' names, or measure with --name" accept --node-list n1 n2 n5
others 0.63 n3
perl -0pi -e 's/("name": "copy",.*?"values": \[\s*)[0-9.e+-]+/${1}0.001/s' n3/accept.json
truncate -s 300 n4/accept.json
sed -i -E 's/"version": "[^"]*"/"version": "0.0.9"/' n5/accept.json
mkdir all
mv n? all
expect 5 accept --node-list all --out fleet
has out '^  fast/copy +3 '
has out "^    MISSING fast/copy: check 'fast' was disturbed: 63.0 % of the processors' time went to other processes; repeat on an idle node$"
has err "^ampscale: node 'all/n4' is skipped: its results cannot be read: .*accept.json"
has out '^    MISSING its results cannot be read: '
has out "^remark: 'n5' was measured by ampscale 0\.0\.9, other nodes by [0-9]"
has out "^remark: 'n1' and 'n2' were measured on hosts named 'one': ranks on one host share its hardware; --name names"
[[ $(xargs <fleet/good.txt) == 'n1 n2 n5' && $(xargs <fleet/missing.txt) == 'n3 n4' ]] || fail "the lists: $(head fleet/*.txt)"
for file in fleet/fleet.md fleet/fleet.json fleet/fleet.html; do
    has $file 'was measured by ampscale 0.0.9'
    has $file 'was disturbed: 63.0 %'
done
expect_error 5 "'all/n3' makes no limits: check 'fast' was disturbed: 63.0 % of the processors' time went to other processes; repeat on an idle node" accept --make-spec all/n1 all/n3
expect 0 report all/n3 -o n3.md --no-figures
has n3.md 'disturbed: 63.0 % of the processors'
expect_error 2 "--name 'a/b': give letters" accept --spec ./fast.json --name a/b --out y
expect_error 2 "give --failing" pair
expect_error 2 "must run as the ranks of a job" accept pair --failing n1
[[ ! -e x ]] || fail "a refused suite made its folder"
finish
