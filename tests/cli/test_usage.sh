#!/usr/bin/env bash
# Help, version, and errors of the command line.
. "$(dirname "$0")/common.sh" "$@"

expect 2
[[ -s $scratch/err && ! -s $scratch/out ]] || fail "without arguments, the usage is not on stderr"
for word in --help -h help; do
    expect 0 "$word"
    grep -q '^usage: ampscale <command>' "$scratch/out" || fail "'ampscale $word' shows no usage"
done
expect 0 --version
grep -qxE 'ampscale [0-9]+\.[0-9]+\.[0-9]+.*' "$scratch/out" || fail "--version says '$(cat "$scratch/out")'"
expect_error 2 "'nonesuch'" nonesuch
expect_error 2 "'nonesuch'" help nonesuch
expect 0 help bench
grep -q '^usage: ampscale bench <command>' "$scratch/out" || fail "'help bench' shows no usage: $(cat "$scratch/out")"
expect_error 2 "'--nonesuch'" --nonesuch

# Unknown flags, commands and values: the message suggests the nearest valid name.
expect_error 2 "unknown flag '--epocs'; did you mean --epochs?" train --epocs 3
expect_error 2 "unknown flag '--gradient_clip_val'" train --gradient_clip_val 1
# Flags of timm, of torchvision's references and of PyTorch's imagenet example are answered with ours.
while IFS='|' read -r flag here; do
    expect_error 2 "unknown flag '--$flag': " train "--$flag" 1
    grep -qF -- "$here" "$scratch/err" || fail "--$flag is not answered with '$here': $(<"$scratch/err")"
    for ours in $(grep -oE -- '--[a-z-]+' <<<"$here"); do
        grep -qxe "$ours" < <(help_flags train) || fail "--$flag is answered with $ours, which is no flag"
    done
done <<'END'
crop-pct|here --val-crop-pct
val-resize-size|here --val-resize
val_resize_size|here --val-resize
val-crop-size|here --image-size
train-crop-size|here --image-size
img-size|here --image-size
input-size|here --image-size
smoothing|here --label-smoothing
weights|here --init
initial-checkpoint|here --init
checkpoint|here --evaluate
train-interpolation|here --interpolation
sched|here --lr-schedule
decay-epochs|here --lr-step
decay-milestones|here --lr-milestones
min-lr|here --lr-schedule poly with --lr-end
grad-accum-steps|here --accumulate
validation-batch-size|here --val-batch-size
val-interval|here --val-every
checkpoint-hist|here --keep-checkpoints
output-dir|here --out
use-deterministic-algorithms|here --deterministic
test-only|here --evaluate
no-accel|here --devices
cutmix-alpha|--mixup alone
aa|--mixup alone
model-ema-decay|not supported
std|ImageNet's mean and standard deviation
END
expect_error 2 "unknown command 'trian'; did you mean train?" trian
expect_error 2 "did you mean cosine?" train --lr-schedule cosin
commands=$(all_commands)
[[ -n $commands ]] || fail "'ampscale --help' lists no command"
while read -ra command; do
    expect 0 "${command[@]}" --help
    cp "$scratch/out" "$scratch/help"
    if [[ ! -e $source_dir/docs/howto/${command[*]}.md ]]; then
        expect 0 help "${command[@]}"
        cmp -s "$scratch/help" "$scratch/out" || fail "'help ${command[*]}' differs from '${command[*]} --help'"
    fi
    grep -q "^Usage: ampscale ${command[*]}" "$scratch/out" || fail "'${command[*]} --help' shows no usage"
    [[ ! -s $scratch/err ]] || fail "'${command[*]} --help' writes to stderr"
    expect_error 2 "'--nonesuch'" "${command[@]}" --nonesuch
    expect_error 2 "'-Z'" "${command[@]}" -Z
done <<<"$commands"

# A guide is a page of docs/howto as text: without links, and with a line about a command of its name.
"$program" --help >"$scratch/help"
guides=0
for page in "$source_dir"/docs/howto/*.md; do
    name=$(basename "$page" .md) guides=$((guides + 1))
    grep -qE "^ {4}$name +$(sed -n '1s/^# //p' "$page")\$" "$scratch/help" || fail "'ampscale --help' does not list the guide '$name'"
    expect 0 help "$name"
    [[ $(head -n 1 "$scratch/out") == "$(head -n 1 "$page")" ]] || fail "'help $name' begins with '$(head -n 1 "$scratch/out")'"
    ! awk '/^```/ { code = !code } !code' "$scratch/out" | grep -E '\]\(' || fail "'help $name' has links"
    [[ $(wc -w <"$scratch/out") -ge $(($(wc -w <"$page") * 9 / 10)) ]] || fail "'help $name' lacks words of its page"
    ! grep -qx "$name" <<<"$commands" || [[ $(tail -n 1 "$scratch/out") == "Options: ampscale $name --help" ]] ||
        fail "'help $name' ends with '$(tail -n 1 "$scratch/out")'"
done
((guides > 0)) || fail "there is no guide"
expect_error 2 "unknown command or guide 'acept'; did you mean accept?" help acept
expect_error 2 "unknown command 'nonesuch'" bench help nonesuch
finish
