#!/usr/bin/env bash
# `ampscale info`: build, devices, networks, and usage errors.
. "$(dirname "$0")/common.sh" "$@"

# expect_line REGEX ARGS...: checks that a line of the output matches.
expect_line() {
    local want=$1
    shift
    expect 0 "$@"
    grep -qE -- "$want" "$scratch/out" || fail "'ampscale $*' has no line '$want'"
}

expect_line '^ampscale [0-9]' info
expect_line '^libraries  MPI: [^ ]+.*, jansson ' info
expect_line '^  cpu +[^ ]' info
expect_line '"device":"cpu","usable":true' info --json
expect_line '^  ref .*; fp32 native, tf32 emulated, bf16 emulated, fp16 emulated$' info
expect_line '"device":"ref",[^}]*"types":\{"fp32":"native","tf32":"emulated"' info --json

expect_line '^resnet50 +25557032 +8\.178$' info --list
[[ $(grep -c '^' "$scratch/out") == 18 ]] || fail "info --list has $(grep -c '^' "$scratch/out") lines, not 17 networks"
expect 0 info --list --image-size 40
! grep -q '^alexnet ' "$scratch/out" || fail "info --list names a network that is too large for the images"

expect_line '^total +25557032 +8178\.369$' info -a resnet50
expect_line '^layer1\.0\.conv1 +conv +64x56x56 +4096 +25\.690$' info -a resnet50
expect_line '^conv1 +conv +64x32x32 ' info -a resnet18 --image-size 64

# Each row has a policy, a kind of layer and five types. `info --policy` must print these types for
# a layer of that kind.
for row in \
    'fp32 conv fp32 fp32 fp32 fp32 fp32' 'tf32 conv fp32 tf32 fp32 tf32 fp32' \
    'O1 fc fp32 fp16 fp16 fp16 fp16' 'O2 bn fp32 fp32 fp32 fp32 fp16' 'O3 bn fp16 fp16 fp16 fp32 fp16' \
    'bf16 conv fp32 bf16 bf16 bf16 bf16'; do
    read -ra type <<<"$row"
    case ${type[1]} in
    conv) layer='layer4\.2\.conv3 +conv' ;;
    bn) layer='layer4\.2\.bn3 +bn' ;;
    fc) layer='fc +linear' ;;
    esac
    expect_line "^$layer +${type[2]} +${type[3]} +${type[4]} +${type[5]} +${type[6]}\$" \
        info --policy "${type[0]}" -a resnet50
    expect_line '^loss +softmax +- +- +- +fp32 +fp32$' info --policy "${type[0]}"
done
expect_line '"loss_scale":"dynamic".*"name":"conv1","kind":"conv","activation":"fp16","computes":"fp16","weight":\{"kept":"fp32","read":"fp16","gradient":"fp16"\}' \
    info --policy O2 -a resnet8 --json
expect_error 2 "unknown precision 'O4'" info --policy O4
expect_error 2 "--policy and --list exclude each other" info --policy O1 --list

expect_error 2 "unknown network 'nonesuch'; known: alexnet" info -a nonesuch
expect_error 2 "exclude each other" info -a alexnet --list
expect_error 2 "need --arch or --list" info --classes 10

if [[ -w /dev/full ]]; then
    "$program" info --list >/dev/full 2>"$scratch/err" && fail "a full disk is not reported as an error"
    grep -q 'cannot write' "$scratch/err" || fail "the message does not name the full disk: $(cat "$scratch/err")"
    expect 1 info --list -o /dev/full
    one_line "-o on a full disk" "cannot write '/dev/full': No space left on device"
fi
finish
