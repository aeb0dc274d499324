# shellcheck shell=bash
# The steps of scripts/gpu-check. Each leaves a line in `note`; see run_step. Sourced, never run.

# shellcheck disable=SC2034,SC2154 # variables are scripts/gpu-check's and those below

recorded=results/recorded/cpu-avx512-2-threads/precision

# What is run: either at full length, or just to see that the steps run.
plan_full() {
    quick=
    every=1
    sanitized_every=15
    # The quickstart's training, as results/recorded has it of a CPU.
    accuracy_data=(--classes 10 --train 200 --val 50 --size 96)
    accuracy_flags=(-a resnet18 --image-size 64 -b 64 --epochs 12 --lr 0.02 --lr-schedule cosine
        --warmup-epochs 1)
    net=resnet50
    pixels=224
    precisions=(amp bf16 tf32 fp32)
    batch=256 # of a step, layer by layer
    # Precision and batch, what tells most first: the first has all its rounds before the others, and
    # the time may be up before the last.
    table=(amp:256 bf16:256 tf32:256 fp32:256 amp:512 amp:128 amp:64 bf16:128 tf32:128 bf16:512
        tf32:512 bf16:64 tf32:64 fp32:128 fp32:64 fp32:512)
    steps=40 # of which the first ten warm up
    rounds=3
    peak_flags=()
    op_rounds=9 # of single operations
    # One epoch is enough for all steps: between two of them the loader begins anew.
    photos=(--classes 10 --train "$((26 * (steps + 4)))" --val 10 --size 375)
}

plan_quick() {
    quick=1
    every=100
    sanitized_every=700
    accuracy_data=(--classes 3 --train 12 --val 4 --size 48)
    accuracy_flags=(-a resnet8 --image-size 32 -b 8 --epochs 1 --lr 0.05)
    net=resnet8
    pixels=32
    precisions=(fp32 amp)
    batch=4
    table=(fp32:4 amp:4)
    steps=4
    rounds=1
    peak_flags=(--max-mib 4)
    op_rounds=1
    photos=(--classes 3 --train 8 --val 2 --size 48)
}

step_facts() {
    local fields=name,driver_version,memory.total,power.limit,clocks.max.sm,clocks.max.mem,ecc.mode.current,pcie.link.gen.current,pcie.link.width.current
    ours "$ampscale" info
    if [[ $device == cuda* ]]; then
        command -v nvidia-smi >/dev/null || { note="nvidia-smi is not installed" && return 5; }
        note=$(limited_facts "$fields") || { note="nvidia-smi does not know $device" && return 5; }
        name_facts "$fields" "$note" >"$work/facts"
    else
        need_device || return 5
        note=$device_text
    fi
}

# name_facts FIELDS VALUES: two lists with commas as "name value, name value".
name_facts() {
    local names values i text=
    IFS=, read -ra names <<<"$1"
    IFS=, read -ra values <<<"$2"
    for i in "${!values[@]}"; do
        text+="${text:+, }${names[i]} ${values[i]# }"
    done
    printf '%s' "$text"
}

# left: the seconds that the step may still take, less some to print in.
left() {
    local left=$((step_deadline - SECONDS - 5))
    echo "$((left > 1 ? left : 1))"
}

# Every case of the table of operations against the reference.
step_kernels() {
    local code=0
    need_device || return 5
    ours "$ampscale" selftest --operations --devices "$device" --every "$every" --limit "$(left)" -q \
        >"$work/kernels.txt" 2>&1 || code=$?
    cat "$work/kernels.txt"
    note=$(head -n 1 "$work/kernels.txt")
    return "$code"
}

# PyTorch's values: all cases, or one that only evaluates.
step_selftest() {
    local code=0
    need_device || return 5
    if [[ -n $quick ]]; then
        awk '/^ \{/ { text = "" } { text = text $0 "\n" }
            /^ \}/ && text ~ /"mode": "eval"/ { sub(/\},\n$/, "}\n", text); print "[" text "]"; exit }' \
            runners/data/oracles.json >"$work/oracle.json"
    fi
    ours "$ampscale" selftest --devices "$device" -q ${quick:+--oracle "$work/oracle.json"} || code=$?
    note=$(tail -n 1 "$log")
    return "$code"
}

