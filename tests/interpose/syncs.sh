#!/usr/bin/env bash
# Lists which files and folders short runs sync to disk, with one line for each kind of file:
#
#     syncs.sh PROGRAM SOURCE_DIR BUILD_DIR
#
#     COMMAND FILE synced N, put in place N (N unsynced), N of them before a sync of the folder
#
# A new file is put in place by renaming it. If its bytes are not synced before, a power cut may
# leave an empty file. If the folder is not synced afterwards, a power cut may leave the old file.
#
# best.safetensors is written after each epoch that is the best so far. The number of these epochs
# depends on the processor's rounding. If every new best.safetensors is synced in the same way, its
# line has "each time" instead of numbers.
. "$(dirname "$0")/../cli/common.sh" "$@"
. "$source_dir/tests/interpose/interpose.sh"
. "$source_dir/tests/interpose/commands.sh"
cp "$program" "$scratch/ampscale" # interpose.c looks at this name
program=$scratch/ampscale shard=0

# syncs_table COMMAND: reads the events of a run on standard input and prints its lines of the
# table.
syncs_table() {
    awk -v command="$1" '
        function kind(path) { sub(/.*\//, "", path); sub(/\.tmp\..*/, "", path); return path }
        function base(path) { sub(/.*\//, "", path); return path }
        $1 == "file" { synced[base($2)]++; files[kind($2)]++; seen[kind($2)] }
        $1 == "rename" {
            name = kind($3)
            if ($3 ~ /\.tmp\./) # a second name for a file that is in place
                next
            seen[name]
            renames[name]++
            unsynced[name] += !synced[base($2)]
            pending[name]++
        }
        $1 == "folder" { for (name in pending) { covered[name] += pending[name]; delete pending[name] } }
        $1 == "all" { seen["file system"]; files["file system"]++ }
        END {
            for (name in seen)
                if (name == "best.safetensors" && !unsynced[name] && renames[name] == covered[name] &&
                    files[name] == 2 * renames[name])
                    printf "%s %s synced and put in place, before a sync of the folder, each time\n", command, name
                else
                    printf "%s %s synced %d, put in place %d (%d unsynced), %d of them before a sync of the folder\n",
                    command, name, files[name], renames[name], unsynced[name], covered[name]
        }' | LC_ALL=C sort
}

for command in train resume ddp study accept; do
    only=${command}_only done=${command}_done shared=$scratch/$command/shared fault=()
    mkdir -p "$shared" "$scratch/$command/run"
    cd "$shared" || exit 1
    "${command}_prepare"
    cd ../run || exit 1
    # shellcheck disable=SC2034 # used by the functions of commands.sh
    fault=(LD_PRELOAD="$interpose" AMPSCALE_INTERPOSE_ONLY="${!only}" AMPSCALE_INTERPOSE_SYNCS="$PWD/syncs")
    "${command}_run"
    ((code == ${!done})) || fail "'$command' exited with $code: $(<err)"
    syncs_table "$command" <syncs
done
cd "$scratch" || exit 1
env LD_PRELOAD="$interpose" AMPSCALE_INTERPOSE_SYNCS="$PWD/syncs" \
    "$program" data synth --out made --classes 2 --train 2 --val 1 --size 48 >/dev/null || fail "data synth"
syncs_table synth <syncs
finish
