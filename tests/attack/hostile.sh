#!/usr/bin/env bash
# Damages ten thousand files at random, and runs the commands that read such files:
#
#     hostile.sh PROGRAM SOURCE_DIR BUILD_DIR [PERCENT]
#
# PERCENT reduces the number of files. SEED=N changes the damage. In a build with sanitizers (preset
# asan), no sanitizer may report an error. hostile.py defines a finding; findings are stored
# in the folder KEEP. Prints the table that docs/explanation/reliability.md sums up.
. "$(dirname "$0")/../cli/common.sh" "${@:1:3}"
. "$source_dir/tests/cli/train.sh"
cd "$scratch" || exit 1
percent=${4:-100} seed=${SEED:-1}
# With this option, the sanitizer refuses a request for too much memory, as the C library does.
export ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=0
export LSAN_OPTIONS=suppressions=$source_dir/tests/lsan.supp:print_suppressions=0

# made WHAT ARGS...: runs the program to make the files that will be damaged. Exit code 5 is
# accepted: it is the verdict on a study or comparison that is too small.
made() {
    local what=$1
    shift
    "$program" "$@" >log 2>&1 </dev/null || [[ $? == 5 ]] || { fail "$what: $(tail -n 3 log)" && finish; }
}
net=(-a resnet8 --image-size 32 -b 4 --val-batch-size 4 --threads 1 -j 1 -p 1)
dummy=(--dummy --classes 3 --dummy-train 16 --dummy-val 4)
mkdir images run pair checkpoint study accept specs hosts tables history
made images data synth --out images/data --classes 2 --train 9 --val 1 --size 40
cp -r images trained
for name in run/run pair/base/r1 pair/base/r2 pair/new/r1 pair/new/r2; do
    made "$name" train "${dummy[@]}" "${net[@]}" --epochs 2 --telemetry 0.02 --out "$name"
done
find run pair -name '*.safetensors' -delete
made checkpoint train "${dummy[@]}" "${net[@]}" --epochs 1 --out checkpoint/run
rm -f checkpoint/run/best.safetensors checkpoint/run/checkpoint-prev.safetensors
cat >specs/study.json <<'END'
{"schema": 1, "name": "tiny", "about": "for a test", "modes": {"nd": [1]}, "precisions": ["fp32"],
 "archs": ["resnet8"], "batch": {"weak": [4]}, "data": [{"name": "dummy", "classes": 3, "train": 16, "val": 4}],
 "image_size": 32, "threads": 1, "workers": 1, "repeats": 2, "warmup_steps": 1, "measured_steps": 3,
 "limit_s": 60, "train": ["--lr", "0.05"]}
END
made study study specs/study.json --no-report --out study/s
cp specs/study.json study/
cat >specs/accept.json <<'END'
{"schema": 1, "name": "made", "about": "a test", "device": "cpu", "hardware": ["*"], "checks": [
 {"name": "memory", "kind": "memory", "level": 1, "seconds": 1, "limit_s": 60,
  "args": {"max_mib": 4, "iters": 1, "threads": 1}, "limits": {"wrong": {"max": 0}, "copy": {"fleet_within": 5}}}]}
END
made accept accept --spec ./specs/accept.json --out accept/a
cp specs/accept.json accept/
printf 'node1 slots=2\nnode2:4\n# a comment\nnode3\n' >hosts/hosts
cp "$source_dir"/results/published/*.csv tables/
cp -r pair history/runs
made history compare --record history/h history/runs/base/r1 history/runs/base/r2

printf '| command | cases | files | findings | exit 0 | 1 | 2 | 3 | 4 | 5 |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n'
total=0
# attack CASES FOLDER FILES NAMES COMMAND ARG...: runs hostile.py, and prints a row of the table.
attack() {
    local cases=$((($1 * percent + 99) / 100)) counts
    rm -rf work
    mkdir work
    python3 "$source_dir/tests/attack/hostile.py" "$program" "$cases" "$seed" "${@:2:1}" work "${@:3}" >said 2>&1 || {
        [[ $? == 1 && -d work/finding-1 ]] || { fail "hostile.py failed: $(tail -n 3 said)" && finish; }
        grep -v '^[0-9]' said
        failures=$((failures + 1))
        [[ -z ${KEEP-} ]] || { mkdir -p "$KEEP/$seed" && cp -r work/finding-* said "$KEEP/$seed"; }
    }
    read -ra counts < <(tail -n 1 said)
    total=$((total + counts[1]))
    printf '| `%s` |' "${*:5}"
    printf ' %s |' "${counts[@]}"
    echo
    seed=$((seed + 1))
}
records="run.json steps epochs summary telemetry ranks"
attack 150 images 20 "" data scan data
attack 20 trained 20 "" train data "${net[@]}" --steps 2 --max-bad-images 100
attack 400 checkpoint 1 checkpoint train "${dummy[@]}" "${net[@]}" --epochs 2 --steps 5 --out run --resume auto
attack 200 checkpoint 1 "$records" train "${dummy[@]}" "${net[@]}" --epochs 2 --steps 5 --out run --resume auto
attack 200 checkpoint 1 checkpoint train "${dummy[@]}" "${net[@]}" --steps 1 --out other --init run/checkpoint.safetensors
attack 700 run 1 "$records" report run --no-figures --html page.html --out page.md
attack 700 run 1 "$records" watch --once run
for format in tensorboard mlperf prometheus csv; do
    attack 140 run 1 "$records" export run --format "$format" --out exported
done
attack 20 run 1 "$records" plot run
attack 400 run 1 "$records" predict run --network 5,10 --ranks 2..8
attack 700 pair 2 "$records" compare base new
attack 400 history 1 "" trend h
attack 300 history 1 "" compare --history h runs/new/r1
attack 700 specs 1 study study study.json --dry-run --out s
attack 200 study 1 "" study study.json --analyse --no-report --out s
attack 700 specs 1 accept accept --spec ./accept.json --dry-run
attack 300 accept 1 "" accept --make-spec a
attack 300 accept 1 "" accept --node-list a
attack 100 hosts 1 "" launch --hostfile hosts --dry-run -- info
attack 500 tables 1 hal predict hal_v100.csv:feb --fit
echo "$total files"
finish
