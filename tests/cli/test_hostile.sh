#!/usr/bin/env bash
# Names of files and folders, arguments, and texts in records may contain escape sequences for a
# terminal, characters that reorder a line, formulas for a spreadsheet and commands for a shell:
# every command escapes them where it prints or writes them.
. "$(dirname "$0")/common.sh" "$@"
cd "$scratch" || exit 1

evil=$'=1+cmd\033]0;x\a\u202e\u009b;touch hit;$(touch hit)'
bad=$'\033|\a|\u202e|\u009b'
small=(--dummy --dummy-train 16 --dummy-val 4 --classes 5 -a resnet8 --image-size 16 -b 4 --threads 1 -j 1 -p 1 --epochs 2)

# clean FILE...: checks that none of the files has a character of $bad.
clean() {
    ! grep -qaE "$bad" "$@" || fail "$what: $(grep -aHE "$bad" "$@" | cat -v | head -n 3)"
}

# try CODE ARGS...: checks that the output, and the texts written to "files", are clean.
try() {
    local file what
    rm -rf files
    expect "$@"
    printf -v what '%q ' "${@:2}"
    clean out err
    while IFS= read -r -d '' file; do
        clean "$file"
    done < <(find files -type f -not -name '*.png' -not -name 'events.*' -print0 2>/dev/null)
}

