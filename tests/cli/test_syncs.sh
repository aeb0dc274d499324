#!/usr/bin/env bash
# Short runs sync files and folders to disk. The test compares these files and folders with the list
# tests/interpose/syncs.txt. A missing sync has an effect only after a power failure, so no other
# test finds it.
table=$(bash "$2/tests/interpose/syncs.sh" "$@")
code=$?
((code == 0)) || { printf '%s\n' "$table" && exit "$code"; }
diff "$2/tests/interpose/syncs.txt" <(printf '%s\n' "$table") || {
    echo "FAILED: the syncs differ from the list; if they should, write the output of tests/interpose/syncs.sh to syncs.txt"
    exit 1
}
