#!/usr/bin/env bash
# A training, or one of two ranks after the run has begun, cannot allocate memory, at any of its
# allocations: it ends soon and says so, or writes the same files as ever. The last argument is the step
# from one allocation of the ranks to the next that is tried.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
. "$source_dir/tests/interpose/interpose.sh"
cd "$scratch" || exit 1
unset OMPI_COMM_WORLD_RANK PMI_RANK RANK WORLD_SIZE LOCAL_RANK SLURM_PROCID AMPSCALE_SECRET AMPSCALE_JOB
net=(--dummy --dummy-train 16 --dummy-val 4 --classes 3 -a resnet8 --image-size 16 --epochs 1
    -b 4 --devices ref --threads 1 -j 1 -p 100 --check-replicas 2)

lacking='^ampscale: .*([Nn]o|out of|Cannot allocate|not enough|Insufficient) memory'

# lacks RANK N: the Nth allocation of the rank fails. The time limit of `pair` is a third of the
# default of --comm-timeout, for which the other rank would wait.
lacks() {
    rm -rf run
    pair_env=(LOCAL_RANK=0 LOCAL_RANK=1)
    pair_env[$1]+=" LD_PRELOAD=$interpose AMPSCALE_INTERPOSE=malloc:ENOMEM:$2"
    pair run
}

pair_env=(LOCAL_RANK=0 LOCAL_RANK=1)
for rank in 0 1; do
    pair_env[rank]+=" LD_PRELOAD=$interpose AMPSCALE_INTERPOSE_COUNT=$scratch/count$rank"
done
pair run
((code == 0)) || fail "the run whose allocations are counted ended with $code: $(cat err0 err1)"
for rank in 0 1; do
    n=$(awk '$1 == "malloc" { print $2 }' "count$rank") tried=0
    for ((; n > 0; n -= ${4:-1})); do
        lacks $rank "$n"
        [[ -e run ]] && ((failures == 0)) || break # without a run, the ranks may not have connected
        tried=$((tried + 1))
        ((code == 0 || code == 1)) || fail "allocation $n of rank $rank: rank 0 exits with $code: $(cat err0 err1)"
        ((code == 0)) || grep -qE "$lacking" err0 err1 ||
            fail "allocation $n of rank $rank: no line says what memory is lacking: $(cat err0 err1)"
    done
    ((tried > 0)) || fail "no allocation of rank $rank after the run has begun was tried"
done

# each_lacks KIND STEP ARGS...: trains alone many times; in each run another allocation fails.
each_lacks() {
    local kind=$1 step=$2 n
    shift 2
    rm -rf alone count
    AMPSCALE_INTERPOSE_COUNT=$scratch/count LD_PRELOAD=$interpose expect 0 train "$@" --out alone
    n=$(awk -v kind="$kind" '$1 == kind { print $2 }' count)
    ((n > 0)) || fail "no allocation of kind $kind was tried"
    for ((; n > 0; n -= step)); do
        rm -rf run
        interposed "$kind:ENOMEM:$n" run train "$@" --out run
        case $code in
            0) cmp -s {alone,run}/best.safetensors && cmp -s {alone,run}/checkpoint.safetensors || fail "$kind $n: other weights" ;;
            1) grep -qE "$lacking" err || fail "$kind $n: no line says that memory is lacking: $(<err)" ;;
            *) fail "$kind $n: exit code $code: $(<err)" ;;
        esac
    done
}

each_lacks malloc 7 "${net[@]}" --devices cpu --opt-level O1
# The allocations of the libraries that decode images and write records.
"$program" data synth --out data --classes 2 --train 3 --val 1 --size 48 >/dev/null || fail "no images"
each_lacks malloc-library 7 "${net[@]:7}" data --val-batch-size 1
finish
