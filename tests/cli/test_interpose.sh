#!/usr/bin/env bash
# A sample of tests/interpose/sweep.sh: single calls of a run and of its resumption fail. And how many
# files and folders a run brings to the disk, lest one of the syncs is lost.
out=$(bash "$2/tests/interpose/sweep.sh" "$1" "$2" "$3" 2 open:EIO stat:EACCES read:EIO write:ENOSPC \
    fsync:EIO fsync-folder:EIO rename:EIO malloc:ENOMEM)
code=$?
printf '%s\n' "$out"
((code == 0)) || exit "$code"
grep -qx "train: 34 files and 8 folders synced" <<<"$out" &&
    grep -qx "resume: 19 files and 3 folders synced" <<<"$out" || {
    echo "FAILED: other syncs than before; where a change means them to be, change the numbers"
    exit 1
}
