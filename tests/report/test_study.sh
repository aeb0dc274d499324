#!/usr/bin/env bash
# What the report of a study says to a reader who has a minute: the main result first, how far it can
# be trusted, and no more digits than that.
. "$(dirname "$0")/../cli/common.sh" "$@"
cd "$scratch" || exit 1

# has FILE PATTERN: checks that a line of the file matches the extended regular expression.
has() {
    grep -qE -- "$2" "$1" || fail "$1 has no '$2': $(head -c 3000 "$1")"
}

lacks() {
    ! grep -qE -- "$2" "$1" || fail "$1 has '$2': $(grep -E -- "$2" "$1" | head -n 3)"
}

# cell NAME MODE PRECISION DATA DEVICES BATCH RATE BASE VERDICT [MEMBERS]: prints a cell. Its runs have
# 99, 100 and 102 % of the throughput RATE; the first cell of its series has the throughput BASE.
cell() {
    local real=false
    [[ $4 == jpeg ]] && real=true
    awk -v rate="$7" -v base="$8" -v devices="$5" -v head="$(printf '{"name": "%s", "mode": "%s", "precision": "%s", "arch": "resnet8", "data": "%s", "real": %s, "devices": %s, "ranks": %s, "batch": %s, "verdict": "%s"%s' \
        "$1" "$2" "$3" "$4" $real "$5" "$5" "$6" "$9" "${10-}")" 'BEGIN {
        printf "%s, \"top1\": 61.5, \"top5\": 90, \"speedup\": %.9g, \"speedup_wall\": %.9g, \"efficiency\": %.9g, \"efficiency_wall\": %.9g, ", head, rate / base, rate / base, rate / base / devices, rate / base / devices
        three = sprintf("{\"median\": %.9g, \"low\": %.9g, \"high\": %.9g, \"n\": 3, \"values\": [%.9g, %.9g, %.9g]}", rate, 0.99 * rate, 1.02 * rate, rate, 0.99 * rate, 1.02 * rate)
        printf "\"comm_busy_s\": 0, \"behind\": null, \"images_per_s\": %s, \"wall_images_per_s\": %s, \"seconds\": %s, \"scaling\": \"weak\", ", three, three, three
        printf "\"split\": {\"data_s\": 0, \"h2d_s\": 0, \"forward_s\": 0.01, \"backward_s\": 0.02, \"comm_s\": 0, \"optimizer_s\": 0, \"other_s\": 0}, \"slowest_rank\": null, \"evidence\": [\"the reason\"], \"missing\": null}"
    }'
}

# study MEASURED [NOISE]: writes the record st/analysis.json of a study of two data sets, three modes
# and two precisions. MEASURED and NOISE are members of the study and of the cells.
study() {
    local noise=${2-}
    mkdir -p st
    {
        printf '{"study": "st", "about": "for a test", "command": "ampscale study st.json --out st", "schema": 1, %s' "$1"
        printf '"machine": {"device": "a processor, oneDNN", "host": {"hostname": "node7", "cpu": {"model": "a processor", "cores": 8}}},'
        printf '"thresholds": {"loader_loss": 0.1, "data_share": 0.1, "comm_loss": 0.1, "comm_share": 0.1, "behind": 0.1, "compute_share": 0.5, "noise": 0.2}, "cells": ['
        cell nd-fp32 nd fp32 synthetic 1 32 1000 1000 compute-bound "$noise" && echo ,
        cell dp-fp32-8 dp fp32 synthetic 8 256 7900 1000 compute-bound "$noise" && echo ,
        cell ddp-fp32-2 ddp fp32 synthetic 2 64 1960 1000 compute-bound "$noise" && echo ,
        cell ddp-fp32-4 ddp fp32 synthetic 4 128 3613.7 1000 compute-bound "$noise" && echo ,
        cell ddp-amp-4 ddp amp synthetic 4 128 2800 800 compute-bound "$noise, \"emulated\": true" && echo ,
        cell nd-amp nd amp synthetic 1 32 800 800 compute-bound "$noise, \"emulated\": true" && echo ,
        cell nd-fp32-jpeg nd fp32 jpeg 1 32 990 990 compute-bound "$noise" && echo ,
        cell ddp-fp32-4-jpeg ddp fp32 jpeg 4 128 2500 990 loader-bound "$noise"
        printf '], "series": [["nd-fp32", "dp-fp32-8"], ["nd-fp32", "ddp-fp32-2", "ddp-fp32-4"], ["nd-amp", "ddp-amp-4"], ["nd-fp32-jpeg", "ddp-fp32-4-jpeg"]]}\n'
    } >st/analysis.json
    expect 0 report st --no-figures -o st.md --html st.html
}

