#!/usr/bin/env bash
# Compares the files and folders that short runs sync to disk with the list
# tests/interpose/syncs.txt. A missing sync has an effect only after a power failure, so no other
# test finds it.
table=$(bash "$2/tests/interpose/syncs.sh" "$@")
code=$?
((code == 0)) || { printf '%s\n' "$table" && exit "$code"; }
diff "$2/tests/interpose/syncs.txt" <(printf '%s\n' "$table") || {
    echo "FAILED: other syncs than before; where a change means them to be, write tests/interpose/syncs.sh's output to syncs.txt"
    exit 1
}
