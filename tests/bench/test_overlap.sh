#!/usr/bin/env bash
# `ampscale bench overlap` as a job of two ranks: its table, record and error messages.
. "$(dirname "$0")/../cli/common.sh" "$@"
# shellcheck source=tests/comm/mpi.sh
. "$source_dir/tests/comm/mpi.sh"
record_check=$4
cd "$scratch" || exit 1
export OMP_WAIT_POLICY=passive # two ranks on a busy machine: waiting threads must not spin

expect_error 2 "needs two processes or more: start it with 'ampscale launch" bench overlap --net resnet8
expect_error 2 "--bucket-mb ''" bench overlap --bucket-mb 1,,2
expect_error 2 "--bucket-mb '-1'" bench overlap --bucket-mb -1
expect_error 2 "--bucket-mb '0.0001': give 0, or at least 0.001" bench overlap --bucket-mb 0.0001
expect_error 2 "more than 32 sizes" bench overlap --bucket-mb "$(seq -s, 33)"
expect_error 2 "--grad-compress 'fp8'" bench overlap --grad-compress fp8
expect_error 2 "one device per process, not 'cpu:2'" bench overlap --devices cpu:2

mpi_find "$("$record_check" version)"
mpi_leaks on
net=(--net resnet8 --image-size 32 -b 2 --threads 1 --rounds 3)

# overlap CODE ARGS...: runs the benchmark on two ranks, and checks the exit code.
overlap() {
    mpi_run 60 2 "$program" bench overlap "${net[@]}" "${@:2}"
    [[ $code == "$1" ]] || fail "'$*' exited with $code: $(head -c 500 err)"
}

overlap 0 --bucket-mb 0.01,0.1,0 --json
"$record_check" 3 <out || fail "the record is wrong: $(head -c 3000 out)"
grep -q '"grad_compress": "fp32"' out || fail "the record does not have the type of the gradients"
cp out overlap.json
if command -v gnuplot >/dev/null; then
    expect 0 plot overlap.json --out drawn
    [[ -s drawn/overlap.png && -s drawn/overlap.svg ]] || fail "plot drew no figure of the record"
fi
expect_error 2 "a record needs a folder for its figure" plot overlap.json
overlap 0 --bucket-mb 0.05,0 --json --grad-compress bf16
"$record_check" 2 <out || fail "the record of a run with bf16 is wrong: $(head -c 3000 out)"
grep -q '"grad_compress": "bf16"' out || fail "the record does not have the type bf16"

overlap 0 --bucket-mb 0.05,0 --json --precision amp
"$record_check" 2 <out || fail "the record of a run with amp is wrong: $(head -c 3000 out)"
grep -q '"precision": "amp"' out || fail "the record does not name the precision amp"

# A job of two ranks prints one table.
overlap 0 --bucket-mb 0.01,0
[[ $(grep -c '^bucket ' out) == 1 && $(grep -cE '^(0.01 MiB|all in one) ' out) == 2 ]] || fail "the table: $(<out)"
[[ $(grep -c ' lowest$' out) == 1 ]] || fail "the size with the lowest time is not marked: $(<out)"
overlap 2 --net nonesuch
[[ $(grep -c '^ampscale:' err) == 1 ]] || fail "stderr does not have one error for an unknown network: $(<err)"

# Ranks must have the same arguments.
# shellcheck disable=SC2016
mpi_run 60 2 bash -c '"$0" "$@" -b "$((1 + ${OMPI_COMM_WORLD_RANK:-$PMI_RANK}))"' "$program" bench overlap "${net[@]}"
[[ $code == 2 ]] || fail "ranks with different batch sizes exit with $code, not 2: $(<err)"
grep -q 'rank 1 .*has batch_size = 2, but rank 0 .* has 1' err || fail "stderr does not name the batch sizes of both ranks: $(<err)"

# `ampscale launch` starts the ranks and sets the number of threads.
expect 0 launch --nproc 2 --threads 1 --mpirun "${mpi_launch[0]}" --log-dir logs -- bench overlap --net resnet8 --image-size 32 -b 2 --rounds 1 --bucket-mb 0.05,0 --json
"$record_check" 2 <out || fail "the record of a job that launch started is wrong: $(head -c 3000 out)"
grep -q '"threads": 1,' out || fail "the ranks do not have the launcher's --threads"
finish
