#!/usr/bin/env bash
# Runs every example of every --help, in a folder that the examples themselves fill. An example that is
# not listed here, or is listed but no longer shown, is a failure.
. "$(dirname "$0")/common.sh" "$@"
export OMP_WAIT_POLICY=passive
started=$SECONDS

# Each line: how the example is run, its exit status (a pattern), the example, and the flags that make it
# short. The lines are run in this order, because an example may use the results of an earlier one. The
# exit status 5 says that cases were left out, or that one node is too few to compare nodes. The exit
# statuses 4 and 5 of pair are verdicts on the times of a machine that may be busy.
#   full     as it stands
#   reduced  with the flags after the example; a flag that is given twice has the second value
#   parsed   up to the check of each flag and value: the example needs a GPU, several nodes or PyTorch
#   planned  with --help for the flags of launch alone, and the launched command as "parsed"
list='
reduced 0 ampscale data synth --out data/synth10 --size 96 => --classes 2 --train 16 --val 4 --size 40
full    0 ampscale data scan data/synth10
full    0 ampscale data scan data/synth10 --json -o scan.json
reduced 0 ampscale data synth --out data/synth100 --classes 100 --train 500 => --classes 2 --train 2 --val 1
reduced 0 ampscale train data/synth10 -a resnet18 --image-size 64 -b 64 --epochs 12 --lr 0.02 --out runs/first => -b 8 --epochs 1 --image-size 32
reduced 0 ampscale train data/synth10 -a resnet34 --image-size 64 -b 64 --epochs 12 --lr 0.02 --out runs/second --resume auto => -b 8 --epochs 1 --image-size 32 --steps 2
full    0 ampscale train data/synth10 --evaluate --init runs/first/best.safetensors -a resnet18 --image-size 64
parsed  0 ampscale train --dummy -a resnet50 --devices cuda:0 --precision amp --steps 200
reduced 0 ampscale launch --nproc 2 -- train data/synth10 -a resnet18 --image-size 64 -b 32 --epochs 2 --out runs/two => -b 4 --epochs 1 --image-size 32 --steps 2
planned 0 ampscale launch --hosts node1:8,node2:8 -- train /data/imagenet -a resnet50 --devices cuda --precision amp --out runs/imagenet
full    0 ampscale launch --nproc 2 --dry-run -- bench collective allreduce
full    0 ampscale watch runs/first
full    0 ampscale plot runs/first
reduced 0 ampscale plot runs/first runs/second --out runs/compared => --format svg
reduced 0 ampscale plot results/published/hal_v100.csv --out plots/hal => --format svg
full    0 ampscale report runs/first runs/second --html runs.html
full    0 ampscale export runs/first --format tensorboard -o tb
full    0 ampscale export runs/first runs/second --format csv -o tables
full    0 ampscale export runs/first --format torch-weights -o resnet18.safetensors
full    0 ampscale amp-report runs/first
reduced 0 ampscale amp-report -a resnet50 -b 8 --batches 1 --out amp-resnet50 => -b 2 --image-size 32
full    0 ampscale info
full    0 ampscale info --list
full    0 ampscale info -a resnet18 --policy amp
reduced [05] ampscale selftest --quick => --limit 1
reduced 0 ampscale selftest --determinism --repeats 5 => --quick --repeats 2
parsed  0 ampscale selftest --operations --devices cuda:0
full    0 ampscale study quick --dry-run
full    0 ampscale study quick --print >my.json
reduced 0 ampscale study quick --out runs/study => --only nd-fp32-resnet8-synthetic-.*/r1 --no-report -q
full    0 ampscale watch runs/study --once
full    0 ampscale report runs/study -o study.md --no-figures
parsed  0 ampscale predict --gpu h100 --precision amp --network 2,50 --intra 5,350 --ranks-per-node 8 --ranks 8..64 --out plots/forecast
full    0 ampscale predict runs/two --network 5,12 --ranks 2..64
full    0 ampscale predict results/published/hal_v100.csv:feb --fit-up-to 32 --ranks 2..256
full    0 ampscale compare gate/base gate/new
full    0 ampscale compare --record history gate/base
full    0 ampscale compare --history history --record history --junit gate.xml gate/new
full    0 ampscale record --name resnet50 --metric "images_per_s=([0-9.]+) img/s" --out runs/new/r1 -- ./train.sh
full    0 ampscale record --out runs/sleep -- sleep 0.1
full    0 ampscale trend history
full    0 ampscale trend history --threshold 1 --out plots/trend
reduced 0 ampscale accept --spec cpu --out results/node1 => --level 1 --only allreduce
full    0 ampscale accept --spec h100 --level 3 --dry-run
full    5 ampscale accept --node-list results --out results/fleet
planned 0 ampscale launch --hosts node1,node2,node3 -- pair --failing node2
planned 0 ampscale launch --hostfile nodes.txt -- pair --failing results/fleet/failed.txt --out results/pair
reduced [045] ampscale launch --nproc 3 -- pair --failing 2 --net resnet8 -b 8 --image-size 32 => --rounds 1 --samples 2 --mib 1
reduced 0 ampscale bench peak --json -o peak.json => --rounds 1 --max-mib 4
reduced 0 ampscale bench peak => --rounds 1 --max-mib 4
reduced 0 ampscale bench accuracy --precisions fp32,O1 => --quick
parsed  0 ampscale bench accuracy --devices cuda:0 --budget 600 --out results/accuracy
reduced 0 ampscale bench collective allreduce -e 1M => -n 1 -w 0 -e 4K
reduced 0 ampscale launch --nproc 2 -- bench collective allreduce => -n 1 -w 0 -e 4K
parsed  0 ampscale bench collective all_reduce_perf -b 8 -e 1G -f 2 -g 8
reduced 0 ampscale bench conv --net resnet18 -b 8 --image-size 64 => --rounds 1 -b 1
parsed  0 ampscale bench conv --devices cuda:0 -b 64 --json -o conv.json
reduced 0 ampscale bench gemm -m 512 -n 512 -k 512 --precision all => --iters 1 --warmup 0 --peak peak.json
reduced 0 ampscale bench gemm --net resnet18 -b 8 --image-size 64 => --iters 1 --warmup 0 -b 1 --peak peak.json
reduced 0 ampscale bench gemm --net resnet18 -b 8 --image-size 64 --peak peak.json --csv => --iters 1 --warmup 0 -b 1
reduced 0 ampscale bench input --data data/synth10 --image-size 64 --threads 1,2 => -n 1 -w 0 --images 8
reduced 0 ampscale bench input --data data/synth10 --image-size 64 => -n 1 -w 0 --images 8
reduced 0 ampscale bench input => -n 1 -w 0 --images 4 --size 64
reduced 0 ampscale bench memory => -n 1 -w 0 --max-mib 4
parsed  0 ampscale bench memory --devices cuda:0
parsed  0 ampscale bench memory --devices cuda:0,1,2,3
reduced 0 ampscale bench optimizer --net resnet18 => -n 1 -w 0 --peak peak.json --precision fp32
reduced 0 ampscale bench optimizer --net resnet18 --precision fp32 --peak peak.json => -n 1 -w 0
reduced 0 ampscale launch --nproc 2 -- bench overlap --net resnet18 -b 8 --image-size 64 => --rounds 1 -b 2 --image-size 32 --bucket-mb 4
reduced 0 ampscale launch --nproc 2 -- bench overlap --net resnet18 -b 8 --image-size 64 --bucket-mb 4,25 --json -o overlap.json => --rounds 1 -b 2 --image-size 32
reduced 0 ampscale bench step --net resnet18 -b 8 --image-size 64 => --rounds 1 -b 1 --peak peak.json
reduced 0 ampscale bench step --net resnet18 -b 8 --image-size 64 --peak peak.json => --rounds 1 -b 1
reduced 0 ampscale bench step --net resnet18 -b 8 --image-size 64 --peak peak.json --csv => --rounds 1 -b 1
parsed  0 ampscale bench step --predict h100 --precision amp -b 256
reduced 0 ampscale bench throughput -a resnet18 --image-size 64 --rows fp32:32 => --image-size 32 --rows fp32:2 --steps 2 --rounds 1
parsed  0 ampscale bench throughput --devices cuda:0 --rows amp:256 --fuse auto,none
parsed  0 ampscale bench throughput --devices cuda:0 --peer tests/peers/torch_step.py
'

