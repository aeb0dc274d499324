#!/usr/bin/env bash
# The files and folders that short runs bring to the disk are those of tests/interpose/syncs.txt: a
# sync that is missing shows in nothing else before a power cut.
table=$(bash "$2/tests/interpose/syncs.sh" "$@")
code=$?
((code == 0)) || { printf '%s\n' "$table" && exit "$code"; }
diff "$2/tests/interpose/syncs.txt" <(printf '%s\n' "$table") || {
    echo "FAILED: other syncs than before; where a change means them to be, write tests/interpose/syncs.sh's output to syncs.txt"
    exit 1
}
