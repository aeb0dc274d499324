#!/usr/bin/env bash
# Lists which files and folders short runs sync to disk, with one line for each kind of file:
#
#     syncs.sh PROGRAM SOURCE_DIR BUILD_DIR
#
#     COMMAND FILE synced N, put in place N (N unsynced), N of them before a sync of the folder
#
# A power cut may leave an empty file or the old file, if the new file is renamed before its bytes
# are synced or if its folder is not synced afterwards. How often an epoch is the best so far
# depends on the processor's rounding. For best.safetensors, "each time" therefore replaces numbers
# that are equal.
. "$(dirname "$0")/../cli/common.sh" "$@"
. "$source_dir/tests/interpose/interpose.sh"
. "$source_dir/tests/interpose/commands.sh"
cp "$program" "$scratch/ampscale" # interpose.c looks at this name
program=$scratch/ampscale shard=0

# syncs_table COMMAND: prints the table of the events on standard input.
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
    ((code == ${!done})) || fail "$command: exit code $code: $(<err)"
    syncs_table "$command" <syncs
done
cd "$scratch" || exit 1
env LD_PRELOAD="$interpose" AMPSCALE_INTERPOSE_SYNCS="$PWD/syncs" \
    "$program" data synth --out made --classes 2 --train 2 --val 1 --size 48 >/dev/null || fail "data synth"
syncs_table synth <syncs
finish