# Memory errors, races and barriers that not all threads reach, in our kernels. The tools slow
# everything down a hundredfold, so that they run side by side.
step_sanitizer() {
    local tool code worst=0 tools=(memcheck racecheck synccheck)
    local -A pid
    need_device || return 5
    for tool in "${tools[@]}"; do
        ours "$ampscale" selftest --operations --sanitizer "$tool" --devices "$device" \
            --every "$sanitized_every" --jobs 4 --limit "$(left)" -q >"$work/$tool.txt" 2>&1 &
        pid[$tool]=$!
    done
    for tool in "${tools[@]}"; do
        code=0
        wait "${pid[$tool]}" || code=$?
        cat "$work/$tool.txt"
        note+="${note:+, }$tool $( ((code == 0)) && echo clean || tail -n 1 "$work/$tool.txt" | sed 's/^ampscale: [^:]*: //')"
        ((worst == 4 || code == 0)) || worst=$code
    done
    note+=", on one problem in $sanitized_every"
    return "$worst"
}

# mean_top1 PATTERN: the mean of the last validation top-1 of recorded runs.
mean_top1() {
    local file
    for file in "$recorded"/$1/summary.json; do
        [[ -e $file ]] && json_number last val_top1 <"$file"
    done | awk '{ sum += $1 } END { if (NR) printf "%.2f", sum / NR }'
}

# The same training at every precision, beside what a CPU came to.
step_accuracy() {
    local row name flag reference got worst=0 failed=0 text=
    need_device || return 5
    ours "$ampscale" data synth --out "$work/synth" "${accuracy_data[@]}" || return
    : >"$work/accuracy.tsv"
    for row in 'fp32 --precision fp32-seed*' 'O1 --opt-level O1-seed*' \
        'bf16 --precision bf16-emulated-seed*' 'tf32 --precision fp32-seed*' 'O2 --opt-level O2-seed*'; do
        read -r name flag reference <<<"$row"
        ours "$ampscale" train "$work/synth" "${accuracy_flags[@]}" "$flag" "$name" --seed 0 \
            --devices "$device" --out "$work/runs/accuracy-$name" -p 1000 || { failed=$? && continue; }
        forget_checkpoints "$work/runs/accuracy-$name"
        got=$(json_number last val_top1 <"$work/runs/accuracy-$name/summary.json" | xargs printf '%.2f')
        reference=$([[ -n $quick ]] || mean_top1 "$reference")
        printf '%s\t%s\t%s\n' "$name" "$got" "$reference" >>"$work/accuracy.tsv"
        text+="${text:+, }$name $got${reference:+ (CPU $reference)}"
        if [[ -n $reference ]] && awk "BEGIN { exit !($got < $reference - 1 || $got > $reference + 1) }"; then
            worst=4
        fi
    done
    note="top-1 $text"
    ((worst == 4)) && return 4
    return "$failed"
}

