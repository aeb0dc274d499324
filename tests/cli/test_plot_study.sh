#!/usr/bin/env bash
# `ampscale plot` and `ampscale predict` on a study: the figures of the study and of its runs, and a
# forecast.
. "$(dirname "$0")/common.sh" "$@"
cd "$scratch" || exit 1
hal=$source_dir/results/published/hal_v100.csv

cat >study.json <<END
{"schema": 1, "name": "tiny", "about": "for a test", "modes": {"nd": [1], "dp": [2]},
 "precisions": ["fp32"], "archs": ["resnet8"], "batch": {"weak": [4]},
 "data": [{"name": "dummy", "classes": 3, "train": 64, "val": 4}],
 "image_size": 32, "threads": 1, "workers": 1, "repeats": 1, "warmup_steps": 1,
 "measured_steps": 3, "limit_s": 60, "train": ["--lr", "0.05"]}
END
expect 0 study study.json --out s

expect 0 predict s/analysis.json --network 20,1 --ranks 4,8
grep -q '^tiny: dp fp32 resnet8 dummy weak$' out || fail "the output does not name the series: $(head -n 1 out)"
[[ $(grep -c ' calibration point$\| held out$' out) == 2 ]] || fail "the forecast does not have two measured points: $(cat out)"
expect_error 2 "give a whole number from 1 to 1" predict s/analysis.json:x --network 20,1

if command -v gnuplot >/dev/null; then
    # A study writes its figures in every format.
    for format in png svg pdf; do
        [[ -s s/figures/efficiency.$format ]] || fail "the study has no efficiency.$format: $(ls s/figures)"
    done
    # Width and height of a figure: in pixels in the header of a PNG, in points (1/72 inch) in a
    # PDF.
    expect 0 plot s --width 3.5 --dpi 200 --out small
    pixels=$(od -An -tu1 -j18 -N2 small/efficiency.png | awk '{print 256 * $1 + $2}')
    [[ $pixels == 700 ]] || fail "a picture of 3.5 inches at 200 dpi is $pixels pixels wide, not 700"
    grep -aq 'MediaBox \[ 0 0 252 ' small/efficiency.pdf || fail "a PDF of 3.5 inches has $(grep -a MediaBox small/efficiency.pdf)"
    expect 0 report s -o small.md --width 2 --dpi 50
    [[ $(od -An -tu1 -j18 -N2 s/figures/efficiency.png) =~ ^\ *0\ +100$ ]] || fail "the figures of a report do not have the requested width"
    expect 0 plot s --format svg --published "$hal:may" --published "$hal:feb"
    for name in training_throughput training_time efficiency scaling_weak accuracy cell_split loss split; do
        grep -qxF "s/plots/$name.svg" out || fail "plot did not draw figure '$name': $(cat out)"
    done
    grep -q '>published: feb V100-16<' s/plots/efficiency.svg || fail "the figure has no published values"
    grep -qxF "panel_title[2] = 'published: may V100-16, resnet50 amp'" s/plots/data/training_time.gp ||
        fail "a published series of another network has no panel of its own"
    grep -q '>dp-fp32-resnet8-dummy' s/plots/split.svg || fail "the names of the cells' runs are missing"
    grep -q '^scaling_strong: skipped' err || fail "the output does not say that strong scaling is left out: $(cat err)"
    # Sixteen series in four groups, one for each precision and kind of data. Each group has its own
    # figures.
    mkdir -p q/cells q/plots
    cp "$source_dir/results/recorded/cpu-avx512-2-threads/study-quick/analysis.json" q/
    : >q/plots/loss.svg
    for cell in {dp,ddp}-{fp32,O1}-resnet8-{synthetic,jpeg}-{weak,strong}-2x32; do
        mkdir "q/cells/$cell" && cp -r s/cells/dp-*/r1 "q/cells/$cell/r1"
    done
    expect 0 plot q --format svg
    for group in {fp32,O1}-{synthetic,jpeg}; do
        [[ $(grep -c '^legend\[' "q/plots/$group/data/loss.gp") == 4 ]] || fail "not four runs of $group"
    done
    grep -q '>fp32, jpeg – Loss<' q/plots/fp32-jpeg/loss.svg || fail "the title does not name the group"
    for name in training_throughput training_time efficiency scaling_weak scaling_strong; do
        grep -qxF "panel_title[1] = 'fp32, synthetic'" "q/plots/data/$name.gp" &&
            grep -qxF "legend[2] = 'dp strong'" "q/plots/data/$name.gp" ||
            fail "$name does not have the panels and colours of the other figures"
    done
    # A run has the same colour and line as its series in every figure. If a report draws runs of
    # two folders, the runs have different colours.
    for script in q/plots/data/training_throughput.gp q/plots/{fp32-jpeg,O1-synthetic}/data/loss.gp; do
        grep -qx 'look\[2\] = 2' "$script" || fail "in $script, 'dp strong' has another colour"
    done
    mkdir -p two/here/a two/here/b
    cp -r s/cells/nd-*/r1 two/here/a/one
    cp -r s/cells/dp-*/r1 two/here/b/two
    expect 0 report two -o two.md
    grep -qx 'look\[1\] = 1' two/here/a/figures/data/loss.gp && grep -qx 'look\[1\] = 2' two/here/b/figures/data/loss.gp ||
        fail "two runs of a report have the same colour"
    grep -qi "#d55e00\|213, *94, *0" two/here/b/figures/loss.svg || fail "the second run of a report is not drawn in the second colour"
    ls two/here/a/figures/throughput.* >out 2>&1 && fail "a picture that the report does not show remains: $(cat out)"
    [[ ! -e q/plots/loss.svg ]] || fail "a figure of all sixteen runs remains"
    expect 0 plot "$hal" --format svg
    for name in training_throughput training_time efficiency accuracy; do
        grep -qxF "hal_v100-plots/$name.svg" out || fail "the published study alone has no figure '$name': $(cat out)"
    done
    expect 0 plot "$hal" --format pdf,svg --out papers
    [[ $(tail -c 6 papers/efficiency.pdf) == %%EOF && -s papers/efficiency.svg && ! -e papers/efficiency.png ]] ||
        fail "the figures do not have the requested formats: $(ls papers)"
    cp s/analysis.json .
    expect 0 plot analysis.json --format svg --out alone
    [[ -s alone/training_time.svg && ! -e alone/loss.svg ]] || fail "plot of analysis.json alone drew no training_time.svg, or drew figures of runs: $(ls alone)"
fi
for words in "plot s" "report s -o x" "trend s" "predict s/analysis.json" "amp-report s" "study study.json --out t"; do
    read -ra command <<<"$words"
    expect_error 2 "--width 64 at --dpi 200 makes a picture 12800 pixels wide, but the limit is 6400 pixels" "${command[@]}" --width 64 --dpi 200
done
[[ ! -e t && ! -e x ]] || fail "a picture that is too wide was refused after work had begun"
expect_error 2 "needs a folder for its figure" plot s/analysis.json
expect_error 2 "is not a study" plot s/cells --published "$hal:may"
expect_error 2 "give FILE:SERIES" plot s --published may
expect_error 2 "known: feb, may" plot s --published "$hal:june"
expect_error 2 "one at a time" plot s s --out x
finish
