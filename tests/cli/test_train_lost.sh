#!/usr/bin/env bash
# If a rank dies, hangs, or has other settings or data than the others, the whole job ends within
# the time limit, with one line that names the rank. The record is complete, and the run can be
# resumed.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"
. "$(dirname "$0")/jobs.sh"
job_may_lose
cd "$scratch" || exit 1

noise=(--dummy --dummy-train 480 --dummy-val 8 --classes 3 --threads 1 -j 1 --checkpoint-steps 7)
endless=("${noise[@]}" --epochs 1000 --comm-timeout 3)

# lost NAME LAUNCHER RANKS SIGNAL RANK CODE LINE: sends the signal to the rank after the first
# epoch. The job must print the line and exit with the code ("-": any code except 0). The record
# must have every epoch and step that was recorded before the signal. The run is then resumed from
# the checkpoint.
lost() {
    local name=$1 rank=$5 epochs steps last
    touch before
    job_start "$2" "$3" "${endless[@]}" --out "$name"
    job_until "$name/epochs.jsonl"
    job_until "$name/checkpoint-prev.safetensors"
    epochs=$(wc -l <"$name/epochs.jsonl") steps=$(grep -c '"images"' "$name/steps.jsonl")
    job_kill "$4" "$rank" >pid
    job_end 15
    [[ $6 == "$code" || $6 == - && $code != 0 ]] || fail "$name: exited with $code, not $6"
    job_says_lost "$2" "$4" "$rank" "$(<pid)" "$7"
    run_values "$name" >values || fail "$name: the record cannot be read"
    [[ $4 != STOP || $rank == 0 ]] || grep -q '"outcome": "lost rank"' "$name/outcome.json" || fail "$name: the outcome is not that of a lost rank"
    (($(grep -c '^epoch' values) >= epochs)) || fail "$name: an epoch is lost"
    (($(grep -c '^step' values) >= steps)) || fail "$name: a step is lost"
    last=$(sed -nE 's/^step ([0-9]+) .*/\1/p' values | tail -n 1)
    train "${noise[@]}" --epochs 1000 --out "$name" --resume auto --steps $((last + 3))
    ((code == 0)) || fail "$name: does not resume: $(<err)"
    [[ $(run_values "$name" | tail -n 1) == completed ]] || fail "$name: incomplete"
}

dead='was lost (in|after) operation [0-9]+.*: its connection was closed'
stuck='did not reach operation [0-9]+.* within 3 s; it may have died or be stuck'
lost kill mpirun 2 KILL 1 - "$dead"
lost kill-first mpirun 3 KILL 0 - "$dead"
# Open MPI 4 resumes a stopped rank before it kills the rank, by default after one second. In three
# seconds, the resumed rank would have enough time to report rank 0 as lost.
export OMPI_MCA_odls_base_sigkill_timeout=3
lost stop mpirun 2 STOP 1 1 "$stuck"
unset OMPI_MCA_odls_base_sigkill_timeout
lost stop-first mpirun 3 STOP 0 1 "$stuck"
lost launch-kill launch 2 KILL 1 137 "was killed by signal 9 \(SIGKILL\)"
lost launch-stop launch 2 STOP 0 1 "$stuck"

# Without MPI and launcher, rank 1 speaks for a rank 0 that was lost, and the others are silent.
gloo=("${noise[@]}" --epochs 1000 --mode ddp --rendezvous 127.0.0.1:$((20000 + $$ % 10000)) --out alone)
for rank in 0 1 2; do
    RANK=$rank WORLD_SIZE=3 LOCAL_RANK=$rank "${limited[@]}" "$program" train "${net[@]}" "${gloo[@]}" >/dev/null 2>err$rank </dev/null &
    ranks[rank]=$!
done
await 60 grep -qsF -- '"epoch"' alone/epochs.jsonl
pkill -KILL -P "${ranks[0]}" || kill -KILL "${ranks[0]}"
for rank in 1 2; do
    code=0
    wait "${ranks[rank]}" || code=$?
    ((code == 1)) || fail "rank $rank of a job whose rank 0 was killed exits with $code: $(<err$rank)"
done
{ wait "${ranks[0]}"; } 2>/dev/null
cp err1 err
one_line "rank 1 of a job whose rank 0 was killed" "ampscale: rank 0 (host $(uname -n), pid "
[[ ! -s err2 ]] || fail "rank 2 of a job whose rank 0 was killed says: $(<err2)"

