#!/usr/bin/env bash
# Studies with jobs of several ranks, started by ampscale launch or by a launcher that the user
# names.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"
. "$(dirname "$0")/ranks.sh"
cd "$scratch" || exit 1

# The study starts "mpirun". Here it must be the mpirun of the MPI library that the program uses.
mkdir bin
ln -s "$(command -v "${mpi_launch[0]}")" bin/mpirun
PATH=$scratch/bin:$PATH
cp "$program" ranked

# study_file STEPS [LAUNCHER]: writes a study with one run on one device and one run of two ranks.
study_file() {
    cat >study.json <<END
{"schema": 1, "name": "ranks", "about": "for a test", "modes": {"nd": [1], "ddp": [2]},
 "precisions": ["fp32"], "archs": ["resnet8"], "batch": {"weak": [4]},
 "data": [{"name": "dummy", "classes": 3, "train": 64, "val": 4}],
 "image_size": 32, "threads": 1, "workers": 1, "repeats": 1, "warmup_steps": 1,
 "measured_steps": $1, "train": ["--lr", "0.05"]${2-}}
END
}

# running: succeeds if a process of the study is running.
running() {
    [[ -n $(find /proc/[0-9]*/exe -maxdepth 0 -lname "$scratch/ranked" 2>/dev/null) ]]
}

cell=cells/ddp-fp32-resnet8-dummy-weak-2x4

# check_cell DIR: checks that both cells are complete, and that the run of the second cell had two
# ranks.
check_cell() {
    [[ -s $1/$cell/r1/ranks.jsonl ]] || fail "$1: the record has no ranks: $(cat "$1/$cell/r1.log")"
    [[ $(grep -c '"missing": null' "$1/analysis.json") == 2 ]] || fail "$1: a cell is missing: $(cat out)"
    [[ $(sed -nE 's/^ *"speedup": ([0-9.]+),$/\1/p' "$1/analysis.json" | wc -l) == 2 ]] ||
        fail "$1: no speed-up"
}

study_file 15
expect 0 study study.json --no-report --out launched
check_cell launched
[[ -s launched/$cell/r1-logs/rank-1.log ]] || fail "rank 1 has no log"

words=$(printf '"%s", ' "${mpi_launch[@]}")
study_file 15 ", \"launcher\": [$words\"-n\", \"{ranks}\"]"
expect 0 study study.json --no-report --out own
check_cell own

# If a study is interrupted during a job, the ranks of the job stop too.
study_file 1000000
./ranked study study.json --no-report --out long --only '^ddp' >out 2>err </dev/null &
study=$!
for ((i = 0; i < 600; i++)); do
    [[ ! -s long/$cell/r1/steps.jsonl ]] || break
    sleep 0.02
done
kill -TERM "$study"
code=0
wait "$study" || code=$?
((code == 143)) || fail "the interrupted study exited with $code: $(cat err)"
for ((i = 0; i < 250; i++)); do
    running || break
    sleep 0.02
done
running && fail "ranks still run after the end of their study"
[[ ! -e long/$cell/r1/summary.json ]] || fail "an interrupted run counts as complete"
finish