# shown NAME...: prints the examples in the help of `ampscale NAME...`, one a line.
shown() {
    "$program" "$@" --help | awk '
        /^Examples:$/ { on = 1; next }
        on && !/^  / { exit }
        on && /^    / {
            sub(/^ +/, "")
            line = line $0
            if (!sub(/\\$/, "", line)) { print line; line = "" }
        }'
}

# try WANT LINE: runs a line of the shell in the scratch folder. Its exit status must be WANT.
try() {
    local code=0
    bash -c "$2" >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
    # shellcheck disable=SC2053 # $1 is a pattern
    [[ $code == $1 ]] || fail "'$2' exited with $code, not $1: $(tail -n 3 "$scratch/err")"
}

# check_example KIND WANT LINE FLAGS: runs an example in the way that its kind says.
check_example() {
    local kind=$1 want=$2 line=$3 flags=$4
    # Without MPI the ranks of `pair` cannot be started.
    [[ $line != *' pair '* ]] || command -v mpirun >/dev/null || kind=planned
    case $kind in
    full) try "$want" "$line" ;;
    reduced) try "$want" "$line $flags" ;;
    parsed) try 0 "$line --help" ;;
    planned)
        try 0 "${line%% -- *} --help"
        try 0 "ampscale ${line#* -- } --help"
        ;;
    *) fail "'$kind' is no way to run '$line'" ;;
    esac
}