# forget_checkpoints RUN: a record needs no weights.
forget_checkpoints() {
    rm -f "$1"/*.safetensors
}

step_peak() {
    need_device || return 5
    ours "$ampscale" bench peak --devices "$device" --rounds "$op_rounds" "${peak_flags[@]}" --json >"$work/peak.new" || return
    mv "$work/peak.new" "$work/peak.json"
    cat "$work/peak.json"
    note=$(awk '
        /"bytes_per_s":/ { if ($2 + 0 > copy) copy = $2 + 0; last = $2 + 0 }
        /"type":/ { gsub(/[",]/, "", $2); type = $2 }
        /"flops_per_s":/ { text = text sprintf(", %s %.1f TFLOP/s", type, $2 / 1e12) }
        END { printf "memory %.0f GB/s, caches %.0f GB/s%s", last / 1e9, copy / 1e9, text }' "$work/peak.json")
}

# Every operation of a step beside its bound.
step_roofline() {
    local precision file failed=0
    need_device || return 5
    [[ -s $work/peak.json ]] || { note="there are no peaks" && return 5; }
    for precision in "${precisions[@]}"; do
        file=$work/step-$precision
        ours "$ampscale" bench step --devices "$device" --net "$net" --image-size "$pixels" -b "$batch" \
            --precision "$precision" --rounds "$op_rounds" --peak "$work/peak.json" --json >"$file.json" ||
            { failed=$? && : >"$file.json" && continue; }
        sum_up_roofline "$file.json" >"$file.tsv"
        slowest_layers "$file.json" >"$file-layers.tsv"
        note+="${note:+, }$precision $(awk -F '\t' '$1 == "all" { print $5 }' "$file.tsv")"
    done
    note="share of the bound, $net, batch $batch: $note"
    return "$failed"
}

# sum_up_roofline FILE: operation, count, ms, bound ms and share, by kind and for all.
sum_up_roofline() {
    awk -F '"' '
        /"op":/ { op = $4 }
        /"seconds":/ { split($3, v, /[:,]/); seconds = v[2] }
        /"bound_s":/ {
            split($3, v, /[:,]/)
            n[op]++; s[op] += seconds; b[op] += v[2]
            n["all"]++; s["all"] += seconds; b["all"] += v[2]
        }
        END { for (op in n) printf "%s\t%d\t%.3f\t%.3f\t%.2f\n", op, n[op], s[op] * 1e3, b[op] * 1e3, b[op] / s[op] }' "$1" |
        sort -t "$(printf '\t')" -k 3,3gr
}

# slowest_layers FILE: layer, operation, MiB, GFLOP, ms, what bounds it, bound ms and share of the ten
# operations that take longest.
slowest_layers() {
    awk -F '"' '
        /"layer":/ { layer = $4 }
        /"op":/ { op = $4 }
        /"seconds":/ { split($3, v, /[:,]/); seconds = v[2] }
        /"bytes":/ { split($3, v, /[:,]/); bytes = v[2] }
        /"flops":/ { split($3, v, /[:,]/); flops = v[2] }
        /"bound":/ { bound = $4 }
        /"bound_s":/ {
            split($3, v, /[:,]/)
            printf "%s\t%s\t%.2f\t%.3f\t%.3f\t%s\t%.3f\t%.2f\n", layer, op, bytes / 1048576,
                flops * 1e-9, seconds * 1e3, bound, v[2] * 1e3, v[2] / seconds
        }' "$1" |
        sort -t "$(printf '\t')" -k 5,5gr | head -n 10
}

# The kernels of a few steps under ncu: time, bytes and share of the tensor cores of each.
step_profile() {
    local ncu metrics code=0
    need_device || return 5
    [[ $device == cuda* ]] || { note="profiles are of GPUs" && return 5; }
    ncu=$(command -v ncu || ls /usr/local/cuda/bin/ncu /opt/nvidia/nsight-compute/*/ncu 2>/dev/null | tail -n 1)
    [[ -n $ncu ]] || { note="ncu is not installed" && return 5; }
    metrics=gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum
    metrics+=,sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed
    metrics+=,dram__throughput.avg.pct_of_peak_sustained_elapsed,launch__registers_per_thread
    # Without graphs, whose kernels would be one. The first steps choose plans; the last is measured.
    ours "$ncu" --clock-control none --csv --page raw --metrics "$metrics" --launch-skip "${profile_skip:-1500}" \
        --launch-count "${profile_count:-700}" --log-file "$work/profile.csv" \
        "$ampscale" train --dummy -a "$net" --image-size "$pixels" -b "$batch" --precision amp --no-graph \
        --devices "$device" --epochs 1 --steps 6 -p 1000 --out "$work/runs/profile" || code=$?
    forget_checkpoints "$work/runs/profile"
    note="$(grep -c '^"[0-9]' "$work/profile.csv" 2>/dev/null || true) kernels measured, in profile.csv.gz"
    return "$code"
}

# ---- throughput ----

