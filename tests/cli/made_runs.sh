# shellcheck shell=bash
# Makes records of runs, for tests of comparisons. Sourced after common.sh.

# make_run DIR SECONDS [BATCH]: makes a run of 20 steps that took SECONDS each.
make_run() {
    mkdir -p "$1"
    printf '{"schema": 1, "started": "2024-01-31T12:00:00Z", "device": "made", "config": {"arch": "resnet18", "batch_size": %d}}' "${3:-32}" >"$1/run.json"
    awk -v s="$2" 'BEGIN {
        for (i = 0; i < 20; i++)
            printf "{\"epoch\":0,\"step\":%d,\"batch\":%d,\"images\":32,\"loss\":1,\"top1\":0,\"top5\":0,\"lr\":0.1,\"data_s\":0,\"h2d_s\":0,\"forward_s\":%g,\"backward_s\":%g,\"comm_s\":0,\"optimizer_s\":0,\"total_s\":%g,\"bytes_read\":0,\"files_read\":0,\"decode_s\":0,\"workers\":0,\"bad_images\":0,\"elapsed\":%g}\n", i, i, s / 3, s / 2, s, s * (i + 1)
    }' >"$1/steps.jsonl"
    printf '{"schema": 1, "ended_by": "steps"}' >"$1/summary.json"
}

# make_runs DIR PERCENT [BATCH]: makes nine repeats whose steps took PERCENT longer than 0.1 s.
make_runs() {
    local i
    for i in 1 2 3 4 5 6 7 8 9; do
        make_run "$1/r$i" "$(awk -v p="$2" -v i="$i" 'BEGIN { print 0.1 * (1 + p / 100) * (1 + i / 2000) }')" "${3:-32}"
    done
}
