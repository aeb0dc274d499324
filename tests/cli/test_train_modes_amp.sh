#!/usr/bin/env bash
# Mixed precision, overflows, gradient compression, learning rates, LARS and dropout in every mode.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"
. "$(dirname "$0")/modes.sh"
same_training

# In another mode, sums are added in another order, and a logit may be rounded in the other
# direction. For a logit of about 1, that changes the loss of the image by at most the unit roundoff
# of the type: 2^-11 for fp16, 2^-8 for bf16.
amp=(--precision amp --loss-scale-init 1024 --sync-bn)
fp16=4.9e-4
nd amp-nd "${amp[@]}"
ddp amp-ddp 2 "${amp[@]}"
follows "amp in ddp" amp-nd amp-ddp "$fp16"
nd bf16-nd --precision bf16 --sync-bn
ddp bf16-ddp 2 --precision bf16 --sync-bn
follows "bf16 in ddp" bf16-nd bf16-ddp 3.9e-3

# Each of the two ranks rounds its gradients, and their sum is rounded again. The relative error of
# the sum is at most twice the unit roundoff u. An error of 1 % in all gradients changes the losses
# by 7e-4. An error of 2u therefore changes them by 7e-5 for fp16 (u = 2^-11), and by 5.5e-4 for
# bf16 (u = 2^-8). Adding in another order changes them by 2e-5. Each limit is the sum of these two
# changes.
nd nd
ddp fp16-sent 2 --sync-bn --grad-compress fp16
ddp bf16-sent 2 --sync-bn --grad-compress bf16
follows "gradients sent in fp16" nd fp16-sent 9e-5
follows "gradients sent in bf16" nd bf16-sent 5.7e-4
cmp -s fp16-sent/checkpoint.safetensors bf16-sent/checkpoint.safetensors &&
    fail "gradients sent in fp16 and in bf16 give the same losses"

# value NAME STEP KEY: prints a value of a step in the record.
value() {
    run_values "$1" | sed -nE "s/^step $2 .* $3 ([^ ]+).*/\1/p"
}

# skips NAME: checks that step 3 is skipped and halves the loss scale, and that the losses follow
# those of one device. Only the last device of the last rank overflows. The losses, and the check of
# replicas at the end of the epoch, show that all devices skipped the step.
skips() {
    local skipped
    skipped=$(run_values "$1" | sed -nE 's/^step ([0-9]+) .* skipped 1 .*/\1/p' | xargs)
    [[ $skipped == 3 ]] || fail "$1: the skipped steps are '$skipped', but only step 3 should be skipped"
    [[ $(value "$1" 3 scale):$(value "$1" 4 scale) == 1024:512 ]] ||
        fail "$1: the loss scale is $(value "$1" 3 scale) in step 3 and $(value "$1" 4 scale) in step 4, not 1024 and 512"
    follows "$1, step 3 skipped" skip-nd "$1" "$fp16"
}
overflow=("${amp[@]}" --inject-overflow 3)
nd skip-nd "${overflow[@]}"
makes_a_difference() {
    local far
    read -r far _ < <(distance amp-nd skip-nd)
    awk "BEGIN { exit !($far > $fp16) }" || fail "skipping a step changed the losses no more than rounding does: $far"
}
sanitized || makes_a_difference
skips skip-nd
ddp skip-ddp 2 "${overflow[@]}"
skips skip-ddp
for reduce in central all; do
    dp "skip-dp-$reduce" --dp-reduce "$reduce" "${overflow[@]}"
    skips "skip-dp-$reduce"
    ddp2 "skip-ddp2-$reduce" --dp-reduce "$reduce" "${overflow[@]}"
    skips "skip-ddp2-$reduce"
done

# With --accumulate 3, only 2 batches remain for the last step: there are 20 batches, or 5 under
# sanitizers. The last step uses the mean of the 2 batches.
last=$((steps / 3))
nd three --accumulate 3
ddp three-ddp 2 --accumulate 3 --sync-bn
follows "three batches to a step" three three-ddp 1e-4 $((last + 2))
[[ $(value three-ddp $((last - 1)) images):$(value three-ddp "$last" images) == 96:64 ]] || fail "the last two steps did not count 96 and 64 images"

# --lr-scale uses the number of images in a step over all ranks, divided by 256. Here that is
# 32/256.
factors=(none 0.001 linear 0.000125 sqrt 0.00035355339)
! sanitized || factors=(linear 0.000125)
for ((i = 0; i < ${#factors[@]}; i += 2)); do
    rule=${factors[i]} want=${factors[i + 1]}
    ddp "lr-$rule" 2 --sync-bn --lr-scale "$rule"
    nd "lr-$rule-nd" --lr "$want"
    [[ $(value "lr-$rule" 4 lr) == "$want"* ]] || fail "--lr-scale $rule: $(value "lr-$rule" 4 lr), not $want"
    follows "--lr-scale $rule" "lr-$rule-nd" "lr-$rule" 1e-4
done
ddp lr-three 2 --sync-bn --accumulate 4 --lr-scale linear
[[ $(value lr-three 1 lr) == 0.0005* ]] || fail "the learning rate of --lr-scale with four batches per step is wrong: $(value lr-three 1 lr)"

lars=(--lars 0.001 --lr 0.1 --sync-bn)
nd lars "${lars[@]}"
ddp lars-ddp 2 "${lars[@]}"
follows "LARS" lars lars-ddp 1e-4

# Dropout. Two devices of one process drop the same elements as one device. Another rank drops other
# elements. This test is skipped under sanitizers, because tests in tests/model check dropout under
# them. A network with dropout is large, so the run has only two steps.
drop=(-a alexnet --image-size 64 --dummy --dummy-train 12 --classes 4 --lr 0.01 --steps 2)
drop+=(--bucket-mb 25 "${same[@]:2}")
drops() {
    train -b 4 "${drop[@]}" --out drop
    train -b 4 "${drop[@]}" --out drop-dp --devices cpu:2
    follows "dropout in dp" drop drop-dp 1e-5 2
    expect_ranks 0 2 -b 2 "${drop[@]}" --out drop-ddp --mode ddp
    follows "dropout in ddp, by other masks" drop drop-ddp 0.2 2
}
sanitized || drops
finish
