#!/usr/bin/env bash
# Types the commands of README.md and docs/tutorial.md, each page in its order, in a folder as
# scripts/quickstart leaves it, with smaller data. A command that is not listed here, or is listed but not
# on the page, is a failure. The figures of both pages are those that the committed records give.
. "$(dirname "$0")/common.sh" "$@"
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# Each line: the exit statuses that are right, the command, and the flags that make it short. "-": not
# typed here, because it builds the program.
readme='
- scripts/quickstart
- scripts/test
0 ampscale study docs/first-study.json --out runs/scaling
0 ampscale plot results/published/hal_v100.csv --out runs/published
0 ampscale accept --spec cpu --out runs/node => --level 1 --only selftest
0 scripts/interleave build/release/cli/ampscale build/release/cli/ampscale runs/gate
0|3|5 ampscale compare runs/gate/base runs/gate/new
0 ampscale train data/synth10 --opt-level O1 -a resnet18 --image-size 64 -b 64 --epochs 2 --out runs/O1 => --epochs 1 --image-size 32
0 ampscale plot runs/first runs/O1 --out runs/compared
'
tutorial='
- scripts/quickstart
0 PATH=$PWD/build/release/cli:$PATH
0 ampscale info
0 ampscale watch --once runs/first
0 ampscale study docs/first-study.json --out runs/scaling --dry-run
0 ampscale study docs/first-study.json --out runs/scaling
0 ampscale train data/synth10 -a resnet18 --image-size 64 -b 64 --epochs 12 --lr 0.02 --lr-schedule cosine --warmup-epochs 1 --opt-level O1 --out runs/first-O1 => --epochs 1 --image-size 32
0 ampscale plot runs/first runs/first-O1 --out runs/compared
'

# prepare FOLDER: makes a folder as scripts/quickstart leaves it, and enters it.
prepare() {
    mkdir -p "$1/build/release/cli" "$1/docs" && cd "$1" || exit 1
    ln -s "$program" build/release/cli/ampscale
    ln -s "$source_dir/results" "$source_dir/scripts" .
    sed -E 's/"(repeats|warmup_steps)": [0-9]+/"\1": 1/; s/"measured_steps": [0-9]+/"measured_steps": 2/
            s/"(train|val)": [0-9]+/"\1": 4/g; s/resnet18/resnet8/; s/\[32\]/[2]/' \
        "$source_dir/docs/first-study.json" >docs/first-study.json
    expect 0 data synth --out data/synth10 --classes 2 --train 32 --val 4 --size 40 -q
    expect 0 train data/synth10 -a resnet8 --image-size 32 -b 8 --epochs 1 -q --out runs/first
}

# commands PAGE: prints the commands in the page's blocks of shell code, without comments.
commands() {
    awk '/^```sh$/ { on = 1; next } /^```/ { on = 0 } on { sub(/ +#.*/, ""); if ($0 != "") print }' "$1"
}

# type_page PAGE LIST FOLDER: types the commands of the page in a new folder.
type_page() {
    local want line flags code run=0
    prepare "$3"
    diff <(commands "$1") <(sed -E '/^$/d; s/^[^ ]+ //; s/ => .*//' <<<"$2") >"$scratch/diff" ||
        fail "$1 has other commands (<) than this test (>): $(<"$scratch/diff")"
    while read -r want line; do
        [[ -n $want && $want != - ]] || continue
        flags=${line#* => }
        [[ $flags != "$line" ]] || flags=
        code=0
        bash -c "${line%% => *} $flags" >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
        [[ "|$want|" == *"|$code|"* ]] || fail "$1: '$line' exited with $code: $(tail -n 3 "$scratch/err")"
        run=$((run + 1))
    done <<<"$2"
    echo "${1##*/}: $run commands"
}

PATH=$(dirname "$program"):$PATH
type_page "$source_dir/README.md" "$readme" "$scratch/readme"
type_page "$source_dir/docs/tutorial.md" "$tutorial" "$scratch/tutorial"

# What the pages promise is there.
cd "$scratch/tutorial" || exit 1
for file in runs/scaling/{RESULTS.md,RESULTS.html,analysis.json} runs/compared/{top1_val,loss_scale}.png; do
    [[ -s $file ]] || ! command -v gnuplot >/dev/null || fail "the tutorial does not leave '$file'"
done
diff <(sed -n '/^```json$/,/^```$/p' "$source_dir/docs/tutorial.md" | sed '1d; $d') "$source_dir/docs/first-study.json" ||
    fail "the tutorial shows another study than docs/first-study.json"

# The figures, if this gnuplot draws as the one that drew them.
cd "$source_dir" || exit 1
if command -v gnuplot >/dev/null; then
    scripts/figures "$program" "$scratch/figures" || fail "scripts/figures failed"
    made() { sed -n 's/.*Produced by \(GNUPLOT [^<]*\).*/\1/p' "$1"; }
    for file in docs/figures/*.svg; do
        [[ $(made "$file") == "$(made "$scratch/figures/${file##*/}")" ]] || continue
        cmp "$file" "$scratch/figures/${file##*/}" || fail "'$file' is not what the records give: scripts/figures draws it again"
    done
    diff <(ls docs/figures) <(ls "$scratch/figures") || fail "docs/figures has other files"
    for file in docs/figures/*.svg; do
        grep -q "figures/${file##*/}" README.md docs/tutorial.md || fail "no page shows '$file'"
    done
fi
finish