# start_peer: PyTorch's step as a process that answers requests. It loads its libraries while ours are
# at work; `peer` says how far it is: "starting", "ready", or nothing where there is none.
start_peer() {
    rm -f "$work/ask" "$work/answer"
    mkfifo "$work/ask" "$work/answer"
    bash tests/peers/run.sh 'torch, torchvision' tests/peers/torch_step.py --device "$device" \
        --net "$net" --image-size "$pixels" <"$work/ask" >"$work/answer" &
    peer_pid=$!
    exec {ask}>"$work/ask" {answer}<"$work/answer"
    peer=starting
}

stop_peer() {
    [[ -z ${peer_pid-} ]] || kill "$peer_pid" 2>/dev/null || true
    peer_pid=
    peer=
}

# hear SECONDS: a line of the peer's in `line`, within that time and the step's.
hear() {
    local left=$((step_deadline - SECONDS))
    ((left > 0)) && read -r -t "$((left < $1 ? left : $1))" line <&"$answer"
}

# meet_peer: waits until it is ready; fails where there is none.
meet_peer() {
    local line=
    [[ $peer != ready ]] || return 0
    [[ $peer == starting ]] || return 1
    if hear 180 && [[ $line == ready* ]]; then
        peer=ready
        printf '%s' "${line#ready }" >"$work/peer"
        return
    fi
    echo "PyTorch cannot take part: ${line:-it is not ready in time}"
    stop_peer
    return 1
}

# ask_peer MODE PRECISION BATCH: adds its images/s to the table. One that gives no answer is replaced,
# once.
ask_peer() {
    local line limit=120
    [[ $1 != compile ]] || limit=240
    ((step_deadline > SECONDS)) || return 0
    meet_peer || return 0
    # In a shell of its own, which a peer that has gone takes with it.
    if ! (echo "$1 $2 $3 $steps" >&"$ask") || ! hear "$limit"; then
        echo "PyTorch gave no answer to '$1 $2 $3'"
        stop_peer
        [[ -n $peer_replaced ]] || start_peer
        peer_replaced=1
        return 0
    fi
    echo "PyTorch $1 $2 $3: $line"
    if [[ $line == images_per_s* ]]; then
        printf '%s\t%s\tPyTorch %s\t%s\t\n' "$2" "$3" "$1" "$(cut -d " " -f 2 <<<"$line")" >>"$work/throughput.tsv"
    fi
}

# The ways to train, from the fastest to the one that asks least of the GPU's libraries, and the
# seconds that a run may take on each of them.
rungs=('auto' '--fuse none' '--no-graph' '--fuse none --no-graph')
rung_seconds=75

