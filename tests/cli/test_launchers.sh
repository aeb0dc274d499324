#!/usr/bin/env bash
# Starts the same two ranks by every installed launcher. The results are bitwise equal with every
# transport, because the sum of two numbers does not depend on their order. torchrun comes with
# PyTorch; it also restarts a job after one of its ranks was killed.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
# shellcheck source=tests/comm/mpi.sh
. "$source_dir/tests/comm/mpi.sh"
cd "$scratch" || exit 1
unset "${!SLURM_@}" "${!PMI_@}" "${!OMPI_COMM_@}" "${!TORCHELASTIC_@}" RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT AMPSCALE_SECRET AMPSCALE_JOB
cp "$program" ampscale
[[ ! -e $build_dir/cli/ampscale_gloo.so ]] || cp "$build_dir/cli/ampscale_gloo.so" .
program=$scratch/ampscale
ranks=(train --dummy --dummy-train 24 --dummy-val 4 --classes 5 -a resnet8 --image-size 16 --epochs 1 -b 4
    --devices ref --mode ddp --comm-timeout 100 -p 1 --telemetry 0 --threads 1)
port=$((20000 + RANDOM % 12000))

# --- launchers: each is a function that starts two ranks of "$program ARGS...", or prints why it
# cannot ---

by_launch_without_mpi() { timeout 100 "$program" launch --nnodes 1 --nproc 2 --log-dir logs "$@"; }

by_variables() {
    local rank pids=()
    for rank in 0 1; do
        RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout 100 "$program" "$@" &
        pids+=($!)
    done
    wait "${pids[0]}" && wait "${pids[1]}"
}

by_mpirun() {
    (mpi_find "$("$build_dir/tests/comm/mpi_ranks" version)") || return 77
    mpi_find "$("$build_dir/tests/comm/mpi_ranks" version)"
    timeout 100 "${mpi_launch[@]}" -n 2 "$program" "$@"
}

by_launch_with_mpi() {
    (mpi_find "$("$build_dir/tests/comm/mpi_ranks" version)") || return 77
    mpi_find "$("$build_dir/tests/comm/mpi_ranks" version)"
    timeout 100 "$program" launch --mpirun "${mpi_launch[0]}" --nproc 2 --log-dir logs "$@"
}

# The torchrun of Debian 12 does not work, so torchrun is first tried with the command "true".
torchrun_works=
timeout 60 torchrun --standalone --no_python --nproc_per_node 1 true >/dev/null 2>&1 && torchrun_works=yes
by_torchrun() {
    [[ -n $torchrun_works ]] || { echo "skipped: there is no torchrun of PyTorch that works" && return 77; }
    timeout 250 torchrun --standalone --no_python --nproc_per_node 2 "$program" "$@"
}

by_srun() {
    command -v srun || { echo "skipped: srun of Slurm is not installed" && return 77; }
    timeout 100 srun -n 2 true || { echo "skipped: there is no Slurm cluster" && return 77; }
    timeout 100 srun -n 2 "$program" "$@" --rendezvous "127.0.0.1:$port"
}

reference=launch_without_mpi
printf '%-20s %s\n' "started by" "result"
for name in launch_without_mpi variables mpirun launch_with_mpi torchrun srun; do
    code=0
    "by_$name" "${ranks[@]}" --out "$name" >"$name.out" 2>"$name.err" </dev/null || code=$?
    if ((code == 77)); then
        printf '%-20s %s\n' "$name" "$(tail -n 1 "$name.out")"
        continue
    fi
    ((code == 0)) || { fail "the job '$name' exited with $code: $(cat "$name.err")" && continue; }
    grep -q "^ddp: 2 ranks of 1 device, 8 images per step" "$name.out" || fail "$name: $(head -n 3 "$name.out")"
    before=$failures
    [[ $name == "$reference" ]] || same_run "$name" "$reference" "$name"
    ((failures > before)) || printf '%-20s %s\n' "$name" "$(sed -n 's/^ddp: .* over /same bits, over /p' "$name.out")"
done

# After a rank was killed, torchrun's agent restarts both ranks. The result is bitwise equal to that
# of an uninterrupted run.
if [[ -n $torchrun_works ]]; then
    long=("${ranks[@]/24/640}" --checkpoint-steps 5)
    timeout 250 torchrun --standalone --no_python --nproc_per_node 2 --max_restarts 2 "$program" "${long[@]}" \
        --resume auto --out restarted >restarted.out 2>restarted.err </dev/null &
    job=$!
    for ((i = 0; i < 1200; i++)); do
        [[ ! -e restarted/checkpoint.safetensors ]] || break
        sleep 0.05
    done
    for exe in /proc/[0-9]*; do
        [[ $(readlink "$exe/exe" 2>/dev/null) == "$program" ]] || continue
        rank=$(tr '\0' '\n' <"$exe/environ" | sed -n 's/^RANK=//p')
        [[ $rank != 1 ]] || kill -KILL "${exe#/proc/}"
    done
    code=0
    wait "$job" || code=$?
    ((code == 0)) || fail "torchrun --max-restarts ended with exit code $code: $(cat restarted.err)"
    grep -q "^Resuming at epoch 0, step" restarted.out || fail "torchrun did not restart: $(cat restarted.err)"
    by_launch_without_mpi "${long[@]}" --out whole >whole.out 2>&1 || fail "$(cat whole.out)"
    same_run "a restart by torchrun" whole restarted
fi
finish