# A rank 0 that is busy, as with the lock of its folder, is named by another.
mkdir busy
flock --no-fork busy sleep 1000 &
expect 1 launch --nproc 2 --comm gloo -- train "${net[@]}" "${noise[@]}" --epochs 1 --comm-timeout 1 --out busy
sed -i '/the output of each is in/d' err
one_line "a rank 0 that is busy" "ampscale: rank 0 (host $(uname -n), pid "
grep -q "the process is alive, but busy with something else" err || fail "a rank 0 that is busy: $(<err)"
kill %% && wait %% 2>/dev/null

# No file can grow, so that no log has the reason of rank 0, which says it itself.
(ulimit -f 0 && exec "${limited[@]}" "$program" launch --nproc 2 --comm gloo --log-dir full-logs -- \
    train "${net[@]}" "${noise[@]}" --epochs 1 --out full 2>&1 >/dev/null </dev/null) | grep -v ' the output of each is in ' >err
one_line "a job that cannot write" "ampscale: cannot write 'full/run.json': File too large"

# What a rank remarks before it fails is not the reason.
expect_train 0 "${noise[@]}" --classes 4 --dummy-train 8 --epochs 1 --out four
expect 1 launch --nproc 2 --comm gloo -- train "${net[@]}" "${noise[@]}" --epochs 9 --lr 1e5 --on-nan stop --init four/best.safetensors --out five
[[ $(grep -v -e 'warning: ' -e ' the output of each is in ' err) == "ampscale: "*"training diverged at "* ]] ||
    fail "a remark is taken for the reason: $(<err)"

# With steps.jsonl, the ranks of a resumed run's attempts are lost. The run continues, more than once,
# also from the same checkpoint, and keeps all rows of ranks.
resume() { expect 0 launch --nproc 2 --comm gloo -- train "${net[@]}" "${noise[@]}" --epochs $1 --out resumed --resume auto; }
resume 1
resume 2
cp resumed/checkpoint.safetensors kept
for epochs in 3 3 4; do
    ((epochs == 4)) || { cp kept resumed/checkpoint.safetensors && rm resumed/steps.jsonl; }
    resume $epochs
    grep -q "warning: the record in 'resumed' lacks rows" err || fail "resumed: no warning: $(<err)"
done
for epoch in 0 1 2; do
    (($(cat resumed/ranks*.jsonl | grep -c "\"epoch\":$epoch,\"rank\"") >= 2)) || fail "rows of ranks of epoch $epoch are lost"
done

# disagree LINE PROGRAM ARGS...: starts rank 2 of 3 with other arguments than ranks 0 and 1. A
# script selects the arguments, because Open MPI 5.0.7 crashes with mpirun's own syntax for that
# ("... : -n 1 ..."). Ranks write their messages to a file, since a launcher of Open MPI 4 may lose
# the last messages when it ends a job.
few=(train "${net[@]}" "${noise[@]}" --epochs 1)
disagree() {
    local line=$1
    shift
    rm -rf other said
    printf '#!/usr/bin/env bash\nexec 2>>said\n[[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} != 2 ]] || exec %s\nexec %s\n' \
        "$(printf '%q ' "$@")" "$(printf '%q ' "$program" "${few[@]}" --out other)" >rank
    chmod +x rank
    mpi_run 100 3 ./rank
    cat said >>err
    ((code == 2)) || fail "'$line': exited with $code, not 2"
    job_says "rank 2 \(host [^ ]+\) has $line; all ranks need the same value"
    [[ ! -e other ]] || fail "'$line': a run was begun"
}
has() {
    echo "$1 = $2, but rank 0 \(host [^ ]+\) has $3"
}
any='"[0-9a-f]+"'
disagree "$(has lr 0.06 0.05)" "$program" "${few[@]}" --lr 0.06
disagree "$(has mode '"ddp2"' '"ddp"')" "$program" "${few[@]}" --devices cpu:2
cp "$program" twin && echo >>twin
disagree "$(has "program file" "$any" "$any")" ./twin "${few[@]}"

# Two folders with the same number of images and the same names. The bytes of the images differ.
make_data data
cp -r data data-2
few=(train "${net[@]}" --threads 1 -j 1 --epochs 1 data)
image=$(find data-2/train -type f | sort | head -n 1)
printf '\0' >>"$image"
disagree "$(has "fingerprint of the data" "$any" "$any")" "$program" "${few[@]/%data/data-2}"
finish
