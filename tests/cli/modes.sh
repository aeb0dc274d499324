# shellcheck shell=bash
# Functions for tests of training on several devices and ranks. Sourced after common.sh and
# train.sh; ends the test as skipped if no launcher of MPI is found.

# shellcheck source=tests/comm/mpi.sh
. "$source_dir/tests/comm/mpi.sh"
mpi_find "$("$build_dir/tests/comm/mpi_ranks" version)"

# train_ranks RANKS ARGS...: trains the small network on several ranks; fills `code`, and
# $scratch/out and $scratch/err.
train_ranks() {
    local ranks=$1
    shift
    mpi_run 100 "$ranks" "$program" train "${net[@]}" "$@"
}

# expect_ranks CODE RANKS ARGS...: calls train_ranks, and checks the exit code.
expect_ranks() {
    local want=$1
    shift
    train_ranks "$@"
    ((code == want)) ||
        fail "'train ${*:2}' on $1 ranks exited with $code, not $want: $(head -c 300 "$scratch/err")"
}

# losses DIR: prints the loss of each step and then the validation loss of each epoch, one a line.
losses() {
    run_values "$1" | awk '$1 == "step" { print $10 } $1 == "epoch" { print $14 }'
}

# distance A B [STEPS]: prints the largest relative difference of two runs' losses, and the number
# of losses compared. With STEPS, compares only the first STEPS losses.
distance() {
    paste <(losses "$1") <(losses "$2") | sed -n "1,${3:-1000}p" | awk '
        NF != 2 || !($1 > 0) || !($2 > 0) { bad = 1; next }
        { d = ($1 > $2 ? $1 - $2 : $2 - $1) / $1; if (d > most) most = d }
        END { print bad || NR == 0 ? 1e9 : most + 0, NR }'
}

# follows WHAT A B TOLERANCE [COUNT]: checks that the first COUNT losses of the runs A and B have a
# relative difference of at most TOLERANCE. Default of COUNT: all losses of same_training.
follows() {
    local far n count=${5:-$((steps + 1))}
    read -r far n < <(distance "$2" "$3" "$count")
    echo "$1: up to $far apart"
    awk "BEGIN { exit !($far <= $4) }" </dev/null || fail "$1: the losses are more than $4 apart"
    [[ $n == "$count" ]] || fail "$1: $n losses, not $count"
}

# same_training: enters $scratch and makes the data of the trainings below: 20 steps of 32 images (5
# steps under sanitizers) and one validation.
#
# Training amplifies rounding errors, above all if an error changes the branch of a ReLU or a
# maximum. At ten times this learning rate, the losses of one device with one thread and with two
# threads differ by 1e-3 after 20 steps. At this rate they differ by less than 2e-5, which
# test_train_modes checks. For runs that add in different orders, tests allow 1e-4. Gradients that
# are 1 % too large would change the losses by 7e-4. Buckets of 0.05 MiB give this network several
# buckets.
same_training() {
    cd "$scratch" || exit 1
    steps=20
    ! sanitized || steps=5
    "$program" data synth --out data --classes 4 --train $((8 * steps)) --val 5 --size 48 >log 2>&1 ||
        { fail "data synth failed: $(cat log)" && finish; }
}
same=(--lr 0.001 --epochs 1 --seed 1 --threads 1 -p 10 --bucket-mb 0.05)

# nd NAME ARGS...: trains on one device.
nd() {
    expect_train 0 data "${same[@]}" -b 32 --out "$@"
}

# dp NAME ARGS...: trains on two devices of one process.
dp() {
    nd "$@" --devices cpu:2
}

# ddp NAME RANKS ARGS...: trains in RANKS processes with one device each. A step has 32 images in
# total.
ddp() {
    local name=$1 ranks=$2
    shift 2
    expect_ranks 0 "$ranks" data "${same[@]}" -b $((32 / ranks)) --mode ddp --out "$name" "$@"
}

# ddp2 NAME ARGS...: trains in two processes with two devices each.
ddp2() {
    local name=$1
    shift
    expect_ranks 0 2 data "${same[@]}" -b 16 --mode ddp2 --devices cpu:2 --out "$name" "$@"
}
