#!/usr/bin/env bash
# Training from tar archives, which are read without unpacking. The result is bitwise equal to that
# of training from the folder, also after a stop and a resume.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"

data=$scratch/data
shards=$scratch/shards
make_data "$data"
mapfile -t images < <(find "$data/train" -type f | sort)
# One image is a PNG. A build without libpng counts it as bad, both in the folder and in the
# archives.
cp "$source_dir/tests/input/pictures/rgb-8.png" "${images[7]}"

# pack SPLIT N: makes the archives SPLIT-0.tar to SPLIT-<N-1>.tar, with the images in reverse order.
pack() {
    local k
    for ((k = 0; k < $2; k++)); do
        (cd "$data/$1" && find . -type f | sort -r | awk "NR % $2 == $k" |
            tar -cf "$shards/$1-$k.tar" --no-recursion -T -)
    done
}
mkdir "$shards"
pack train 3
pack val 1

expect_train 0 "$data" --epochs 2 --out "$scratch/folder"
expect_train 0 "$shards" --epochs 2 --out "$scratch/tar"
diff <(run_values "$scratch/folder") <(run_values "$scratch/tar") >"$scratch/diff" 2>&1 ||
    fail "training from tar archives differs from training from the folder: $(head -n 6 "$scratch/diff")"
train_signalled TERM 3 "$shards" --epochs 2 --out "$scratch/resumed"
expect_train 0 "$shards" --epochs 2 --out "$scratch/resumed" --resume auto
same_run "resumed from tar archives" "$scratch/tar" "$scratch/resumed"

# One archive with the training images and the validation images.
tar -cf "$scratch/all.tar" -C "$data" train val
expect 0 data scan "$scratch/all.tar"
grep -qxF 'all is well' "$scratch/out" || grep -q 'libpng' "$scratch/out" || fail "$(cat "$scratch/out")"
expect_train 0 "$scratch/all.tar" --epochs 2 --out "$scratch/all"
diff <(run_values "$scratch/folder") <(run_values "$scratch/all") >"$scratch/diff" 2>&1 ||
    fail "training from one archive differs from training from the folder: $(head -n 6 "$scratch/diff")"

# Labels beside images without folders, which are not next to their images in the archive, give the
# classes of the folders: the values of the run are the same.
mkdir -p "$scratch/flat/train" "$scratch/flat/val" "$scratch/labels"
for split in train val; do
    n=0
    while IFS= read -r image; do
        class=${image%/*} && class=${class##*/c}
        printf -v key '%s/flat/%s/im.%05d' "$scratch" $split $((n++))
        cp "$image" "$key.jpg"
        echo "{\"label\": $((10#${class%%-*}))}" >"$key.json"
    done < <(find "$data/$split" -type f | sort)
    (cd "$scratch/flat/$split" && tar -cf "$scratch/labels/$split.tar" -- *.jpg *.json)
done
expect_train 0 "$scratch/labels" --epochs 2 --out "$scratch/labelled"
diff <(run_values "$scratch/folder") <(run_values "$scratch/labelled") >"$scratch/diff" 2>&1 ||
    fail "training from labelled archives differs from training from the folder: $(head -n 6 "$scratch/diff")"

# Data sets whose labels or images would be lost are refused, and data scan says why.
# refused TEXT: checks that the archives in $scratch/labels are refused.
refused() {
    expect_error 5 "$1" train "${net[@]}" "$scratch/labels" --epochs 1 --out "$scratch/none"
    expect 5 data scan "$scratch/labels"
    grep -qF -- "$1" "$scratch/out" || fail "data scan does not say '$1': $(cat "$scratch/out")"
}
cp "$scratch/labels/train.tar" "$scratch/sound.tar"
tar -rf "$scratch/labels/train.tar" --transform 's/im/other/' -C "$scratch/flat/train" im.00003.json
refused "archive '$scratch/labels/train.tar': label 'other.00003.json' has no image"
(cd "$scratch/flat/train" && tar -cf "$scratch/labels/train.tar" -- *.jpg)
refused "archive '$scratch/labels/train.tar': 'im.00000.jpg' has no class"
# A name that an archive has twice, or with '..', as tar refuses to unpack it: webdataset refuses the
# first, and would train on the second.
rm "$scratch/labels/train.tar"
for again in im.00002.jpg im.00002.json; do
    cp "$scratch/sound.tar" "$scratch/labels/train.tar"
    tar -rf "$scratch/labels/train.tar" -C "$scratch/flat/train" "$again"
    refused "archive '$scratch/labels/train.tar': it has '$again' twice; pack it without the old one"
done
cp "$scratch/sound.tar" "$scratch/labels/train.tar"
tar -rPf "$scratch/labels/train.tar" --transform 's,^im,../im,' -C "$scratch/flat/train" im.00002.jpg
refused "archive '$scratch/labels/train.tar': '../im.00002.jpg' has '..' in its name; pack without '..'"
cp "$scratch/all.tar" "$scratch/twice.tar"
tar -rf "$scratch/twice.tar" -C "$data" "${images[3]#"$data/"}"
expect_error 5 "archive '$scratch/twice.tar': it has '${images[3]#"$data/"}' twice" train "${net[@]}" "$scratch/twice.tar" --epochs 1 --out "$scratch/none"
cat "$scratch/sound.tar" "$scratch/labels/val.tar" >"$scratch/labels/train.tar"
refused "archive '$scratch/labels/train.tar': data at byte $(stat -c %s "$scratch/sound.tar") follow"
cp "$scratch/sound.tar" "$scratch/labels/val-train.tar"
refused "archive '$scratch/labels/val-train.tar' is named for both 'train' and 'val'; rename it"

# If an archive has changed, the run is not resumed, because its data is not the same.
pack train 2
rm "$shards/train-2.tar"
expect_error 2 "was trained on other data" train "${net[@]}" "$shards" --epochs 3 --out "$scratch/tar" --resume auto

run bench input --data "$shards" --images 12 --image-size 32 --batch-size 4 --warmup 0 -n 1 --json
((code == 0)) || fail "bench input: $(cat "$scratch/err")"
grep -q '"container": *"tar archives"' "$scratch/out" || fail "bench input: $(head -c 300 "$scratch/out")"

# A truncated archive: one line names the archive and the member.
head -c 3000 "$shards/train-1.tar" >"$shards/cut" && mv "$shards/cut" "$shards/train-1.tar"
expect_error 5 "archive '$shards/train-1.tar': truncated: './c0" train "${net[@]}" "$shards" --epochs 1 --out "$scratch/cut"
[[ ! -e $scratch/cut ]] || fail "a refused run made its folder"
finish
