#!/usr/bin/env bash
# Ranks that meet at a TCP address, as torchrun would start them: no MPI takes part.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
cd "$scratch" || exit 1
unset OMPI_COMM_WORLD_RANK PMI_RANK RANK WORLD_SIZE LOCAL_RANK SLURM_PROCID
net=(--dummy --dummy-train 16 --dummy-val 4 --classes 5 -a resnet8 --image-size 16 --epochs 1
    -b 4 --devices ref --comm-timeout 60 -p 1)

expect_error 2 "no launcher says which rank this process is" train "${net[@]}" --rendezvous 127.0.0.1:1 --out none
RANK=1 WORLD_SIZE=2 expect_error 2 "--rendezvous '127.0.0.1': give HOST:PORT" train "${net[@]}" --rendezvous 127.0.0.1 --out none
RANK=2 WORLD_SIZE=2 expect_error 2 "RANK='2' and WORLD_SIZE='2'" train "${net[@]}" --rendezvous 127.0.0.1:1 --out none

# A launcher of one process, as srun is with PMIx for a job's only task: any mode will do.
for mode in nd dp; do
    devices=(--devices ref)
    [[ $mode == nd ]] || devices=(--devices ref:2)
    PMIX_RANK=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 \
        expect 0 train "${net[@]}" "${devices[@]}" --mode "$mode" --out "only-$mode"
done
PMIX_RANK=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 expect_error 2 "a launcher started several" \
    train "${net[@]}" --mode nd --out none

# One of several that cannot find each other does not do the work of all unless it is told to.
lost="a launcher started 4 processes that cannot find each other"
for mode in "" "--mode ddp"; do
    # shellcheck disable=SC2086 # nothing, or a flag and its value
    SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 expect_error 2 "$lost" train "${net[@]}" $mode --out none
    # shellcheck disable=SC2086
    RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 expect_error 2 "$lost" train "${net[@]}" $mode --out none
done
[[ ! -e none ]] || fail "a refused run left a folder"
SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 expect 0 train "${net[@]}" --mode nd --out alone

# pair DIR ARGS...: two ranks, the second with ARGS as well; fills `code` with rank 0's exit code.
# Another process may take the port first, so that a few are tried.
pair() {
    local dir=$1 rank port try
    shift
    for ((try = 0; try < 5; try++)); do
        port=$((20000 + RANDOM % 12000))
        for rank in 0 1; do
            local more=()
            ((rank == 0)) || more=("$@")
            RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank timeout 100 "$program" train "${net[@]}" "${more[@]}" \
                --rendezvous "127.0.0.1:$port" --out "$dir" >"out$rank" 2>"err$rank" </dev/null &
            pids[rank]=$!
        done
        code=0
        wait "${pids[0]}" || code=$?
        grep -q "rank 0 cannot wait at" err0 || break
        kill "${pids[1]}"
        wait "${pids[1]}" 2>/dev/null
    done
    wait "${pids[1]}" 2>/dev/null
}

# A rank that waits for another ends when it is asked to.
for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank timeout 100 "$program" train "${net[@]}" \
        --rendezvous 127.0.0.1:$((20000 + RANDOM % 12000)) --out alone-too >out 2>err </dev/null &
    pid=$!
    sleep 2
    before=$SECONDS
    kill "$pid"
    code=0
    wait "$pid" || code=$?
    ((code == 1 && SECONDS - before < 40)) || fail "rank $rank, asked to stop: exit code $code: $(cat err)"
    grep -q "interrupted by SIGTERM" err || fail "rank $rank, asked to stop: $(cat err)"
done

pair run
((code == 0)) || fail "two ranks at an address exited with $code: $(cat err0 err1)"
grep -q "^ddp: 2 ranks of 1 device, .* over tcp$" out0 || fail "rank 0 does not say how: $(head -3 out0)"
grep -qF '"comm": "tcp"' run/run.json || fail "the record does not say how gradients travelled"
! grep -q '"MPI"' run/run.json || fail "the record names an MPI that took no part"

pair differs --seed 1
((code == 2)) || fail "ranks that differ exited with $code, not 2"
[[ $(cat err0 err1 | grep -c '^ampscale: ') == 1 ]] && grep -q "rank 1 .* has seed = 1, but rank 0" err0 ||
    fail "not one line says how ranks differ: $(cat err0 err1)"
finish
