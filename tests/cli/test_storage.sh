#!/usr/bin/env bash
# Storage that fails as a run resumes. If the program cannot access a file, it must not treat the file
# as absent; if it cannot read a file, it must not treat the file as damaged. No record is lost.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"
. "$source_dir/tests/interpose/interpose.sh"
cd "$scratch" || exit 1
make_data data
run=(data --epochs 2)
expect_train 0 "${run[@]}" --out reference

# fresh NAME: makes a copy of the reference run.
fresh() {
    rm -rf "$1"
    cp -r reference "$1"
}

# unchanged WHAT DIR: checks that the folder has the same files as the reference run, with the same
# bytes.
unchanged() {
    diff -r reference "$2" >"$scratch/diff" || fail "$1: the folder has changed: $(head -n 4 "$scratch/diff")"
}

# A checkpoint that cannot be accessed is not treated as absent: the run ends with an error. It can
# be resumed when the checkpoint can be accessed again.
for error in EIO ESTALE EACCES ENOMEM; do
    fresh blind
    interposed "stat:$error:1-:checkpoint" expect_train 1 "${run[@]}" --epochs 3 --out blind --resume auto
    one_line "checkpoint, $error" "'blind/checkpoint.safetensors': "
    unchanged "checkpoint, $error" blind
done
expect_train 0 "${run[@]}" --out blind --resume auto
same_run "a checkpoint that could not be looked at" reference blind

# Nor is a record.
for file in run.json steps.jsonl epochs.jsonl summary.json; do
    fresh blind
    interposed "stat:EIO:1-:blind/$file" expect_train 1 "${run[@]}" --out blind --resume auto
    one_line "$file" "blind/$file"
    unchanged "$file" blind
done

# A journal that is lost at the very end, at the last look at it, makes the run no success.
for ((n = 40, code = 0; n > 0 && code == 0; n--)); do
    rm -rf late
    interposed "stat:ENOENT:$n:late/steps.jsonl" train "${run[@]}" --epochs 1 --out late
done
((code == 1)) && [[ -s late/summary.json ]] || fail "a journal that is lost at the end: exit code $code: $(<err)"
grep -q '"exit_code": 1' late/outcome.json || fail "a journal that is lost at the end: $(<late/outcome.json)"

# If the checkpoints of a run are missing, --resume auto does not overwrite the other files of the
# run.
fresh lost
rm lost/checkpoint*.safetensors
cp -r lost before
expect_train 5 "${run[@]}" --out lost --resume auto
one_line "no checkpoint" "checkpoint.safetensors is missing; restore it, or start a new run in another --out"
diff -r before lost || fail "no checkpoint: the folder has changed"

# If a checkpoint cannot be read, the error message has the reason, and does not call the checkpoint
# damaged.
for call in open stat read; do
    fresh unread
    interposed "$call:EIO:1:checkpoint.safetensors" \
        expect_train 1 "${run[@]}" --out unread --resume auto
    one_line "checkpoint, $call" "'unread/checkpoint.safetensors': Input/output error"
    unchanged "checkpoint, $call" unread
done

# If a record is a symbolic link, the run ends with an error, and does not write through the link.
fresh linked
cp linked/steps.jsonl elsewhere
ln -sf "$scratch/elsewhere" linked/steps.jsonl
expect_train 1 "${run[@]}" --out linked --resume auto
one_line "a link" "cannot write 'linked/steps.jsonl'"
cmp elsewhere reference/steps.jsonl || fail "the run wrote through a symbolic link"

# A run removes temporary files that it made, and no file of the user.
mkdir mine
for name in results.tmp.2024 notes.tmp.7 x.tmp.0123456789abcdef x.ampscale-tmp.2024; do
    echo mine >"mine/$name"
done
echo killed >mine/x.ampscale-tmp.0123456789abcdef
mkdir mine/x.ampscale-tmp.0123456789abcde0
expect_train 0 "${run[@]}" --out mine
[[ $(cat mine/{results.tmp.2024,notes.tmp.7,x.tmp.0123456789abcdef,x.ampscale-tmp.2024} | grep -c mine) == 4 && -d mine/x.ampscale-tmp.0123456789abcde0 && ! -e mine/x.ampscale-tmp.0123456789abcdef ]] ||
    fail "temporary files: $(ls mine)"
