#!/usr/bin/env bash
# tests/interpose/syncs.txt lists the files and folders that short runs sync to disk: before a power
# failure, nothing else shows that a sync is missing.
table=$(bash "$2/tests/interpose/syncs.sh" "$@")
code=$?
((code == 0)) || { printf '%s\n' "$table" && exit "$code"; }
diff "$2/tests/interpose/syncs.txt" <(printf '%s\n' "$table") || {
    echo "FAILED: other syncs than before; where a change means them to be, write tests/interpose/syncs.sh's output to syncs.txt"
    exit 1
}
