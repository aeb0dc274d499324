#!/usr/bin/env bash
# seeds.tsv has command lines that are quoted from documents. Runs them on CPUs, with small settings
# appended.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
# shellcheck source=tests/comm/mpi.sh
. "$source_dir/tests/comm/mpi.sh"
cd "$scratch" || exit 1
unset OMPI_COMM_WORLD_RANK PMI_RANK RANK WORLD_SIZE LOCAL_RANK SLURM_PROCID MASTER_ADDR MASTER_PORT AMPSCALE_SECRET

# A job on one node starts with mpirun if the mpirun of the program's MPI is installed, else without
# MPI.
single=(--nnodes 1)
mpi=$("$build_dir/tests/comm/mpi_ranks" version) || fail "the build does not say with which MPI"
! (mpi_find "$mpi") >/dev/null || { mpi_find "$mpi" && single=(--mpirun "${mpi_launch[0]}"); }
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

# start: runs $words in the background, as one of the processes of $run.
pids=()
start() {
    timeout -k 5 200 "$program" "${words[@]}" >"$run-${#pids[@]}.out" 2>"$run-${#pids[@]}.err" </dev/null &
    pids+=($!)
}

# settle: waits for the started processes. Checks that all exit with code 0, that one of them prints
# the text $shows, and that the run is complete.
settle() {
    local pid
    for pid in "${pids[@]}"; do
        wait "$pid" || fail "$where: a process ended with exit code $?: $(head -qc 400 "$run"-*.err)"
    done
    grep -qF -- "$shows" "$run"-*.out || fail "$where: does not show '$shows': $(head -qc 400 "$run"-*.out)"
    [[ -e $run/summary.json ]] || fail "$where: the run did not finish"
    pids=()
}

mapfile -t rows < <(grep -v '^#' "$source_dir/tests/cli/seeds.tsv")
for row in "${!rows[@]}"; do
    IFS=$'\t' read -r where outcome shows line <<<"${rows[row]}"
    [[ $outcome != other ]] || continue
    if ((${#pids[@]} == 0)); then # else it is another node of the same job
        port=$((20000 + RANDOM % 12000)) run=run$row
    fi
    arguments "$line" "$run" "$shows"
    case $outcome in
    runs | equal)
        start
        settle
        ;;
    node)
        start
        # All nodes of the job have started if the next line has another outcome or another text, or
        # starts node 0 of another job.
        next=${rows[row + 1]:-}
        [[ $next == *$'\tnode\t'"$shows"$'\t'* && ! $next =~ (rank[ =]0) ]] || settle
        ;;
    pods)
        for rank in 0 1; do
            RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port start
        done
        settle
        ;;
    refused)
        expect 2 "${words[@]}"
        grep -qF -- "$shows" err || fail "$where: does not say '$shows': $(cat err)"
        [[ ! -e $run ]] || fail "$where: the command was refused, but made the folder $run"
        ;;
    dry)
        [[ ${single[0]} == --mpirun ]] || continue
        expect 0 launch --dry-run "${words[@]:1}"
        grep -qE -- "$shows" out || fail "$where: prints $(cat out)"
        ;;
    *) fail "$where: the test does not know the outcome '$outcome'" ;;
    esac
done
finish
