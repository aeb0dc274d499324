#!/usr/bin/env bash
# Checks that memory, file descriptors and threads of a training process do not grow from step FIRST
# to step LAST. The arguments after the three arguments of common.sh are RUN:FIRST:LAST. RUN is nd,
# ddp (two ranks by MPI), tcp (two ranks by a rendezvous) or cuda (the fake GPU, amp). Prints the
# table that docs/explanation/reliability.md sums up.
. "$(dirname "$0")/../cli/common.sh" "$@"
. "$source_dir/tests/cli/train.sh"
. "$source_dir/tests/attack/jobs.sh"
cd "$scratch" || exit 1
sanitized && skip "a sanitizer keeps freed memory"
shift 3
(($# > 0)) || set -- nd:1000:10000 ddp:1000:10000 tcp:1000:10000 cuda:1000:10000

# Allowed growth of a process in kB. An allocator keeps the memory of the largest epoch so far, and
# epochs differ. 4 MB in 9,000 steps would be a leak of 460 bytes a step.
allowed=4096
net=(--dummy --dummy-train 200 --dummy-val 2 --classes 2 -a resnet8 --image-size 8 -b 1 --threads 1 -j 1 -p 100 --epochs 1000000)

# sample: prints "PID RSS ANONYMOUS DESCRIPTORS THREADS" of each process. Takes the minimum of five
# samples, because a checkpoint opens files and starts threads for a moment.
sample() {
    local p
    for _ in {1..5}; do
        for p in $(processes train); do
            awk -v p="$p" -v fds="$(find "/proc/$p/fd" -mindepth 1 2>/dev/null | wc -l)" '
                $1 == "VmRSS:" { rss = $2 } $1 == "RssAnon:" { anonymous = $2 } $1 == "Threads:" { threads = $2 }
                END { print p, rss, anonymous, fds, threads }' "/proc/$p/status" 2>/dev/null
        done
        sleep 0.05
    done | awk '{ for (k = 2; k <= 5; k++) if (!(($1, k) in least) || $k < least[$1, k]) least[$1, k] = $k; pids[$1] }
        END { for (p in pids) print p, least[p, 2], least[p, 3], least[p, 4], least[p, 5] }' | sort -n
}

# steps RUN: prints the number of recorded steps.
steps() {
    [[ ! -e $1/steps.jsonl ]] || wc -l <"$1/steps.jsonl"
}

# until_step RUN STEPS: waits until STEPS steps are recorded; fails if the job ends before that.
until_step() {
    until ((10#0$(steps "$1") >= $2)); do
        kill -0 "${jobs[0]}" 2>/dev/null || return 1
        sleep 0.05
    done
}

start() {
    case $1 in
    nd) job_start alone 1 "${net[@]}" --out nd ;;
    ddp) job_start mpi 2 "${net[@]}" --mode ddp --out ddp ;;
    tcp) job_start tcp 2 "${net[@]}" --mode ddp --out tcp ;;
    cuda) job_start alone 1 "${net[@]}" --devices cuda:0 --precision amp --out cuda ;;
    esac
}

# measure RUN FIRST LAST: prints a line of the table for each process.
measure() {
    local at end first last ranks rank=0
    start "$1"
    if ! until_step "$1" "$2" || ! { at=$(steps "$1") && first=$(sample); } ||
        ! until_step "$1" "$3" || ! { end=$(steps "$1") && last=$(sample); }; then
        fail "$1: the run ended before step $3: $(tail -n 3 err)"
        return
    fi
    kill -TERM "${jobs[@]}" 2>/dev/null
    wait "${jobs[@]}"
    ranks=$(wc -l <<<"$last")
    while read -r _ rss0 anonymous0 fds0 threads0 _ rss anonymous fds threads; do
        printf '| %s, rank %d | %d, %d | %.1f, %.1f | %.1f, %.1f | %d, %d | %d, %d |\n' "$1" "$rank" "$at" "$end" \
            "$((rss0 * 10 / 1024))e-1" "$((rss * 10 / 1024))e-1" "$((anonymous0 * 10 / 1024))e-1" "$((anonymous * 10 / 1024))e-1" "$fds0" "$fds" "$threads0" "$threads"
        ((fds == fds0 && threads == threads0 && anonymous <= anonymous0 + allowed)) ||
            fail "$1: the memory, descriptors or threads of rank $rank grew"
        rank=$((rank + 1))
    done < <(paste -d' ' <(echo "$first") <(echo "$last"))
    ((rank == ranks && rank > 0)) || fail "$1: $rank processes"
}

echo '| run | steps | RSS, MiB | of it anonymous, MiB | file descriptors | threads |'
echo '|---|---:|---:|---:|---:|---:|'
for run in "$@"; do
    IFS=: read -r name from to <<<"$run"
    [[ $name != ddp ]] || has_mpi || continue
    [[ $name != cuda ]] || fake_gpu || { echo "skipped: no fake GPU" && continue; }
    measure "$name" "$from" "$to"
done
finish