# run_ours WHO PRECISION BATCH ROUND DATA...: one run, its median in the table with the rung that it
# ran on. A rung that failed is not tried again for the same work.
run_ours() {
    local who=$1 precision=$2 batch=$3 round=$4 dir rung code at=$work/rung-${1// /-}-$2-$3 i
    shift 4
    for ((i = $(cat "$at" 2>/dev/null || echo 0); i < ${#rungs[@]}; i++)); do
        rung=${rungs[i]}
        dir=$work/throughput/${who// /-}-$precision-$batch-$round-$i
        code=0
        # shellcheck disable=SC2086 # flags
        within "$rung_seconds" ours "$ampscale" train "$@" -a "$net" --image-size "$pixels" -b "$batch" \
            --precision "$precision" --devices "$device" --epochs 1000 --steps "$steps" \
            -j "$(jobs_default)" -p 1000 --out "$dir" ${rung#auto} >"$work/row.txt" 2>&1 || code=$?
        cat "$work/row.txt"
        forget_checkpoints "$dir"
        if ((code == 0)); then
            printf '%s\t%s\t%s\t%s\t%s\n' "$precision" "$batch" "$who" \
                "$(json_number images_per_s median <"$dir/summary.json")" "$rung" >>"$work/throughput.tsv"
            echo "$i" >"$at"
            return
        fi
        printf '%s\t%s\t%s\t%s\t%s\n' "$precision" "$batch" "$who" "$rung" "$(why_row_failed "$code")" >>"$work/falls.tsv"
        ((SECONDS < step_deadline)) || return 124
    done
    echo "$i" >"$at"
    return "$code"
}

# why_row_failed CODE: in a line that a table can hold.
why_row_failed() {
    local why
    why=$(grep -a -m 1 '^ampscale: ' "$work/row.txt" || tail -n 1 "$work/row.txt")
    (($1 != 124)) || why="not done within $rung_seconds s${why:+: $why}"
    printf 'exit code %s: %s' "$1" "${why:-no output}" | tr -d '\000-\037"\\' | cut -c 1-300
}

# Turns go round over the configurations, so that whatever time allows is spread evenly, and both
# sides see the same card; the first one, which is what everybody asks for, has all its turns before.
# The time of the last ones may be up: that is no failure. One that fails does not keep the others
# from their turn.
step_throughput() {
    local round entry turn code=1 failed=0 turns=() peer='' peer_replaced=
    need_device || return 5
    : >"$work/throughput.tsv"
    : >"$work/falls.tsv"
    for ((round = 1; round <= rounds; round++)); do
        turns+=("${table[0]}:$round")
    done
    for ((round = 1; round <= rounds; round++)); do
        for entry in "${table[@]:1}"; do
            turns+=("$entry:$round")
        done
    done
    trap stop_peer EXIT
    start_peer
    for turn in "${turns[@]}"; do
        code=0
        # shellcheck disable=SC2086 # three words
        run_pair ${turn//:/ } || code=$?
        write_records "$out_dir"
        ((code != 124)) || break
        ((code == 0)) || failed=$code
    done
    stop_peer
    note=$(throughput_line)
    [[ -s $work/throughput.tsv ]] || return "$code"
    return "$failed"
}

# run_pair PRECISION BATCH ROUND: both sides, each first in every other round; of the first entry also
# what takes more than a network.
run_pair() {
    local code=0 data=(--dummy --dummy-train "$(($2 * (steps + 8)))" --dummy-val "$2")
    if (($3 % 2)); then
        run_ours ampscale "$1" "$2" "$3" "${data[@]}" || code=$?
        ask_peer eager "$1" "$2"
    else
        ask_peer eager "$1" "$2"
        run_ours ampscale "$1" "$2" "$3" "${data[@]}" || code=$?
    fi
    [[ $1:$2 == "${table[0]}" ]] || return "$code"
    # It compiles anew each time, which takes a minute.
    (($3 > 1)) || ask_peer compile "$1" "$2"
    ((code == 0)) || return "$code"
    [[ -d $work/photos ]] || ours "$ampscale" data synth --out "$work/photos" "${photos[@]}" || return
    run_ours 'ampscale from files' "$1" "$2" "$3" "$work/photos"
}

# throughput_line: the first configuration's numbers.
throughput_line() {
    sum_up_throughput | awk -F '\t' -v p="${table[0]%:*}" -v b="${table[0]#*:}" '
        $1 != p || $2 != b { next }
        { text = text sprintf("%s%s %.0f%s", text == "" ? "" : ", ", $3, $5, $4 == "" || $4 == "auto" ? "" : " (" $4 ")") }
        $3 == "ampscale" && $5 > ours { ours = $5 }
        $3 ~ /^PyTorch/ && $5 > best { best = $5 }
        END {
            printf "images/s of %s, batch %s: %s", p, b, text
            if (ours && best) printf "; %.2f times PyTorch", ours / best
        }'
    [[ -s $work/peer ]] || printf ' (no PyTorch to compare with)'
}

# sum_up_throughput: precision, batch, who, rung, median, lowest, highest and count of the rounds.
sum_up_throughput() {
    LC_ALL=C sort -t "$(printf '\t')" -k 1,1 -k 2,2n -k 3,3 -k 5,5 -k 4,4g "$work/throughput.tsv" | awk -F '\t' '
        function put() {
            if (n) printf "%s\t%.1f\t%.1f\t%.1f\t%d\n", key, (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2, v[1], v[n], n
        }
        { now = $1 "\t" $2 "\t" $3 "\t" $5 }
        now != key { put(); key = now; n = 0 }
        { v[++n] = $4 }
        END { put() }'
}
