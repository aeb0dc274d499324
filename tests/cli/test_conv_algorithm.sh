#!/usr/bin/env bash
# --conv-algorithm: recorded, kept by a resumed run, and refused where it would have no effect.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
cd "$scratch" || exit 1
make_data data

# is FILE VALUE: checks the only algorithm that the file (JSON or a checkpoint) names.
is() {
    [[ $(grep -aoE '"conv_algorithm": ?"[a-z]+"' "$1" | sed 's/.*: *//') == "\"$2\"" ]] ||
        fail "$1 does not say $2: $(grep -ao '"conv_algorithm.\{20\}' "$1")"
}

# Every run on a CPU records the algorithm, other devices have none.
expect_train 0 data --epochs 1 --steps 2 --out auto
for algorithm in direct winograd; do
    expect_train 0 data --epochs 1 --out $algorithm --conv-algorithm $algorithm
done
for algorithm in auto direct winograd; do
    is $algorithm/run.json $algorithm
done
expect_train 0 data --epochs 1 --steps 1 --devices ref --conv-algorithm auto --out ref
! grep -q conv_algorithm ref/run.json || fail "a run on the reference records an algorithm of a CPU"

# A resumed run keeps the algorithm, unless another one is given. The record of each attempt and the
# checkpoint have the attempt's algorithm.
expect_train 0 data --epochs 2 --out winograd --resume auto
grep '"event":"resume"' winograd/steps.jsonl >attempt
is attempt winograd
is winograd/checkpoint.safetensors winograd
expect_train 0 data --epochs 2 --out winograd2 --conv-algorithm winograd
same_files "resumed" winograd winograd2 checkpoint.safetensors
expect_train 0 data --epochs 3 --out winograd --resume auto --conv-algorithm direct
grep '"event":"resume"' winograd/steps.jsonl | tail -n 1 >attempt
is attempt direct
is winograd/checkpoint.safetensors direct
expect_train 0 data --epochs 3 --out winograd2 --resume winograd2/checkpoint.safetensors --devices ref
is winograd2/checkpoint.safetensors auto

# Runs with another algorithm, or with none on record, are compared only if the user allows it.
cp -r direct old
sed -i '/"conv_algorithm"/d' old/run.json
for other in old winograd2; do
    expect 5 compare "$other" -- direct
    grep -q 'config.conv_algorithm' out || fail "$other is compared with a direct run: $(cat out)"
done
expect_error 2 "conv_algorithm is absent, but this run's is \"winograd\"" \
    train "${net[@]}" data --epochs 1 --out other --conv-algorithm winograd --expect old

# The choice has no effect on other devices, and winograd has none in other precisions.
says="--conv-algorithm winograd needs --precision fp32"
winograd=(--conv-algorithm winograd --precision)
for precision in amp bf16 tf32 O1; do
    expect_error 2 "$says" train "${net[@]}" data --out other "${winograd[@]}" $precision
done
small=(--net resnet8 --image-size 32 -b 2 --rounds 1)
expect_train 0 data --epochs 1 --steps 1 --conv-algorithm direct --precision amp --out amp
devices=(ref)
! fake_gpu || devices+=(cuda:0)
for device in "${devices[@]}"; do
    says="--conv-algorithm direct needs a CPU, not the device '${device%:0}'; leave it out"
    one=(--devices "$device" --conv-algorithm direct)
    expect_error 2 "$says" train "${net[@]}" data --out other "${one[@]}"
    expect_error 2 "$says" bench conv "${small[@]}" "${one[@]}"
    expect_error 2 "$says" selftest --quick "${one[@]}"
    expect_error 2 "$says" selftest --determinism --quick "${one[@]}"
    expect_error 2 "$says" selftest --operations --only relu_fwd --every 20 "${one[@]}"
done
[[ ! -e other ]] || fail "a refused run made its folder"

# selftest and bench conv record it.
for algorithm in auto direct winograd; do
    expect 0 bench conv "${small[@]}" --no-step --conv-algorithm $algorithm --json
    is out $algorithm
done
expect 0 selftest --quick --conv-algorithm direct --json
is out direct
expect 0 selftest --determinism --quick --conv-algorithm winograd --json
is out winograd

# The command that repeats a failed operation has the algorithm.
case=$("$program" selftest --operations --list --only conv_fwd | awk 'NR == 1 { print $1 }')
expect 4 selftest --operations --case "$case" --conv-algorithm winograd --inject wrong="$case"
grep -q -- " --conv-algorithm winograd --case $case$" out || fail "the algorithm is not repeated: $(cat out)"

# The process that runs the case has it, too.
own_program
"$program" selftest --operations --case "$case" --conv-algorithm winograd --inject hang="$case" >out 2>err &
working() {
    grep -q -- ' --worker=.* --conv-algorithm=winograd ' \
        < <(own_processes | sed 's|.*|/proc/&/cmdline|' | xargs cat 2>/dev/null | tr '\0' ' ')
}
await 60 working
kill -TERM $!
wait $! 2>/dev/null
none_left "selftest --operations"
finish