# taint FILE...: adds escape sequences to every text of a record, except texts that determine how
# the record is read. Also adds shell commands to argv.
taint() {
    sed -E -i '/"(started|ended_by|kind|mode|schema|precision|arch|bench|name|cell|cells)": /! s/": "([^"]*)"/": "=\\u001b]0;x\\u0007\\u202e\1"/g
        s/"argv": \[/&"ampscale;touch hit","\\u001b[31m\\u202e\x27$(touch hit)",/' "$@"
}

# Makes a run of one process, a run of two ranks, and a hostile copy of each.
expect 0 train "${small[@]}" --precision O1 --out one
port=$((20000 + RANDOM % 12000))
for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 "$program" train "${small[@]}" --mode ddp --rendezvous "127.0.0.1:$port" --out two >log 2>&1 </dev/null &
done
wait
[[ -s two/summary.json ]] || fail "the run of two ranks has no summary: $(cat log)"
for run in one two; do
    cp -r "$run" "$evil-$run"
    taint "$evil-$run"/*.json "$evil-$run"/*.jsonl
    grep -q u202e "$evil-$run/run.json" || fail "nothing is tainted"
done

try 0 watch --once "$evil-one"
try 0 watch --once "$evil-two"
try 5 compare "$evil-one" "$evil-two"
mkdir files
cp -r "$evil-one" "$evil-copy" && sed -i -E 's/("started_s": )[0-9]/\19/' "$evil-copy/run.json"
try 5 compare "$evil-one" "$evil-copy" --markdown files.md --junit files.xml --json -o files.json
what="compare's files" clean files.md files.xml files.json
for format in mlperf prometheus csv tensorboard; do
    try 0 export "$evil-two" --format "$format" --out files
    try 0 export "$evil-two" --format "$format" --out "$evil-files"
    rm -rf "$evil-files"
done
if command -v gnuplot >/dev/null; then
    try 0 plot "$evil-one" "$evil-two" --out files --title "$evil" --format svg
    try 0 plot "$evil-two" --format svg
fi
try 0 amp-report "$evil-one" --batches 1 --threads 1

# Texts that determine how a record is read are hostile too, one at a time. A command may refuse such a
# record, but must not print the text as it is.
either() {
    rm -rf files
    run "$@"
    what="$key: $*"
    clean out err
    [[ ! -f files ]] || clean files
}
for key in started ended_by mode precision arch outcome; do
    cp -r one keyed && sed -i -E 's/("started_s": )[0-9]/\19/' keyed/run.json
    sed -E -i "s/\"($key)\": \"/&\\\\u001b]0;x\\\\u0007\\\\u202e/" keyed/*.json keyed/*.jsonl
    grep -q u202e keyed/*.json || fail "no '$key' is tainted"
    either watch --once keyed
    either compare one keyed
    either export keyed --format mlperf -o files
    either export keyed --format mlperf --division closed -o files
    either export keyed --format prometheus -o files
    either report --no-figures keyed -o files
    either predict keyed --network 2,50 --ranks 1
    either train "${small[@]}" --precision O1 --out again --expect keyed
    either train "${small[@]}" --precision O1 --out keyed --resume auto
    rm -rf keyed again
done

# In the CSV, a text column must not contain a formula of a spreadsheet.
try 0 export "$evil-two" --format csv --out files
[[ $(cut -d, -f1 files/ranks.csv | sort -u | sed -n 1p) == "'=1+cmd"* ]] || fail "CSV has a formula: $(head -n 3 files/ranks.csv)"

# Every word of a command in a report is quoted.
try 0 report --no-figures "$evil-one" "$evil-two" -o files
line=$(grep -E "^'?ampscale;touch" files | head -n 1)
[[ $line == "'ampscale;touch hit' "* ]] || fail "a program's name is not quoted: $line"
bash -c "$line" >log 2>&1
[[ ! -e hit ]] || fail "a command of a report runs a text from a record: $line"

# The words of a command are also quoted in the report of a record that is one JSON object.
cat >overlap.json <<'END'
{"schema": 1, "bench": "overlap", "config": {"net": "n;touch hit \u001b[31m", "batch_size": 4, "image_size": 8, "rounds": 1}, "ranks": [{}, {}], "sizes": []}
END
mkdir -p rec/here
cp overlap.json "rec/here/$evil.json"
try 0 report --no-figures rec -o files
grep -q '^ampscale launch.*n;touch hit' files && ! grep -qE '^ampscale launch.*[^'"'"'n]n;touch hit' files || fail "a network's name is not quoted"

# Folders and arguments.
try 0 data synth --out "$evil-data" --classes 2 --train 2 --val 1 --size 32
mv "$evil-data/train/$(ls "$evil-data/train" | head -n 1)" "$evil-data/train/$evil"
printf 'x' >"$evil-data/train/$evil/$evil.JPEG"
mv "$evil-data/val/$(ls "$evil-data/val" | head -n 1)" "$evil-data/val/$evil"
try 0 train "$evil-data" --classes 2 "${small[@]:7}" --steps 1 --out "$evil-warned"
grep -q "bad image '" err || fail "the hostile image gave no warning: $(cat -v err)"
for json in '' --json; do
    run data scan "$evil-data" $json
    clean out err
done
try 0 train "${small[@]}" --steps 1 --out "$evil-new"
try 0 train "${small[@]}" --steps 1 --out "$evil-again" --expect "$evil-new"
try 5 report "$evil-none" -o files
try 5 train "$evil" --out files
try 2 train --dummy "--$evil"
try 5 study "$evil.json"
try 2 bench "$evil"
try 2 "$evil"
try 2 accept --spec "$evil" --out files
try 2 info --policy "$evil"
try 2 launch --nproc 1 -- "$evil"

# A study in a folder with a hostile name. The command in its report can be pasted into a shell.
cat >st.json <<'END'
{"schema": 1, "name": "tiny", "about": "\u001b[31m a test", "modes": {"nd": [1]}, "precisions": ["fp32"],
 "archs": ["resnet8"], "batch": {"weak": [4]}, "data": [{"name": "dummy", "classes": 3, "train": 64, "val": 4}],
 "image_size": 16, "threads": 1, "workers": 1, "repeats": 1, "warmup_steps": 1, "measured_steps": 3}
END
try 0 study st.json --dry-run --out "$evil-st"
try 0 study st.json --out "$evil-st"
clean "$evil-st/RESULTS.md" "$evil-st/RESULTS.html" "$evil-st/analysis.json"
try 0 watch --once "$evil-st"
line=$(grep '^ampscale study st.json --out' "$evil-st/RESULTS.md")
[[ $line == *" \$'=1+cmd\\x1b]0;x"* ]] || fail "a study's command is not quoted: $line"
[[ ! -e hit ]] || fail "a text from a record was executed as a command"

# The first line of a launch.
if command -v mpirun >/dev/null; then
    run launch --nproc 1 --log-dir "$evil-logs" -- info --list
    clean out err
    run launch --nproc 1 --print -- train "$evil"
    clean out err
fi
finish
