#!/usr/bin/env bash
# Trains a tiny network in many ranks on one machine. Measures the time until all ranks have
# joined, the time until a step is trained, the memory, and the size of the records. Then kills one
# rank, and checks that a message names the rank. The arguments after the three arguments of
# common.sh are launch:RANKS (by MPI) and tcp:RANKS (by a rendezvous). Prints the table that
# docs/explanation/reliability.md sums up.
. "$(dirname "$0")/../cli/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
. "$source_dir/tests/attack/jobs.sh"
cd "$scratch" || exit 1
sanitized && skip "a rank with a sanitizer takes ten times the memory"
shift 3
(($# > 0)) || set -- launch:64 tcp:64 launch:256 tcp:256

# seconds SINCE: prints the seconds that have passed since SINCE.
seconds() {
    awk -v a="$1" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }'
}

# rank_pid RANK: prints the process ID of the rank.
rank_pid() {
    local pid
    for pid in $(processes train); do
        ! grep -qzE "^(OMPI_COMM_WORLD_RANK|PMI_RANK|RANK)=$1\$" "/proc/$pid/environ" || echo "$pid"
    done 2>/dev/null | head -n 1
}

# memory: prints "PSS LARGEST THREADS": the mean and the maximum memory of a rank in MiB, and the
# maximum number of threads of a rank.
memory() {
    local pid
    for pid in $(processes train); do
        cat "/proc/$pid/smaps_rollup" "/proc/$pid/status" 2>/dev/null
    done | awk '$1 == "Pss:" { n++; sum += $2; if ($2 > most) most = $2 } $1 == "Threads:" && $2 > threads { threads = $2 }
        END { printf "%.1f %.1f %d", sum / n / 1024, most / 1024, threads }'
}

# await FILE: waits until FILE is not empty; fails if the job ends before.
await() {
    until [[ -s $1 ]]; do
        kill -0 "${jobs[0]}" 2>/dev/null || return 1
        sleep 0.1
    done
}

# measure KIND RANKS: prints a line of the table. The dummy images suffice for a few steps of an
# epoch; each rank's batch is one image.
measure() {
    local kind=$1 n=$2 since met step pss most threads victim=$(($2 * 3 / 5)) pid ended code=0 line
    rm -rf run logs
    since=$(date +%s.%N)
    job_start "$kind" "$n" --dummy --dummy-train $((n * 4)) --dummy-val "$n" --classes 2 -a resnet8 --image-size 8 -b 1 \
        --threads 1 -j 1 -p 1000 --epochs 1000000 --mode ddp --comm-timeout 900 --out run
    if ! await run/run.json || ! { met=$(seconds "$since") && await run/steps.jsonl; } || ! { step=$(seconds "$since") && await run/epochs.jsonl; }; then
        fail "$kind:$n: the run ended before its first epoch: $(head -n 3 err)"
        kill -KILL "${jobs[@]}" 2>/dev/null
        { wait; } 2>/dev/null
        return
    fi
    read -r pss most threads < <(memory)
    pid=$(rank_pid "$victim")
    since=$(date +%s.%N)
    kill -KILL "$pid" 2>/dev/null || fail "$kind:$n: rank $victim does not run"
    { wait "${jobs[0]}"; } 2>/dev/null || code=$?
    ended=$(seconds "$since")
    { wait; } 2>/dev/null
    line=$(grep -aE "^ampscale: (the connection to )?rank $victim " err | head -n 1)
    [[ $line == *" was killed by signal 9 "* || $line == *" was lost"* ]] || fail "$kind:$n: no message says that rank $victim was killed or lost: $(head -n 5 err)"
    [[ $(grep -ac 'ampscale: .*rank ' err) -le 3 ]] || fail "$kind:$n: $(grep -ac 'ampscale: .*rank ' err) messages about ranks, not at most 3: $(head -n 5 err)"
    ((code != 0)) || fail "$kind:$n: the exit code is 0 although a rank was killed"
    [[ -z $(processes train) ]] || fail "$kind:$n: ranks still run after the end of the job: $(processes train | head -n 3)"
    printf '| %s, %d ranks | %s | %s | %s | %s | %d | %d | %d | %s |\n' "$kind" "$n" "$met" "$step" "$pss" "$most" "$threads" \
        "$(wc -c <run/run.json)" "$(($(wc -c <run/ranks.jsonl) / $(wc -l <run/epochs.jsonl)))" "$ended"
    echo "$line" >&2
}

echo '| job | joined, s | first step, s | memory of a rank, MiB | largest | threads | run.json, bytes | ranks.jsonl, bytes an epoch | all ended after the kill, s |'
echo '|---|---:|---:|---:|---:|---:|---:|---:|---:|'
for job in "$@"; do
    IFS=: read -r kind n <<<"$job"
    [[ $kind != launch ]] || has_mpi || continue
    measure "$kind" "$n"
done
finish
