#!/usr/bin/env bash
# `ampscale bench accuracy`: its training, its verdicts, and the built-in reference.
. "$(dirname "$0")/../cli/common.sh" "$@"
cd "$scratch" || exit 1
export OMP_WAIT_POLICY=passive XDG_CACHE_HOME=$scratch/cache

# The built-in reference must equal the recorded runs.
expect 0 bench accuracy --print-reference
cp out built-in
(cd "$source_dir" && "$program" bench accuracy --print-reference \
    --recorded results/recorded/cpu-avx512-2-threads/precision) >recorded || fail "the records cannot be read"
cmp -s built-in recorded || fail "bench/data/accuracy_cpu.json does not match the records: $(diff built-in recorded)"

expect_error 2 "--precisions 'int8'" bench accuracy --precisions fp32,int8
expect_error 5 "there are no runs in '$scratch/tmp'" bench accuracy --quick --recorded "$scratch/tmp"

quick=(bench accuracy --quick --threads 1)
expect 0 "${quick[@]}" --precisions fp32,O2 --out first --json
cmp -s out first/accuracy.json || fail "the stored record differs from the printed one"
[[ -s first/runs/accuracy-O2/summary.json && -z $(find first -name '*.safetensors') ]] || fail "the runs lack a summary or contain weights: $(find first)"
grep -q '"right"' out && fail "the short training is compared with a reference, but it has none: $(<out)"

# Compares accuracies with earlier runs of the same training. An equal accuracy is right. An
# accuracy outside the range of the earlier runs is wrong.
sed -i -E 's/("val_top1": )[0-9.]+/\1300.0/' first/runs/accuracy-O2/summary.json
expect 4 "${quick[@]}" --precisions fp32,O2 --recorded first/runs
grep -qE '^fp32 .* 1 right ' out || fail "the verdict in the row of fp32 is not 'right': $(<out)"
grep -qE '^O2 .* WRONG' out || fail "the row of O2 is not WRONG: $(<out)"
grep -q 'outside the range of the recorded runs: O2$' err || fail "stderr: $(<err)"
for change in '"momentum": 0.9/"momentum": 0.5' '"warmup_epochs": 0.0/"warmup_epochs": 1.0' '"dummy": false/"dummy": true'; do
    sed -i.was "s/$change/" first/runs/accuracy-fp32/run.json
    expect 5 "${quick[@]}" --recorded first/runs
    grep -q "'first/runs/accuracy-fp32' is a run " err || fail "a reference of other settings ($change): $(<err)"
    mv first/runs/accuracy-fp32/run.json.was first/runs/accuracy-fp32/run.json
done
for change in '"resnet8"/"resnet18"' '"lr": 0.05/"lr": 0.5'; do
    sed -i.was "s/$change/" first/runs/accuracy-fp32/run.json
    expect_error 5 "is a run with another network, image size, batch size, number of epochs or classes, or learning rate" "${quick[@]}" --recorded first/runs
    mv first/runs/accuracy-fp32/run.json.was first/runs/accuracy-fp32/run.json
done

# If the budget is used up or there is no device, the output lists the missing results with their
# reason.
expect 5 bench accuracy --precisions fp32,bf16 --threads 1 --budget 2
grep -qE '^fp32 +n/a .* (not done within 1 s|no time was left)$' out || fail "no time: $(<out)"
grep -q 'without a result: fp32, bf16$' err || fail "stderr: $(<err)"
AMPSCALE_CUDA_MODULE=/nonexistent expect 5 "${quick[@]}" --precisions fp32 --devices cuda:63
grep -qE '^fp32 +n/a ' out || fail "no device: $(<out)"
[[ -z $(ls "$TMPDIR") ]] || fail "TMPDIR is not empty: $(ls "$TMPDIR")"
finish