# A data set of which one call fails to look at something is not one without folders.
for n in {1..12}; do
    interposed "stat:EIO:$n" run data scan data
    ! grep "no folder" out err || fail "stat $n of data scan: $(cat out err)"
done
# A record that cannot be looked at is not one that does not exist.
mkdir -p kept study/cells/alfa
cp -r reference kept/first
cp -r reference study/cells/alfa/r1
for command in "export kept/first --format prometheus -o x.prom" "report kept/first --no-figures -o report.md" "plot kept/first" \
    "compare study study" "compare kept kept"; do
    read -ra words <<<"$command"
    place=kept/first
    [[ $command != *study ]] || place=cells/alfa
    interposed "stat:EIO:1-:$place" run "${words[@]}"
    ((code == 1)) && grep -q "Input/output error" err || fail "$command: $code, $(<err)"
done
cp -r kept/first kept/zebra
interposed "stat:EIO:1-:kept/first" run report kept --no-figures -o report.md
((code == 5)) && grep -q "^ampscale: skipped: .*'kept/first': Input/output error" err && grep -q "^| zebra " report.md || fail "report: $code, $(<err)"
# Two documents of one report name a record once, and do not forget it; a link counts no run twice.
ln -s first kept/link
for place in run.json steps.jsonl; do
    for n in 1 2 3 4; do
        interposed "open:EIO:$n:first/$place" run report kept --no-figures -o report.md --html report.html
        ((code == 1)) || ! grep -q "Skipped records" report.md report.html || ((code == 5)) || fail "report, open $n: $code, $(<err)"
        ((code != 5)) || [[ $(grep -c "^ampscale: skipped: " err) == 1 ]] || fail "report, open $n: $(<err)"
    done
done
expect 0 report kept --no-figures -o report.md
[[ $(grep -c '^| first ' report.md) == 2 ]] || fail "a link to a run counts it twice: $(grep '^| first ' report.md)"
rm kept/link
# If the first document cannot be written, the second is not that of an earlier report.
expect 1 report kept --no-figures -o /dev/full --html report.html
[[ ! -e report.html ]] || fail "an earlier report remains"
# Nor does a report leave out records because of a single one.
mkdir -p tree/a/runs tree/b
cp -r reference tree/a/runs/one
cp -r reference tree/a/runs/two
cp -r "$source_dir"/results/recorded/cpu-avx512-2-threads/study-quick tree/b/study
AMPSCALE_INTERPOSE_COUNT=$scratch/looks LD_PRELOAD=$interpose expect 0 report tree --no-figures -o whole.md
for ((n = $(awk '$1 == "stat" { print $2 }' looks); n > 0; n--)); do
    interposed "stat:EIO:$n" run report tree --no-figures -o report.md
    if ((code == 0)); then
        cmp -s whole.md report.md || fail "report, stat $n: another report, and no error"
    else
        grep -q "Input/output error" err || fail "report, stat $n: $code, $(<err)"
    fi
done
# A failed run whose folder cannot be looked at is not a run that has completed.
mkdir base gone
cp -r reference base/first
expect_train 0 "${run[@]}" --epochs 1 --out gone/first
echo '{"reason": "killed"}' >gone/second.failed
for n in 1 2; do
    interposed "stat:EIO:$n:gone/second" run compare base gone
    ((code == 1)) && grep -q "'gone/second.*': Input/output error" err || fail "compare: $code, not 1: $(<out) $(<err)"
done
# A split that a study cannot look at is not one that does not exist.
cat >study.json <<'END'
{"schema": 1, "name": "tiny", "about": "for a test", "modes": {"nd": [1]}, "precisions": ["fp32"], "archs": ["resnet8"],
 "batch": {"weak": [4]}, "data": [{"name": "images", "folder": "data"}], "image_size": 32, "threads": 1, "workers": 1,
 "repeats": 1, "warmup_steps": 1, "measured_steps": 2, "limit_s": 60}
END
for split in train val; do
    AMPSCALE_INTERPOSE_ONLY=study interposed "stat:EIO:1:data/$split" run study study.json --no-report --out studied-$split
    ! grep "there is no folder" err || fail "study: one failed look at the folder of images: $code"
