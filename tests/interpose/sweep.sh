#!/usr/bin/env bash
# Fails every call of the program's own code in turn, over a short run and over its resumption:
#
#     sweep.sh PROGRAM SOURCE_DIR BUILD_DIR [MOST [KIND:ERRNO ...]]
#
# Each outcome must be the bytes of an undisturbed run, or one clear line and a folder from which
# --resume auto gives those bytes. MOST calls of a kind are taken at the most, evenly spread (0, the
# default: all). Prints the table of docs/reliability.md.
. "$(dirname "$0")/../cli/common.sh" "${@:1:3}"
. "$source_dir/tests/cli/train.sh"
. "$source_dir/tests/interpose/interpose.sh"
cd "$scratch" || exit 1
most=${4:-0}
faults=("${@:5}")
((${#faults[@]} > 0)) || faults=(
    open:{EIO,EMFILE,EACCES,ENOMEM} stat:{EIO,EACCES,ESTALE,ENOMEM} read:{EIO,ESTALE,EINTR}
    write:{EIO,ENOSPC,EDQUOT} fsync:{EIO,ENOSPC} fsync-folder:EIO rename:{EIO,ENOSPC,EACCES}
    malloc:ENOMEM)
make_data data
short=(data --epochs 2 -j 1 --threads 1 --checkpoint-steps 3)
expect_train 0 "${short[@]}" --out reference
# What is resumed: a run that was stopped in its second epoch.
expect_train 0 "${short[@]}" --steps 7 --out half

# count NAME: the calls of each kind, of the run to NAME.
count() {
    LD_PRELOAD=$interpose AMPSCALE_INTERPOSE_COUNT=$scratch/count-$1 \
        expect_train 0 "${short[@]}" --out "$1" "${@:2}"
}
count train
cp -r half resume
count resume --resume auto
calls() {
    awk -v kind="$2" '$1 == kind { print $2 }' "count-$1"
}

# One more or one less is a change of what is safe in a power cut: each checkpoint, weights file and
# record is synced, and each rename's folder.
for mode in train resume; do
    echo "$mode: $(calls "$mode" fsync) files and $(calls "$mode" fsync-folder) folders synced"
done

# fault MODE SPEC: one run with a fault. Leaves its outcome in `outcome`.
fault() {
    local mode=$1 spec=$2 more=()
    rm -rf victim
    if [[ $mode == resume ]]; then
        cp -r half victim
        more=(--resume auto)
    fi
    code=0
    timeout 60 env LD_PRELOAD="$interpose" AMPSCALE_INTERPOSE="$spec" "$program" train "${net[@]}" \
        "${short[@]}" --out victim "${more[@]}" >out 2>err </dev/null || code=$?
    outcome=same
    if ((code != 0)); then
        outcome=ended
        ((code < 124)) || fail "$mode, $spec: exit code $code: $(head -c 300 err)"
        [[ $(grep -vc '^ampscale: warning: ' err) == 1 ]] && tail -n 1 err | grep -q '^ampscale: ' ||
            fail "$mode, $spec: not one clear line: $(head -c 400 err)"
        run train "${net[@]}" "${short[@]}" --out victim --resume auto
        ((code == 0)) || fail "$mode, $spec: cannot be resumed: $(head -c 300 err)"
    fi
    same_run "$mode, $spec" reference victim
}

printf '| run | call | error | calls | failed | same bytes at once | ended, resumed to the same bytes |\n'
printf '|---|---|---|---:|---:|---:|---:|\n'
for mode in train resume; do
    for f in "${faults[@]}"; do
        kind=${f%:*} n=$(calls "$mode" "${f%:*}") step=1 same=0 ended=0
        ((most == 0 || n <= most)) || step=$(((n + most - 1) / most))
        for ((i = 1; i <= n; i += step)); do
            fault "$mode" "$f:$i"
            ((++$outcome))
        done
        printf '| %s | %s | %s | %d | %d | %d | %d |\n' "$mode" "$kind" "${f#*:}" "$n" \
            "$((same + ended))" "$same" "$ended"
    done
done
finish
