#!/usr/bin/env bash
# Kills runs of every mode at random moments, and resumes them:
#
#     kills.sh PROGRAM SOURCE_DIR BUILD_DIR [KILLS [MODE ...]]
#
# The run of each mode is killed KILLS times (default 10). Each time, SIGKILL ends one process of
# the job, chosen at random. The whole job must end in time, and no recorded epoch may be lost. The
# completed run must have the bytes of an undisturbed run. SEED=N changes the moments. Prints the
# table that docs/explanation/reliability.md sums up.
. "$(dirname "$0")/../cli/common.sh" "${@:1:3}"
. "$source_dir/tests/cli/train.sh"
. "$source_dir/tests/attack/jobs.sh"
cd "$scratch" || exit 1
kills=${4:-10} modes=("${@:5}") RANDOM=${SEED:-20}
make_data data
# shellcheck disable=SC2034 # mode_start uses them by their names
jpeg=(data) dummy=(--dummy --classes 3 --dummy-train 36 --dummy-val 12)
((${#modes[@]} > 0)) || modes=(nd-fp32-jpeg nd-O1-jpeg nd-O2-dummy dp-fp32-jpeg dp-O2-dummy mpi-fp32-jpeg
    mpi-O1-dummy launch-O1-jpeg tcp-fp32-dummy tcp-O2-jpeg ddp2-fp32-jpeg ddp2-O1-dummy)

# mode_start MODE ARGS...: starts a job in the background.
mode_start() {
    local how precision input args ranks=2
    IFS=- read -r how precision input <<<"$1"
    local -n images=$input
    args=("${net[@]}" "${images[@]}" --threads 1 -j 1 --checkpoint-steps 3 --comm-timeout 5 "${@:2}")
    [[ $precision == fp32 ]] || args+=(--opt-level "$precision")
    case $how in
    nd) how=alone ranks=1 ;;
    dp) how=alone ranks=1 args+=(--devices cpu:2) ;;
    ddp2) how=mpi args+=(--mode ddp2 --devices cpu:2 -b 4) ;;
    *) args+=(--mode ddp -b 4) ;;
    esac
    job_start "$how" "$ranks" "${args[@]}"
    disown -a # otherwise the shell prints a message for each killed job
}

# gone SECONDS: waits at most SECONDS until the job and all its processes have ended.
gone() {
    local i
    for ((i = 0; i < 10 * $1; i++)); do
        kill -0 "${jobs[@]}" 2>/dev/null || [[ -n $(processes) ]] || return 0
        sleep 0.1
    done
    return 1
}

# completed MODE ARGS...: runs the mode to its end. Tries again if another process has taken the
# port of a rendezvous.
completed() {
    local try
    for ((try = 0; try < 5; try++)); do
        mode_start "$@"
        gone 600 || fail "$1: does not end"
        grep -q 'rank 0 cannot listen' err || break
    done
}

# attempt MODE: starts the run, and kills one of its processes at a random moment: a third of the
# moments are during the start of a job, a third after a step, and a third after an epoch.
attempt() {
    local mode=$1 i pids=() moments=("" steps.jsonl epochs.jsonl) until
    until=${moments[RANDOM % 3]}
    touch before
    mode_start "$mode" --epochs 100000 --out "$mode" --resume auto
    for ((i = 0; i < 600; i++)); do
        [[ -n $until && ! $mode/$until -nt before ]] || break
        sleep 0.05
    done
    sleep "0.$((RANDOM % 10))$((RANDOM % 10))"
    for ((i = 0; i < 200 && ${#pids[@]} == 0; i++)); do
        sleep 0.05
        mapfile -t pids < <(processes)
    done
    ((${#pids[@]} > 0)) && kill -KILL "${pids[RANDOM % ${#pids[@]}]}" 2>/dev/null && ((++killed))
    gone 90 && return
    if [[ -z $(processes) ]]; then
        ((++stuck)) # Open MPI's mpirun can lock up when a rank is killed as it starts
        kill -KILL "${jobs[@]}"
    else
        fail "$mode: processes still run 90 s after a kill: $(processes | xargs ps -o pid,args -p)"
        ((++hangs))
        processes | xargs -r kill -KILL
    fi
    gone 10
}

# attack MODE
attack() {
    local mode=$1 i epochs=0 now lost=0 steps same=yes before=$failures
    killed=0 hangs=0 stuck=0
    : >values
    for ((i = 0; i < kills; i++)); do
        attempt "$mode"
        [[ -e $mode/run.json ]] || continue
        run_values "$mode" >values 2>&1 || fail "$mode: the record cannot be read: $(head -n 2 values)"
        now=$(grep -c '^epoch' values)
        ((now >= epochs)) || { fail "$mode: the record has $now epochs, but had $epochs before" && lost=$((lost + epochs - now)); }
        epochs=$now
    done
    steps=$(($(grep -c '^step' values) + 10))
    completed "$mode" --epochs 100000 --steps "$steps" --out "$mode" --resume auto
    completed "$mode" --epochs 100000 --steps "$steps" --out "$mode-reference"
    same_run "$mode" "$mode-reference" "$mode"
    ((failures == before)) || same=no
    printf '| %s | %d | %d | %d | %d | %d | %d | %s |\n' "$mode" "$killed" "$steps" "$epochs" "$lost" "$hangs" "$stuck" "$same"
}

printf '| mode, precision, images | kills | steps | epochs | epochs lost | hangs | mpirun hangs | same bytes |\n|---|---:|---:|---:|---:|---:|---:|---|\n'
for mode in "${modes[@]}"; do
    [[ $mode == nd* || $mode == dp* || $mode == tcp* ]] || has_mpi || continue
    attack "$mode"
done
finish