measured='"measured": {"from": "2026-11-21T11:02:50Z", "to": "2026-11-21T11:15:01Z", "runs": 24, "recorded": 24, "disturbed": 0, "too_short": 0, "others": 0.02},'
quiet=', "noise": {"runs": 3, "recorded": 3, "disturbed": 0, "too_short": 0, "others": 0.01}'
mkdir -p st/figures
for name in training_throughput efficiency accuracy; do
    echo "<svg></svg>" >st/figures/$name.svg
done
study "$measured" "$quiet"

# "What came out?" The headline is the DDP series in fp32 with the most devices, on synthetic and on
# real data, although DataParallel had more devices.
headline=$(grep -m1 '^\*\*' st.md)
[[ $headline == '**4 devices: 3.61x the throughput of one (efficiency 90.3 %, 95 % interval 87.7 to 93.1 %), ddp fp32 resnet8 on synthetic: compute-bound. On jpeg: 2.53x (63.1 %, 61.3 to 65.0 %), loader-bound.**' ]] ||
    fail "the headline is: $headline"
# "Can I trust it?" One line has date, host and disturbances. The figure and this line precede every
# table but that of the machine, which is folded.
has st.md '^Quality of the data: \*\*good\*\*\. 2026-11-21 11:02 to 11:15 UTC, host node7 \(a processor, 8 cores\)\. 24 runs: 0 disturbed by other work\. Widest interval of images/s: 3 % of the median\.$'
has st.html '<strong class="verdict good">good</strong>'
order=$(awk '/^<details>/ { folded = 1 } /^<\/details>/ { folded = 0 } folded { next }
    /^\*\*/ { print "headline" } /^!/ { print "figure" } /^Quality/ { print "quality" } /^\|---/ { print "table" } /^- / { bullets++ }
    END { print (bullets <= 6 ? "few" : bullets) }' st.md | tr '\n' ' ')
[[ $order == 'headline figure quality table table few ' ]] || fail "outside of folds the report has: $order"
# "And the rest?" It is folded, and still there.
for title in '2 more figures' 'Evidence for each verdict' 'By wall clock, and more columns' 'Parts of a step' Terms; do
    has st.md "^<summary>$title</summary>$"
    has st.html "<summary>$title</summary>"
    has st.html "<a href=\"#[^\"]*\">$title</a>"
done
has st.md '^\| cell \| devices \| images/s \| speed-up \| efficiency % \| verdict \|$'
has st.md '^\| ddp-fp32-4 \| 4 \| 3610 \(3580 to 3690\) \| 3.61 \(3.51 to 3.72\) \| 90.3 \(87.7 to 93.1\) \| compute-bound \|$'
has st.md '^\| ddp amp \(emulated\), 4 devices \| .*3\.50x'
has st.md '^\| nd-amp \(emulated\) \| 1 \| 800 '
has st.md '^- amp \(emulated\): images/s relative to fp32 on one device: 0.80x \(95 % interval 0.78 to 0.82x\); emulated: the speed is not the type.s\.$'
has st.md '^- loader-bound: 1 of 8 cells \(ddp; fp32; jpeg; 4 devices\). Lost against the same cells on synthetic data: 31 % \('
# An efficiency by wall clock has its interval, too. Random tensors have no top-1.
has st.md '^\| ddp-fp32-4 \| 128 \| 3 \| 3610 .* \| 3.61 \(3.51 to 3.72\) \| 90.3 \(87.7 to 93.1\) \| – \|$'
has st.md '^- jpeg: top-1 .* the cells cannot be told apart\.$'
lacks st.md '^- synthetic: top-1'
has st.html '<figcaption>Images/s against devices</figcaption>'

# A record of an earlier version does not say when it was made, and counts as fair at best.
study ''
has st.md '^Quality of the data: \*\*fair\*\*\. Date not recorded, host node7 .* 24 runs: disturbances by other work are not recorded'
# Disturbed runs, and busy machines.
study "${measured/\"disturbed\": 0/\"disturbed\": 6}" "$quiet"
has st.md '^Quality of the data: \*\*poor\*\*.* 6 disturbed by other work'
has st.md '^\*\*The data are poor, see their quality\. 4 devices: '
study "${measured/0.02/0.84}" "${quiet/0.01/0.84}"
has st.md '\*\*poor\*\*.* other processes took up to 84 % of the processors. time'
# Each number of a cell is marked if one of its runs was disturbed, and its verdict is no good news.
# An earlier version did not judge short runs; its record has their load.
study "${measured/\"disturbed\": 0/\"disturbed\": 8}" "${quiet/\"disturbed\": 0/\"disturbed\": 1}"
[[ $(grep -c '^| ddp-fp32-4 (disturbed) |' st.md) == 4 ]] || fail "not every table marks the disturbed cell: $(grep '^| ddp-fp32-4' st.md)"
lacks st.md '^\| ddp-fp32-4 \|'
has st.md '^\| ddp-fp32-4 \(disturbed\) .* \| compute-bound, 1 of 3 runs disturbed \|$'
has st.md '^- amp \(emulated\): .*; 0 of 1 pairs cannot be told apart, 1 were disturbed'
has st.html '<td class="verdict warn">compute-bound, 1 of 3 runs disturbed</td>'
lacks st.html '<td class="verdict good">'
study "$measured" "${quiet/0.01/0.84}"
has st.md '\| compute-bound, 2 of 3 runs disturbed \|$'
# Nor does a green mark follow a large loss that an earlier version judged as compute-bound.
study "$measured" "$quiet"
has st.html '<td class="verdict good">compute-bound</td>'
has st.html '<td class="verdict warn">compute-bound, 12 % lost</td>'
# Precisions whose intervals overlap are not ranked.
sed -i 's/800, 792, 816/1000, 792, 1816/' st/analysis.json
expect 0 report st --no-figures -o st.md
has st.md '^- amp \(emulated\): .*x\); 1 of 1 pairs cannot be told apart, 0 were disturbed; emulated'
# Contradicting numbers are refused.
study "$measured" "$quiet"
sed -i 's/"runs": 24/"runs": 2/' st/analysis.json
expect 5 report st --no-figures -o st.md
grep -q 'contradict' err || fail "the contradiction is not reported: $(cat err)"

# The same for runs of a folder.
mkdir -p rec/runs
cp -r "$source_dir"/results/recorded/cpu-avx512-2-threads/precision/fp32-seed[01] rec/runs
expect 0 report rec --no-figures -o rec.md
has rec.md '^\*\*Top-1 of resnet18: fp32 99\.[0-9]+ % \(mean of 2 seeds\)\.\*\*$'
has rec.md '^Quality of the data: \*\*fair\*\*\. 20[0-9-]* [0-9:]* to [0-9:]* UTC, host '
for seed in 0 1; do
    sed -i "s/\"schema\": 1,/&\"noise\": {\"disturbed\": $([[ $seed == 0 ]] && echo true || echo false), \"reason\": \"9 % stolen\", \"seconds\": 90},/" rec/runs/fp32-seed$seed/summary.json
done
expect 0 report rec --no-figures -o rec.md
has rec.md '\*\*poor\*\*.* 2 runs: 1 disturbed by other work'
finish
