#!/usr/bin/env bash
# Invalid settings of training are refused with one line that names the reason, and with the
# documented exit code. No file is written. If training fails later, no record looks complete.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"

data=$scratch/data
make_data "$data"
out=$scratch/run

# no_trace WHAT: checks that the run folder does not exist.
no_trace() {
    [[ ! -e $out ]] || fail "$1: the run made '$(ls -d "$out" "$out"/*)'"
    rm -rf "$out"
}

# refused CODE TEXT ARGS...: checks that training exits with CODE and one line that contains TEXT,
# and writes no file.
refused() {
    expect_error "$1" "$2" train "${net[@]}" --epochs 1 --out "$out" "${@:3}"
    grep -q '^ampscale: ' "$scratch/err" || fail "'${*:3}': $(cat "$scratch/err")"
    no_trace "${*:3}"
}

# variant NAME: copies the data, for a test that damages it; prints the folder of the copy.
variant() {
    cp -r "$data" "$scratch/$1"
    echo "$scratch/$1"
}

# first_image DIR: prints the path of one file in the folder.
first_image() {
    find "$1" -type f | sort | head -n 1
}

# The command line.
refused 2 "'--nonesuch'" "$data" --nonesuch
refused 2 "'resnet9'" "$data" -a resnet9
refused 2 "too small for layer 'features.12' of alexnet" "$data" -a alexnet
refused 2 "a batch of 37 is larger than the data set of 36 images" "$data" -b 37
refused 2 "leave out '$data'" "$data" --dummy
refused 2 "no data"
refused 2 "--evaluate needs weights" "$data" --evaluate
refused 2 "--start-epoch 3: --epochs 3 leave none to train" "$data" --start-epoch 3 --epochs 3
refused 2 "--start-epoch 5: --steps 10 leave none to train" "$data" --start-epoch 5 --epochs 90 --steps 10
refused 2 "--warmup-epochs 2" "$data" --warmup-epochs 2
refused 2 "'gpu'" "$data" --devices gpu

# The data.
refused 5 "'$scratch/absent" "$scratch/absent"
class=$(basename "$(find "$data/train" -mindepth 1 -type d | sort | head -n 1)")
bad=$(variant half-made)
sed -i 's/"complete": true/"complete": false/' "$bad/dataset.json"
refused 5 "was interrupted while it wrote '$bad'" "$bad"
bad=$(variant empty-class)
rm "$bad/train/$class"/*
refused 5 "$class" "$bad"
bad=$(variant no-val-class)
rm -r "$bad/val/$class"
refused 5 "'$class'" "$bad"
bad=$(variant no-val)
rm -r "$bad/val"
refused 5 "'$bad/val'" "$bad"

# The folder of the run.
touch "$scratch/file"
expect_error 1 "'$scratch/file" train "${net[@]}" "$data" --epochs 1 --out "$scratch/file/run"
expect_error 1 "'$scratch/file'" train "${net[@]}" "$data" --epochs 1 --out "$scratch/file"
expect_train 0 "$data" --epochs 1 --out "$scratch/first"
cp -r "$scratch/first" "$scratch/before"
expect_error 2 "'$scratch/first' already holds a run" train "${net[@]}" "$data" --epochs 1 --out "$scratch/first"
diff -r "$scratch/before" "$scratch/first" || fail "a refused run has changed the existing run"
if command -v flock >/dev/null; then
    exec 9<"$scratch/first" && flock -n 9
    expect_error 2 "'$scratch/first' is in use" train "${net[@]}" "$data" --epochs 2 --out "$scratch/first" --resume auto
    exec 9<&-
fi

# A run refuses weights from which it can neither resume nor start.
checkpoint=$scratch/first/checkpoint.safetensors
refused 5 "'$scratch/nothing.safetensors'" "$data" --resume "$scratch/nothing.safetensors"
refused 5 "no training state to resume" "$data" --resume "$scratch/first/best.safetensors"
head -c 100000 "$checkpoint" >"$scratch/cut.safetensors"
refused 5 "'$scratch/cut.safetensors' is damaged" "$data" --resume "$scratch/cut.safetensors"
refused 5 "'$scratch/cut.safetensors' is damaged" "$data" --init "$scratch/cut.safetensors"
refused 5 "'$(first_image "$data")'" "$data" --init "$(first_image "$data")"
for given in --init "-e --init" "-e --resume"; do
    # shellcheck disable=SC2086 # two flags
    refused 2 "was trained with -a resnet8, not resnet18; give -a resnet8" "$data" -a resnet18 $given "$checkpoint"
done
refused 2 "give one" "$data" --init "$checkpoint" --resume "$checkpoint"

# stopped_by_disk WHAT DIR [COPY]: checks that the run in DIR exited with code 1, that stderr is one
# line that names DIR, and that the run has neither a summary nor temporary files. If the disk no
# longer exists, COPY is a copy of the run's files.
stopped_by_disk() {
    local what=$1 dir=$2 left=${3-$2}
    ((code == 1)) || fail "$what: the exit code is $code, not 1"
    [[ $(wc -l <"$scratch/err") == 1 ]] || fail "$what: $(cat "$scratch/err")"
    grep -q "^ampscale: .*$dir" "$scratch/err" || fail "$what: $(cat "$scratch/err")"
    [[ -d $left ]] || fail "$what: the run's folder is missing"
    [[ ! -e $left/summary.json ]] || fail "$what: a failed run has a summary"
    [[ -z $(find "$left" -name '*-tmp.*') ]] || fail "$what: temporary files remain: $(find "$left" -name '*-tmp.*')"
}

# train_on_disk SIZE FILLED COPY ARGS...: trains into $scratch/disk/run on a disk of SIZE bytes, of
# which FILLED are in use, and copies the run's files to COPY. No other process sees the disk, which
# is unmounted when the shell ends. Exit code 99: the disk could not be mounted.
train_on_disk() {
    # shellcheck disable=SC2016
    unshare --map-root-user --mount bash -c '
        mount -t tmpfs -o "size=$1" none "$2" || exit 99
        head -c "$3" /dev/zero >"$2/filled" 2>/dev/null
        "${@:5}"
        code=$?
        cp -r "$2/run" "$4"
        exit "$code"
    ' bash "$1" "$scratch/disk" "$2" "$3" "$program" train "${net[@]}" --out "$scratch/disk/run" "${@:4}"
}

# Two disks: one disk is full from the start. The other disk becomes full when the run writes its
# first checkpoint.
mkdir "$scratch/disk"
for room in "16k 16k" "200k 0"; do
    read -r size filled <<<"$room"
    code=0
    train_on_disk "$size" "$filled" "$scratch/left-$size" "$data" --epochs 1 \
        >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
    if ((code == 99)) || grep -q '^unshare:' "$scratch/err"; then
        echo "a full disk was not tested, because this user may not mount a disk"
        break
    fi
    stopped_by_disk "disk of $size" "$scratch/disk/run" "$scratch/left-$size"
done
finish