command -v gnuplot >/dev/null || skip "gnuplot, which draws the figures, is not installed"
mkdir -p "$scratch/bin" "$scratch/work" && cd "$scratch/work" || exit 1
ln -s "$program" "$scratch/bin/ampscale"
export PATH=$scratch/bin:$PATH
ln -s "$source_dir/tests" tests
mkdir results && ln -s "$source_dir/results/published" results/published
. "$source_dir/tests/cli/made_runs.sh"
printf 'node1 slots=8\nnode2 slots=8\n' >nodes.txt
printf '#!/bin/sh\necho 512.3 img/s\n' >train.sh && chmod +x train.sh
make_runs gate/base 0 && make_runs gate/new 0.1 # as scripts/interleave leaves them

# Every command has two or three examples, and a family shows its first commands.
while read -r name; do
    # shellcheck disable=SC2086 # the name is one or two words
    mapfile -t examples < <(shown $name)
    ((${#examples[@]} == 2 || ${#examples[@]} == 3)) || fail "'ampscale $name --help' has ${#examples[@]} examples"
    printf '%s\n' "${examples[@]}" >>"$scratch/shown"
done < <(all_commands; sub_commands | grep -xF "$(all_commands | sed -n 's/ .*//p' | sort -u)"; echo)

declare -A count=([full]=0 [reduced]=0 [parsed]=0 [planned]=0)
while read -r kind want line; do
    [[ -n $kind ]] || continue
    flags=
    [[ $line != *' =>'* ]] || { flags=${line#* =>} && line=${line% =>*}; }
    grep -qxF -- "$line" "$scratch/shown" || fail "no --help has the example '$line'"
    printf '%s\n' "$line" >>"$scratch/listed"
    before=$SECONDS
    check_example "$kind" "$want" "$line" "$flags"
    ((SECONDS - before < 3)) || echo "$((SECONDS - before)) s: $line"
    count[$kind]=$((count[$kind] + 1))
done <<<"$list"
while read -r line; do
    fail "this test does not list the example '$line'"
done < <(sort -u "$scratch/shown" | grep -vxFf "$scratch/listed")

# A wrong flag in an example is found, whatever the kind.
for kind in full parsed planned; do
    failed=$failures
    check_example $kind 0 "ampscale launch --nproc 2 -- info --nonesuch" "" >/dev/null
    ((failures > failed)) || fail "a wrong flag in a '$kind' example is not found"
    failures=$failed
done
echo "examples: ${count[full]} run in full, ${count[reduced]} reduced, $((count[parsed] + count[planned])) parsed only, in $((SECONDS - started)) s"
finish
