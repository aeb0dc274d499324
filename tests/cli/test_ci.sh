#!/usr/bin/env bash
# The workflows in docs/ci are valid, and this program accepts every ampscale command in them.
# scripts/interleave runs two builds in turns.
. "$(dirname "$0")/common.sh" "$@"

# commands FILE: prints the ampscale commands in the file, one a line, from the command's name on.
# Skips programs in quotes, because they are arguments of scripts.
commands() {
    sed -nE 's/^.*[a-z]\/ampscale ([a-z]+ .*)$/\1/p' "$1" | sed -E 's/ *\|.*//'
}

found=0
for file in "$source_dir"/docs/ci/*.yml; do
    while IFS= read -r line; do
        read -ra words <<<"$line"
        found=$((found + 1))
        flags=$(help_flags "${words[0]}") || fail "$file uses '${words[0]}', which is not a command"
        for word in "${words[@]:1}"; do
            [[ $word != -* ]] || grep -qx -e "${word%%=*}" <<<"$flags" || fail "$file: '${words[0]}' takes no '$word'"
        done
        # The command is valid, but its folders do not exist: the exit code must be 5, missing data.
        (cd "$scratch" && expect 5 "${words[@]}" && ((failures == 0))) || fail "$file: '$line' is refused"
    done < <(commands "$file")
    ! python3 -c 'import yaml' 2>/dev/null ||
        python3 -c 'import sys, yaml; assert {"jobs", "benchmark"} & set(yaml.safe_load(open(sys.argv[1])))' "$file" ||
        fail "'$file' is no workflow"
    while IFS= read -r script; do
        [[ -x $source_dir/$script ]] || fail "$file: there is no '$script'"
    done < <(grep -oE '\bscripts/[a-z-]+' "$file" | sort -u)
done
((found >= 4)) || fail "only $found commands were found"

# At first, runs of two builds take turns every 50 ms: three runs of each build. Later, the builds
# take turns with whole runs: two runs of each build.
cd "$scratch" || exit 1
tiny=(--dummy --arch resnet8 --image-size 32 --classes 10 --batch-size 1 --dummy-train 100 --dummy-val 1
    --val-batch-size 1 --threads 1 --telemetry 0 --steps 12)
"$source_dir/scripts/interleave" --slice 50 "$program" "$program" "$scratch/runs" 3 -- "${tiny[@]}" --steps 500 || fail "scripts/interleave --slice failed"
expect 5 compare runs/base runs/new
grep -q '3 and 3 runs' out && grep -q 'Runs took turns' out || fail "not three runs per side that took turns: $(cat out)"
# The pauses of such runs are not theirs: the mean over time is not compared.
grep -q '"paused": true' runs/new/r001/summary.json || fail "the record does not say that the run was paused"
! grep -q images_per_s_mean out || fail "the mean of runs that were paused is compared: $(cat out)"
"$source_dir/scripts/interleave" "$program" /bin/false "$scratch/bad" 2>err && fail "scripts/interleave does not fail if a run fails"
grep -q 'a run of new failed' err || fail "the message does not name the build whose run failed: $(cat err)"
pgrep -f "$scratch/bad" && fail "processes still run after scripts/interleave has failed"
"$source_dir/scripts/interleave" "$program" "$program" "$scratch/whole" 2 -- "${tiny[@]}" || fail "scripts/interleave without --slice failed"
[[ $(ls "$scratch/whole/base") == $'r001\nr002' ]] || fail "after two rounds, the folders have $(ls "$scratch/whole"/*)"
! grep -q paused whole/*/*/summary.json || fail "runs that were not paused are recorded as paused"
expect 5 compare whole/base whole/new
grep -q '^2 metrics are gating' out && grep -q '^  images_per_s_mean ' out || fail "the mean of whole runs is not gating: $(cat out)"
finish
