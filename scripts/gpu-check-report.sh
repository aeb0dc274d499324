# shellcheck shell=bash
# What scripts/gpu-check leaves behind: gpu-check.json, gpu-check.md, and the records that they come
# from. Sourced, never run.
# shellcheck disable=SC2154 # variables are scripts/gpu-check's and its steps'

# json_text TEXT: as a JSON string.
json_text() {
    printf '"%s"' "$(printf '%s' "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g')"
}

# json_rows FILE NAME:TYPE...: a table with tabs as a JSON list; TYPE is text or number, and an empty
# number is left out.
json_rows() {
    local file=$1
    shift
    [[ -s $file ]] || { printf '[]' && return; }
    awk -F '\t' -v columns="$*" '
        BEGIN { n = split(columns, column, " "); printf "[" }
        {
            printf "%s\n  {", (NR > 1 ? "," : "")
            first = 1
            for (i = 1; i <= n; i++) {
                split(column[i], part, ":")
                if (part[2] == "number" && $i == "") continue
                printf "%s\"%s\": %s", first ? "" : ", ", part[1], part[2] == "number" ? $i : "\"" $i "\""
                first = 0
            }
            printf "}"
        }
        END { printf "\n ]" }' "$file"
}

steps_json() {
    local name first=1
    printf '['
    for name in "${step_names[@]}"; do
        ((first)) || printf ','
        first=0
        printf '\n  {"name": "%s", "status": "%s", "seconds": %d, "note": %s}' "$name" \
            "${step_status[$name]}" "${step_seconds[$name]}" "$(json_text "${step_note[$name]}")"
    done
    printf '\n ]'
}

roofline_json() {
    local precision first=1
    printf '['
    for precision in "${precisions[@]}"; do
        [[ -s $work/step-$precision.tsv ]] || continue
        ((first)) || printf ','
        first=0
        printf '\n {"precision": "%s", "net": "%s", "batch": %d, "operations": ' "$precision" "$net" "$batch"
        json_rows "$work/step-$precision.tsv" op:text count:number ms:number bound_ms:number share:number
        printf '}'
    done
    printf ']'
}

check_json() {
    local exit_code
    exit_code=$(worst_code)
    printf '{\n "schema": 1,\n "kind": "gpu-check",\n "started": "%s",\n "finished": "%s",\n' "$started" "$(date -u +%FT%TZ)"
    printf ' "command": %s,\n "machine": %s,\n' "$(json_text "$command")" "$(<"$work/machine.json")"
    printf ' "device": "%s",\n "description": %s,\n' "$device" "$(json_text "$device_text")"
    printf ' "facts": %s,\n "quick": %s,\n "exit_code": %d,\n' "$(json_text "$(cat "$work/facts" 2>/dev/null)")" "$([[ -n $quick ]] && echo true || echo false)" "$exit_code"
    printf ' "peer": %s,\n' "$(json_text "$(cat "$work/peer" 2>/dev/null)")"
    printf ' "steps": %s,\n' "$(steps_json)"
    printf ' "accuracy": %s,\n' "$(json_rows "$work/accuracy.tsv" precision:text val_top1:number cpu_val_top1:number)"
    printf ' "throughput": %s,\n' "$(json_rows "$work/throughput-summary.tsv" precision:text batch:number who:text rung:text images_per_s:number lowest:number highest:number rounds:number)"
    printf ' "falls": %s,\n' "$(json_rows "$work/falls.tsv" precision:text batch:number who:text rung:text why:text)"
    printf ' "net": "%s",\n "image_size": %d,\n "roofline": %s\n}\n' "$net" "$pixels" "$(roofline_json)"
}

# md_rows FILE: a table with tabs as rows of Markdown.
md_rows() {
    sed 's/|/\\|/g; s/\t/ | /g; s/^/| /; s/$/ |/' "$1"
}

check_md() {
    local name precision exit_code
    exit_code=$(worst_code)
    printf '# %s\n\n%s, %s. Made by `scripts/gpu-check%s`: %s.\n\n' "${device_text%%,*}" "$device_text" "$started" "${quick:+ --quick}" "$(verdict_line "$exit_code")"
    printf '| step | result | s | |\n|---|---|---|---|\n'
    for name in "${step_names[@]}"; do
        printf '| %s | %s | %s | %s |\n' "$name" "${step_status[$name]}" "${step_seconds[$name]}" "${step_note[$name]//|/\\|}"
    done
    if [[ -s $work/accuracy.tsv ]]; then
        printf '\nValidation top-1 in percent after the same training, and the mean of the runs recorded on a CPU:\n\n| precision | here | CPU |\n|---|---|---|\n'
        md_rows "$work/accuracy.tsv"
    fi
    if [[ -s $work/throughput-summary.tsv ]]; then
        printf '\nImages per second, %s, %d px: the median of the rounds, their lowest and highest, and how many there were. PyTorch gets images that lie on the device already.\n\n' "$net" "$pixels"
        printf '| precision | batch | | rung | images/s | lowest | highest | rounds |\n|---|---|---|---|---|---|---|---|\n'
        md_rows "$work/throughput-summary.tsv"
    fi
    if [[ -s $work/falls.tsv ]]; then
        printf '\nRungs that failed, and why:\n\n| precision | batch | | rung | reason |\n|---|---|---|---|---|\n'
        md_rows "$work/falls.tsv"
    fi
    for precision in "${precisions[@]}"; do
        [[ -s $work/step-$precision.tsv ]] || continue
        printf '\nOperations of a step at %s, %s, batch %d, each kind against the bound of its bytes and FLOPs by the measured peaks:\n\n' "$precision" "$net" "$batch"
        printf '| operation | count | ms | bound ms | share |\n|---|---|---|---|---|\n'
        md_rows "$work/step-$precision.tsv"
        printf '\nThe ten that take longest (step-%s.json has all):\n\n' "$precision"
        printf '| layer | operation | MiB | GFLOP | ms | bound | bound ms | share |\n|---|---|---|---|---|---|---|---|\n'
        md_rows "$work/step-$precision-layers.tsv"
    done
}

# keep DIR NAME: standard input becomes a file of the records, whole or not at all.
keep() {
    cat >"$1/$2.part" && mv "$1/$2.part" "$1/$2"
}

# write_records DIR: all there is by now. Logs and the runs that were timed are many small files, so
# they are one; where OUT takes the records, what a report reads of runs is another. Fails where one
# could not be written.
write_records() {
    local dir=$1 file
    : >"$work/throughput-summary.tsv"
    [[ ! -s $work/throughput.tsv ]] || sum_up_throughput >"$work/throughput-summary.tsv"
    check_json | keep "$dir" gpu-check.json || return
    check_md | keep "$dir" gpu-check.md || return
    for file in "$work/peak.json" "$work/cache/ampscale/plans"; do
        [[ ! -s $file ]] || keep "$dir" "$(basename "$file")" <"$file"
    done
    hand_on || return
    [[ ! -s $work/profile.csv ]] || gzip -c "$work/profile.csv" | keep "$dir" profile.csv.gz
    for file in "$work"/step-*.json; do
        [[ ! -s $file ]] || cp "$file" "$work/steps/"
    done
    # A log that is being written is no failure.
    { tar -C "$work" -cz log throughput || true; } | keep "$dir" logs.tar.gz
    if [[ -n ${OUT-} ]]; then
        tar -C "$work" -cz runs steps | keep "$dir" runs.tar.gz
    else
        cp -R "$work/runs" "$work/steps/." "$dir/"
    fi
}
