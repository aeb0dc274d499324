#!/usr/bin/env bash
# Figures of many runs: groups, panels and colours, the size of pictures, and figures in a report.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
cd "$scratch" || exit 1
command -v gnuplot >/dev/null || skip "gnuplot is not installed"

# Sixteen series in four groups, one for each precision and kind of data. Each group has its own
# figures of runs. A run has the same colour as its series.
mkdir -p q/cells q/plots
cp "$source_dir/results/recorded/cpu-avx512-2-threads/study-quick/analysis.json" q/
: >q/plots/loss.svg
expect_train 0 --dummy --dummy-train 32 --dummy-val 2 --steps 4 -b 4 --out r
for cell in {dp,ddp}-{fp32,O1}-resnet8-{synthetic,jpeg}-{weak,strong}-2x32; do
    mkdir "q/cells/$cell" && cp -r r "q/cells/$cell/r1"
done
expect 0 plot q --format svg
for group in {fp32,O1}-{synthetic,jpeg}; do
    [[ $(grep -c '^legend\[' "q/plots/$group/data/loss.gp") == 4 ]] || fail "not four runs of $group"
    grep -qx 'look\[2\] = 2' "q/plots/$group/data/loss.gp" || fail "in $group, 'dp strong' has another colour"
done
grep -q '>fp32, jpeg – Loss<' q/plots/fp32-jpeg/loss.svg || fail "the title does not name the group"
for name in training_throughput training_time efficiency scaling_weak scaling_strong; do
    grep -qxF "panel_title[1] = 'fp32, synthetic'" "q/plots/data/$name.gp" &&
        grep -qxF "legend[2] = 'dp strong'" "q/plots/data/$name.gp" || fail "$name has other panels or colours"
done
# A text cannot make a picture that is no XML.
expect 0 plot r --format svg --title 'a ]]> b' --out xml
if grep -qF ']]>' xml/loss.svg || ! grep -qF 'a ]]&gt; b' xml/loss.svg; then fail "']]>' in a title: $(grep -F ']]' xml/loss.svg)"; fi
for title in "'tis done" "5'' disks" "'one' and 'two'"; do
    expect 0 plot r --format svg --title "$title" --out quoted
    grep -qF ">$title – Loss<" < <(sed "s/&apos;\|&#39;/'/g" quoted/loss.svg) || fail "the picture does not have the title $title: $(grep -F Loss quoted/loss.svg)"
done
[[ ! -e q/plots/loss.svg ]] || fail "a figure of all sixteen runs remains"

# Numbers that no run can measure, and whose sums or multiples overflow: one line names them.
cp -r r huge
sed -i 's/"forward_s":[^,]*/"forward_s":1e308/' huge/steps.jsonl
expect_error 5 "'huge/steps.jsonl' line 1: 'forward_s' is out of range" plot huge --format svg --out none
mkdir hq && sed 's/"comm_s": [^,]*/"comm_s": 1e308/' q/analysis.json >hq/analysis.json
expect_error 5 "'comm_s'" plot hq --format svg --out none

# Runs of two folders have different colours in a report, which removes pictures that it does not show.
mkdir -p two/here/a two/here/b
cp -r r two/here/a/one
cp -r r two/here/b/two
expect 0 report two -o two.md
grep -qx 'look\[1\] = 1' two/here/a/figures/data/loss.gp && grep -qx 'look\[1\] = 2' two/here/b/figures/data/loss.gp ||
    fail "two runs of a report have the same colour"
! ls two/here/a/figures/throughput.* >out 2>&1 || fail "a picture that the report does not show remains: $(<out)"

# The records of a report elsewhere may be another user's: their figures are next to the report, and not
# among the records, also if the report cannot be written.
mkdir elsewhere
find two >before
expect_error 1 "cannot write 'absent/R.md'" report two -o absent/R.md
expect 0 report two/here/a/one -o elsewhere/R.md
find two | diff before - >out || fail "a report elsewhere left files among the records: $(<out)"
[[ -e elsewhere/R.md-figures/1-one/loss.png ]] && grep -qxF '![Loss of training and validation](<R.md-figures/1-one/loss.svg>)' elsewhere/R.md ||
    fail "a report elsewhere: $(find elsewhere) $(grep '^!' elsewhere/R.md)"
# A link at the name of an unfinished picture is not followed.
echo precious >precious && ln -s "$PWD/precious" elsewhere/.draft-loss.svg
expect 0 plot r --format svg --out elsewhere
[[ $(<precious) == precious && -f elsewhere/loss.svg && ! -L elsewhere/loss.svg ]] || fail "a figure was drawn through a link"

# Width and height of a figure: in pixels in the header of a PNG, in points (1/72 inch) in a PDF.
hal=$source_dir/results/published/hal_v100.csv
expect 0 plot "$hal" --format png,pdf --width 3.5 --dpi 200 --out small
pixels=$(od -An -tu1 -j18 -N2 small/efficiency.png | awk '{print 256 * $1 + $2}')
[[ $pixels == 700 ]] || fail "a picture of 3.5 inches at 200 dpi is $pixels pixels wide, not 700"
grep -aq 'MediaBox \[ 0 0 252 ' small/efficiency.pdf || fail "a PDF of 3.5 inches has $(grep -a MediaBox small/efficiency.pdf)"
[[ ! -e small/efficiency.svg ]] || fail "a format that was not requested is written"

# With --large-text the same letters stand on a canvas half as wide. An SVG suits dark displays too.
expect 0 plot "$hal" --format svg --out wide
expect 0 plot "$hal" --format svg --large-text --out half
for name in training_throughput efficiency; do
    grep -q 'viewBox="0 0 1600 ' "wide/$name.svg" && grep -q 'viewBox="0 0 800 ' "half/$name.svg" || fail "$name is not half as wide"
    sizes=$(grep -oh 'font-size="26.00"' "wide/$name.svg" "half/$name.svg" | sort | uniq | wc -l)
    [[ $sizes == 1 ]] || fail "$name: the ticks of both have other letters"
    grep -q 'prefers-color-scheme: dark' "half/$name.svg" || fail "$name has no colours for dark displays"
done
finish
