#!/usr/bin/env bash
# Tests 'ampscale data': the data sets that it makes, the damage that it reports, and its exit
# codes.
. "$(dirname "$0")/../cli/common.sh" "$@"
set="$scratch/set"

make=(data synth --out "$set" --classes 3 --train 5 --val 2 --size 40 -j 2)
expect 0 "${make[@]}"
[[ $(find "$set/train" -type f | wc -l) == 15 ]] || fail "not 15 training images"
[[ $(find "$set/val" -type f | wc -l) == 6 ]] || fail "not 6 validation images"
expect 0 data scan "$set" --json
grep -q '"ok": true' "$scratch/out" || fail "the JSON of a new data set does not have ok: true"

mapfile -t images < <(find "$set/train" -type f | sort)
: >"${images[1]}"
head -c 200 "${images[7]}" >"$scratch/part" && mv "$scratch/part" "${images[7]}"
expect 5 data scan "$set"
grep -qF "${images[1]}: an empty file" "$scratch/out" || fail "an empty file is not named"
grep -qF "${images[7]}: " "$scratch/out" || fail "a truncated file is not named"
expect 0 "${make[@]}" # the same command makes the damaged files again
expect 0 data scan "$set"
grep -q 'all is well' "$scratch/out" || fail "'all is well' is not printed for a sound data set"

# The decoder determines the format of a file from its contents, not from its name. The PNG here has a
# name that ends in .JPEG.
cp -r "$set" "$scratch/mixed"
mapfile -t images < <(find "$scratch/mixed/val" -type f | sort)
cp "$source_dir/tests/input/pictures/rgb-8.png" "${images[0]}"
run data scan "$scratch/mixed"
grep -q '^  JPEG 5, PNG 1, grayscale' "$scratch/out" || fail "formats are not counted: $(cat "$scratch/out")"
((code == 0)) || grep -qE "^problem: 1 PNG file of '.*' cannot be read: this build has no libpng; " "$scratch/out" ||
    fail "a missing library is not named: $(cat "$scratch/out")"

rm -r "$(find "$set/val" -mindepth 1 -type d | sort | head -1)"
expect 5 data scan "$set"
grep -q "^problem: class 'c0000-.* but not in '.*/val'" "$scratch/out" || fail "a missing class is not named"
rm -r "$set/val"
expect 5 data scan "$set"
grep -q "^problem: no folder '.*/val'" "$scratch/out" || fail "a missing split is not named"
sed -i 's/"complete": true/"complete": false/' "$set/dataset.json"
expect 5 data scan "$set"
grep -q "^problem: .*was interrupted" "$scratch/out" || fail "an interrupted set is not reported"
expect_error 5 "no folder '$scratch/none'" data scan "$scratch/none"

expect_error 2 "no folder to write to: give --out DIR" data synth
expect_error 2 "--classes '0'" data synth --out "$scratch/x" --classes 0
expect_error 2 "nothing to scan: give the folder" data scan
expect_error 2 "'more'" data scan "$set" more
[[ ! -e $scratch/x ]] || fail "a refused command wrote something"

# A link to a missing file is an image that is missing, not one fewer.
"$program" data synth --out "$scratch/links" --classes 2 --train 2 --val 1 --size 40 >"$scratch/log" 2>&1
image=$(find "$scratch/links/val" -type f | head -n 1)
ln -s /nowhere/1.jpg "${image%/*}/link.jpg"
expect 5 data scan "$scratch/links"
grep -qF "problem: links in '$scratch/links/val' that lead nowhere: 1; the first is '${image%/*}/link.jpg' -> '/nowhere/1.jpg'; " "$scratch/out" ||
    fail "a link that leads nowhere is not named: $(cat "$scratch/out")"
rm "${image%/*}/link.jpg"
# So is a FIFO, a device or a link to one.
for make in mkfifo "ln -s /dev/zero"; do
    $make "${image%/*}/odd.jpg"
    expect 5 data scan "$scratch/links"
    grep -qF "problem: '${image%/*}/odd.jpg' has the name of an image, but is no regular file; " "$scratch/out" ||
        fail "an image made by '$make' is not named: $(cat "$scratch/out")"
    rm "${image%/*}/odd.jpg"
done

# One class: a warning. It asks whether the classes are one folder deeper only if there are folders.
expect 0 data scan "$scratch/links"
[[ ! -s $scratch/err ]] || fail "a warning for two classes: $(cat "$scratch/err")"
mkdir -p "$scratch/deep/train" "$scratch/deep/val"
mv "$scratch/links/train" "$scratch/deep/train/images"
mv "$scratch/links/val" "$scratch/deep/val/images"
expect 0 data scan "$scratch/deep"
one_line "data scan" "warning: '$scratch/deep/train' has only one class, 'images': the loss is always 0"
! grep -q 'all is well' "$scratch/out" || fail "'all is well' is printed for one class"
grep -qE "; are the classes one folder deeper, as 'images/c0001-[^/]*'\?$" "$scratch/err" || fail "$(cat "$scratch/err")"
for split in train val; do
    rm -r "$scratch/deep/$split/images/"c0001-*
    mv "$scratch/deep/$split/images/"c0000-*/* "$scratch/deep/$split/images"
    rmdir "$scratch/deep/$split/images/"c0000-*
done
expect 0 data scan "$scratch/deep"
one_line "data scan" "accuracy says nothing"
! grep -q 'deeper' "$scratch/err" || fail "$(cat "$scratch/err")"

# A limit on the size of files makes writes fail, as a full disk does.
(
    trap '' XFSZ
    ulimit -f 1
    expect_error 1 "cannot write '" data synth --out "$scratch/full" --classes 2 --train 2 --val 1
    exit $failures
) || fail "the test of a full disk failed"
expect 5 data scan "$scratch/full"
grep -q "was interrupted" "$scratch/out" || fail "an incomplete set is not reported"
touch "$(find "$scratch/full/train" -type f | head -n 1).ampscale-tmp.0123456789abcdef" # of a killed process
own=$(find "$scratch/full/train" -mindepth 1 -type d | head -n 1)/mine.JPEG.part
echo mine >"$own"
expect 0 data synth --out "$scratch/full" --classes 2 --train 2 --val 1
expect 0 data synth --out "$scratch/whole" --classes 2 --train 2 --val 1
[[ $(<"$own") == mine ]] || fail "a file of the user was changed"
rm "$own"
diff -r "$scratch/full" "$scratch/whole" || fail "an incomplete set was not completed"
finish