done
# Nor does a study leave out a run that it cannot look at.
expect 0 study study.json --dry-run --out looked
cp out whole
for n in {1..40}; do
    AMPSCALE_INTERPOSE_ONLY=study interposed "stat:EIO:$n:looked" run study study.json --dry-run --out looked
    ((code == 1)) && grep -q "Input/output error" err || cmp -s out whole || fail "study --dry-run, stat $n: $code, $(<out) $(<err)"
done
# A set of images that was written in part is not whole because its description cannot be read.
expect 0 data synth --out part --classes 2 --train 2 --val 1 --size 32 -q
sed -i 's/"complete": *true/"complete": false/' part/dataset.json
run data scan part
((code == 5)) && grep -q "was interrupted while it wrote 'part'" out err || fail "a set that was written in part: $code, $(cat out err)"
for call in stat open read; do
    interposed "$call:EIO:1:part/dataset.json" run data scan part
    grep -q "part/dataset.json.*: Input/output error" out err || fail "data scan, $call: $code, $(cat out err)"
done
# A file of that name which is not the program's means nothing.
head -c 100000 /dev/zero >part/dataset.json
expect 0 data scan part
# Nor do plot and watch take a study for a run, a run for a study, or a complete run for another.
quick=$source_dir/results/recorded/cpu-avx512-2-threads/study-quick
for command in "plot $quick --format svg --out drawn" "plot reference --format svg --out drawn" "watch --once $quick" "watch --once reference"; do
    read -ra words <<<"$command"
    name=$quick last=12
    [[ $command != *reference* ]] || name=reference
    [[ $command != plot* ]] || last=3
    expect 0 "${words[@]}"
    sed 's/[0-9.]* [a-z]* ago//' out >whole
    for ((n = 1; n <= last; n++)); do
        AMPSCALE_INTERPOSE_ONLY=${words[0]} interposed "stat:EIO:$n:$name" run "${words[@]}"
        if ((code == 0)); then
            cmp -s whole <(sed 's/[0-9.]* [a-z]* ago//' out) || fail "$command, stat $n: another output: $(<out)"
        else
            ((code == 1)) && grep -q "Input/output error" err || fail "$command, stat $n: $code, $(<err)"
        fi
    done
done
# Nor does accept take a file for a node, or a folder of nodes for one.
mkdir -p nodes/a
echo '{}' >nodes/a/spec.json
touch nodes/notes
for n in {1..9}; do
    interposed "stat:EIO:$n:nodes" run accept --node-list nodes --out "judged-$n"
    grep -q "^ampscale: .*Input/output error" err || fail "accept --node-list, stat $n: $code, $(<out) $(<err)"
done
# Nor does launch take another way to connect ranks than mpirun, compare one run for two, or an
# output flag a link for a file, or a pipe for none.
mkdir bin
printf '#!/bin/sh\necho "mpirun (Open MPI) 4.1.4"\n' >bin/mpirun
chmod +x bin/mpirun
if [[ $("$build_dir/tests/comm/mpi_ranks" version) != none ]]; then
    AMPSCALE_INTERPOSE_ONLY=launch PATH=$PWD/bin:$PATH interposed stat:ESTALE:1:bin/mpirun \
        expect_error 1 "cannot look for '$PWD/bin/mpirun': Stale file handle" launch --dry-run --nproc 2 -- info
fi
cp -r reference twice
ln -s twice again
for n in {1..12}; do
    interposed "stat:EIO:$n:again" run compare twice again
    ((code == 1 || code == 2)) || fail "compare of a run with itself, stat $n: $code, $(<out) $(<err)"
done
for n in {1..8}; do
    rm -f target link pipe
    (umask 077 && echo old >target)
    ln -s target link
    mkfifo pipe
    interposed "stat:EIO:$n:link" run report reference --no-figures -o link
    [[ -L link ]] || fail "report -o, stat $n: $code, a link was replaced"
    ((code == 0)) && (umask 077 && echo old >target)
    interposed "stat:EIO:$n:target" run report reference --no-figures -o link
    [[ -L link && ! -e target && $code == 1 || $(stat -c %a target) == 600 ]] || fail "report -o, stat $n: $code, the mode was lost"
    cat <pipe >drain &
    interposed "stat:EIO:$n:pipe" run report reference --no-figures -o pipe
    [[ -p pipe ]] || fail "report -o, stat $n: $code, a pipe was replaced"
    ((code == 0)) || kill $! 2>>errors
    wait $! 2>>errors
done
finish
