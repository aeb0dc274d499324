#!/usr/bin/env bash
# Kills runs of every mode at random moments, and resumes them:
#
#     kills.sh PROGRAM SOURCE_DIR BUILD_DIR [KILLS [MODE ...]]
#
# The run of each mode is killed KILLS times (default 10). Each time, SIGKILL ends one process of
# the job, chosen at random. The whole job must end in time, and no recorded epoch may be lost. The
# completed run must have the bytes of an undisturbed run. SEED=N changes the moments. Prints the
# table of docs/reliability.md.
. "$(dirname "$0")/../cli/common.sh" "${@:1:3}"
. "$source_dir/tests/cli/train.sh"
. "$source_dir/tests/cli/ranks.sh"
cp "$program" "$scratch/ampscale"
program=$scratch/ampscale
cd "$scratch" || exit 1
kills=${4:-10} modes=("${@:5}") RANDOM=${SEED:-20}
unset RANK WORLD_SIZE LOCAL_RANK SLURM_PROCID AMPSCALE_SECRET AMPSCALE_JOB
make_data data
jpeg=(data) dummy=(--dummy --classes 3 --dummy-train 36 --dummy-val 12)
((${#modes[@]} > 0)) || modes=(nd-fp32-jpeg nd-O1-jpeg nd-O2-dummy dp-fp32-jpeg dp-O2-dummy mpi-fp32-jpeg
    mpi-O1-dummy launch-O1-jpeg tcp-fp32-dummy tcp-O2-jpeg ddp2-fp32-jpeg ddp2-O1-dummy)

# processes [WORD]: prints the process IDs of this program. With WORD, prints only processes that
# have WORD as an argument.
processes() {
    local exe pid
    find /proc/[0-9]*/exe -maxdepth 0 -lname "$program" 2>/dev/null | while read -r exe; do
        pid=${exe:6:-4}
        [[ -z ${1-} ]] || grep -qzx -- "$1" "/proc/$pid/cmdline" || continue
        echo "$pid"
    done 2>/dev/null
}

# mode_start, mode_job MODE ARGS...: starts the job in the background.
mode_start() {
    jobs=()
    mode_job "$@"
    disown -a # otherwise the shell prints a message for each killed job
}

mode_job() {
    local mode=$1 how precision input args start=() rank port
    IFS=- read -r how precision input <<<"$mode"
    shift
    local -n images=$input
    args=(train "${net[@]}" "${images[@]}" --threads 1 -j 1 --checkpoint-steps 3 --comm-timeout 5 "$@")
    [[ $precision == fp32 ]] || args+=(--opt-level "$precision")
    case $how in
    nd) ;;
    dp) args+=(--devices cpu:2) ;;
    mpi) start=("${mpi_launch[@]}" -n 2) args+=(--mode ddp -b 4) ;;
    ddp2) start=("${mpi_launch[@]}" -n 2) args+=(--mode ddp2 --devices cpu:2 -b 4) ;;
    launch)
        args+=(--mode ddp -b 4)
        "$program" launch --mpirun "${mpi_launch[0]}" --nproc 2 --log-dir logs -- "${args[@]}" >out 2>err </dev/null &
        jobs+=($!)
        return
        ;;
    tcp)
        port=$((20000 + RANDOM % 12000))
        for rank in 0 1; do
            RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank "$program" "${args[@]}" --mode ddp -b 4 \
                --rendezvous "127.0.0.1:$port" >"out$rank" 2>"err$rank" </dev/null &
            jobs+=($!)
        done
        return
        ;;
    esac
    "${start[@]}" "$program" "${args[@]}" >out 2>err </dev/null &
    jobs+=($!)
}

# running: whether the job or one of its processes still runs.
running() {
    kill -0 "${jobs[@]}" 2>/dev/null || [[ -n $(processes) ]]
}

# gone SECONDS: waits at most SECONDS until the job has ended.
gone() {
    local i
    for ((i = 0; i < 10 * $1; i++)); do
        running || return 0
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
        ! grep -qs 'rank 0 cannot listen' err0 || continue
        break
    done
}

# attempt MODE: starts the run, and kills one of its processes at a random moment.
attempt() {
    local mode=$1 i pids moments=("" steps.jsonl epochs.jsonl) until
    until=${moments[RANDOM % 3]}
    touch before
    mode_start "$mode" --epochs 100000 --out "$mode" --resume auto
    # A third of the moments are during the start of a job, a third after a step, and a third after
    # an epoch.
    for ((i = 0; i < 600; i++)); do
        [[ -n $until && ! $mode/$until -nt before ]] || break
        sleep 0.05
    done
    sleep "0.$((RANDOM % 10))$((RANDOM % 10))"
    for ((i = 0; i < 200; i++)); do
        mapfile -t pids < <(processes)
        ((${#pids[@]} == 0)) || break
        sleep 0.05
    done
    ((${#pids[@]} > 0)) && kill -KILL "${pids[RANDOM % ${#pids[@]}]}" 2>/dev/null && ((++killed))
    gone 90 && return
    if [[ -z $(processes) ]]; then
        ((++stuck)) # Open MPI's mpirun can lock up when a rank is killed as it starts
        kill -KILL "${jobs[@]}"
        gone 10
        return
    fi
    fail "$mode: processes still run 90 s after a kill: $(processes | xargs ps -o pid,args -p)"
    ((++hangs))
    processes | xargs -r kill -KILL
    gone 10
}

# attack MODE
attack() {
    local mode=$1 i epochs=0 now lost=0 steps same=yes before=$failures
    killed=0 hangs=0 stuck=0
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
    attack "$mode"
done
finish
