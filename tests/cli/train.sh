# shellcheck shell=bash
# Functions for tests of `ampscale train`. Sourced after common.sh.

# Each run has two threads, and the machine may be busy with other tests: waiting threads must not
# spin.
export OMP_WAIT_POLICY=passive

# A small network and data set. An epoch has 5 steps and 6 validation batches. The last step has
# fewer images.
net=(-a resnet8 --image-size 32 -b 8 --val-batch-size 2 --threads 2 -j 2 -p 1 --lr 0.05)

# make_data DIR: makes 3 classes of 12 training and 4 validation images.
make_data() {
    "$program" data synth --out "$1" --classes 3 --train 12 --val 4 --size 48 >"$scratch/log" 2>&1 ||
        { fail "data synth: $(cat "$scratch/log")" && finish; }
}

# train ARGS...: trains the small network; fills `code`, $scratch/out and $scratch/err.
train() {
    run train "${net[@]}" "$@"
}

# expect_train CODE ARGS...: trains, and checks the exit code.
expect_train() {
    expect "$1" train "${net[@]}" "${@:2}"
}

# train_signalled SIGNAL N ARGS...: trains, and sends the signal a moment after the log line of the
# Nth batch, training or validation. `code` is 0 if the run ended earlier.
train_signalled() {
    local signal=$1 left=$2 line pid
    shift 2
    code=0
    : >"$scratch/out"
    rm -f "$scratch/pipe"
    mkfifo "$scratch/pipe"
    "$program" train "${net[@]}" "$@" >"$scratch/pipe" 2>"$scratch/err" </dev/null &
    pid=$!
    while IFS= read -r line; do
        printf '%s\n' "$line" >>"$scratch/out"
        [[ $line == Epoch:* || $line == Test:* ]] || continue
        if ((--left == 0)); then
            sleep "0.00$((RANDOM % 10))"
            kill -s "$signal" "$pid" 2>/dev/null
        fi
    done <"$scratch/pipe"
    { wait "$pid"; } 2>/dev/null || code=$?
}

# run_values DIR: prints the values of the record that do not depend on time. If it cannot, it prints the
# folder, so that two failures are not the same.
run_values() {
    "$build_dir/tests/runners/run_values" "$1" || { echo "no values of '$1'" && return 1; }
}

# same_files WHAT DIR_A DIR_B FILE...: checks that the files have the same bytes.
same_files() {
    local what=$1 a=$2 b=$3 file
    shift 3
    for file in "$@"; do
        cmp "$a/$file" "$b/$file" || fail "$what: '$file' differs"
    done
}

# same_run WHAT REFERENCE DIR: checks that weights, checkpoint and record are the same, and that no
# temporary file remains.
same_run() {
    local what=$1 reference=$2 dir=$3 extra
    same_files "$what" "$reference" "$dir" checkpoint.safetensors best.safetensors
    diff <(run_values "$reference") <(run_values "$dir") >"$scratch/diff" 2>&1 ||
        fail "$what: the records differ: $(head -n 6 "$scratch/diff")"
    extra=$(find "$dir" -name '*-tmp.*')
    [[ -z $extra ]] || fail "$what: the temporary file '$extra' remains"
}

# pair_start DIR ARGS... [-- MORE...]: starts two ranks, or as many as pair_env has entries, which are
# their variables, that connect at an address. Ranks above 0 also get MORE. Fills `pids`.
pair_env=(LOCAL_RANK=0 LOCAL_RANK=1)
pair_start() {
    local dir=$1 both=() more=() rank port=$((20000 + RANDOM % 12000))
    [[ -e $build_dir/cli/ampscale_gloo.so ]] || skip "this build has no Gloo, which ranks without MPI need"
    shift
    while (($# > 0)) && [[ $1 != -- ]]; do
        both+=("$1")
        shift
    done
    pids=()
    for rank in "${!pair_env[@]}"; do
        ((rank == 0)) || more=("${@:2}")
        # shellcheck disable=SC2086 # several variables
        env RANK=$rank WORLD_SIZE=${#pair_env[@]} ${pair_env[rank]} "${limited[@]}" "$program" train "${net[@]}" "${both[@]}" \
            "${more[@]}" --rendezvous "127.0.0.1:$port" --out "$dir" >"$scratch/out$rank" 2>"$scratch/err$rank" </dev/null &
        pids[rank]=$!
    done
}

# pair DIR ARGS... [-- MORE...]: starts the ranks, and waits for them. Fills `code` with rank 0's exit
# code. Tries several ports, since another process may use one. If `only_first` is set, ends the
# others after rank 0.
only_first=
pair() {
    local try
    for ((try = 0; try < 5; try++)); do
        pair_start "$@"
        code=0
        wait "${pids[0]}" || code=$?
        grep -q "rank 0 cannot listen at" "$scratch/err0" || break
        kill "${pids[@]:1}"
        wait "${pids[@]:1}" 2>/dev/null
    done
    [[ -z $only_first ]] || kill "${pids[@]:1}" 2>/dev/null
    wait "${pids[@]:1}" 2>/dev/null
}
