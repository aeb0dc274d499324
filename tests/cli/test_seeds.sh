#!/usr/bin/env bash
# seeds.tsv has command lines that are quoted from documents. Runs them on CPUs, with small settings
# appended. AMPSCALE_TEST_PART=1/2 runs the first half of the rows, 2/2 the second half.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
# shellcheck source=tests/comm/mpi.sh
. "$source_dir/tests/comm/mpi.sh"
cd "$scratch" || exit 1
unset OMPI_COMM_WORLD_RANK PMI_RANK RANK WORLD_SIZE LOCAL_RANK SLURM_PROCID MASTER_ADDR MASTER_PORT AMPSCALE_SECRET
part=${AMPSCALE_TEST_PART:-1/1}

# A job on one node starts with mpirun if the mpirun of the program's MPI is installed, else without
# MPI.
single=(--nnodes 1)
if (mpi_find "$("$build_dir/tests/comm/mpi_ranks" version)") >/dev/null; then
    mpi_find "$("$build_dir/tests/comm/mpi_ranks" version)"
    single=(--mpirun "${mpi_launch[0]}")
fi
"$program" data synth --out data --classes 2 --train 16 --val 8 --size 32 >log 2>&1 || { fail "data synth failed: $(cat log)" && finish; }

# The function that the document passes to --remote-transfer-cmd. A folder replaces the S3 bucket.
mkdir bucket
printf 'import shutil\n\ndef save_to_s3(source_path):\n    shutil.copy(source_path, "bucket")\n' >mysave.py

# translate LINE: prints the line with `ampscale` in place of the scripts, and with the paths and
# addresses of this test.
translate() {
    sed -E -e 's/.* => //' \
        -e 's/python -m torch\.distributed\.launch|torchrun/ampscale launch/; s/^horovodrun/ampscale launch/' \
        -e 's/^python +run_visualizer_local\.py/ampscale watch/' \
        -e 's/^python +(cli\.py train|[a-z_]+\.py)/ampscale train/; s/python train\.py/train data/' \
        -e 's/cli\.py train|[a-z_]+\.py/train/' \
        -e 's#<data_dir>|/home/shared/imagenet/raw/|\{root_folder\}#data#; s/<log_dir>/logs/; s/<pickle_dir>/runs/' \
        -e "s/MASTER_IP:MASTER_PORT|hostname1:29400/127.0.0.1:$port/; s/192\.168\.100\.11/127.0.0.1/; s/--master_port=8888/--master_port=$port/" <<<"$1"
}

# Settings that make a run short. If a line tests a setting, the value in the line is used.
small=(-a resnet8 --image-size 16 --val-batch-size 4 --workers 1 -p 100 --telemetry 0 --comm-timeout 100)

# arguments LINE NAME SHOWS: fills `words` with the program's arguments for a line.
arguments() {
    local line shows=$3
    line=$(translate "$1")
    eval "words=(${line#ampscale })"
    [[ $line != "ampscale train"* && $line != *" train "* ]] && return
    words+=("${small[@]}" --out "$2")
    [[ $line == *--epochs* ]] || words+=(--epochs 1)
    [[ $line == *"=> "*-b\ * || $shows == *images* || $line == *--batch_size* ]] || words+=(-b 2)
    if [[ $line != *--devices* ]]; then
        [[ $shows == dp* ]] && words+=(--devices cpu:2) || words+=(--devices cpu)
    fi
    [[ $line == *--multiprocessing* || $line == "ampscale launch"* ]] || words+=(--threads 1)
    if [[ ${words[0]} == launch && $line != *--nnodes* ]]; then
        words=(launch "${single[@]}" "${words[@]:1}")
    fi
}

# start NAME: runs $words in the background; adds its process id to `pids`.
start() {
    timeout -k 5 200 "$program" "${words[@]}" >"$1.out" 2>"$1.err" </dev/null &
    pids+=($!)
    names+=("$1")
}

# settle SHOWS RUN: waits for the started processes. Checks that one of them prints the text SHOWS,
# and that all exit with code 0.
settle() {
    local i code shown=
    for i in "${!pids[@]}"; do
        code=0
        wait "${pids[i]}" || code=$?
        ((code == 0)) || fail "$where: a process ended with exit code $code: $(head -c 400 "${names[i]}.err")"
        ! grep -qF -- "$1" "${names[i]}.out" || shown=1
    done
    [[ $shown ]] || fail "$where: does not show '$1': $(head -c 400 "${names[@]/%/.out}")"
    [[ -e $2/summary.json ]] || fail "$where: the run did not finish"
    pids=() names=()
}

# Processes of a job in which each command line starts one node. `nodes` counts the nodes that have
# been started.
pids=() names=() nodes=0
row=0
mapfile -t rows < <(grep -v '^#' "$source_dir/tests/cli/seeds.tsv")
first=$((${#rows[@]} * (${part%/*} - 1) / ${part#*/}))
last=$((${#rows[@]} * ${part%/*} / ${part#*/}))
whole_job() { # the row with which a part begins: the nodes of a job stay in one part
    local i=$1
    while ((i > 0 && i < ${#rows[@]})) && [[ ${rows[i]} == *$'\tnode\t'* ]]; do i=$((i + 1)); done
    echo "$i"
}
first=$(whole_job "$first") last=$(whole_job "$last")
for ((row = first; row < last; row++)); do
    IFS=$'\t' read -r where outcome shows line <<<"${rows[row]}"
    [[ $outcome == node && $nodes -gt 0 ]] || port=$((20000 + RANDOM % 12000))
    [[ $outcome != other ]] || continue
    run="run$((row - nodes))"
    arguments "$line" "$run" "$shows"
    case $outcome in
    runs | equal)
        start "row$row"
        settle "$shows" "$run"
        ;;
    node)
        start "row$row"
        nodes=$((nodes + 1))
        next=${rows[row + 1]:-}
        # All nodes of the job have started if the next line has another outcome or another text, or
        # starts node 0 of another job.
        if [[ $next != *$'\tnode\t'"$shows"$'\t'* || $next =~ (rank[ =]0) ]]; then
            settle "$shows" "$run"
            nodes=0
        fi
        ;;
    pods)
        for rank in 0 1; do
            RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port start "row$row-$rank"
        done
        settle "$shows" "$run"
        ;;
    refused)
        expect 2 "${words[@]}"
        grep -qF -- "$shows" "$scratch/err" || fail "$where: does not say '$shows': $(cat "$scratch/err")"
        [[ ! -e $run ]] || fail "$where: the command was refused, but made the folder $run"
        ;;
    dry)
        [[ ${single[0]} == --mpirun ]] || continue
        expect 0 launch --dry-run "${words[@]:1}"
        grep -qE -- "$shows" "$scratch/out" || fail "$where: prints $(cat "$scratch/out")"
        ;;
    *) fail "$where: the test does not know the outcome '$outcome'" ;;
    esac
done
echo "tested rows $first to $((last - 1)) of ${#rows[@]}"
finish
