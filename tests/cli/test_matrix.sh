#!/usr/bin/env bash
# Trains in every mode, at every precision, over every transport: the losses must be those of the
# reference device, within the limits of matrix.txt. Arguments after the usual three: daily, all, or
# make, which prints the table with the losses that this program's reference device computes; and a
# pattern of the runs' WHERE.
which=${4:-all} where=${5:-*}
. "$(dirname "$0")/common.sh" "${@:1:3}"
. "$source_dir/tests/cli/train.sh"
. "$source_dir/tests/comm/mpi.sh"
mpi=$("$build_dir/tests/comm/mpi_ranks" version)
! (mpi_find "$mpi") >/dev/null || mpi_find "$mpi"
cd "$scratch" || exit 1

batch=8
net=(--dummy --dummy-train 48 --dummy-val 8 --classes 4 -a resnet8 --image-size 24 --epochs 1 --lr 0.03 --seed 1
    --threads 1 -p 100 --bucket-mb 0.05 --loss-scale-init 1024 --telemetry 0)

# lacks WHERE: prints what the machine or the build lacks for a run.
lacks() {
    case $1 in
    *-mpi) [[ -n ${mpi_launch-} ]] || echo "a launcher of $mpi" ;;
    *-gloo) [[ -e $build_dir/cli/ampscale_gloo.so ]] || echo Gloo ;;
    esac
    [[ $1 != gpu-* ]] || fake_gpu || echo "a simulated GPU"
}

# compute WHERE ARGS...: trains into the folder "run".
compute() {
    local ranks transport mode devices=cpu command=("$program") more=()
    IFS=- read -r mode ranks transport <<<"${1#gpu-}"
    case $transport in
    mpi) command=("${mpi_launch[@]}" -n "$ranks" "$program") ;;
    gloo) command+=(launch --nproc "$ranks" --nnodes 1 --) more=(--comm "$transport") ;;
    esac
    [[ $mode != @(dp|ddp2) ]] || devices=cpu:2
    case $1 in
    gpu-dp) devices=cuda:0,1 ;;
    gpu-ddp*) devices=cuda ;;
    gpu-*) devices=cuda:0 ;;
    esac
    [[ $1 != gpu-* ]] || { fake_gpu && more+=(--deterministic); }
    rm -rf run
    timeout -k 5 200 "${command[@]}" train "${net[@]}" -b $((batch / ${ranks:-1})) --mode "$mode" --devices "$devices" \
        "${more[@]}" "${@:2}" --out run >out 2>err </dev/null
}

# losses: prints the loss of each step of the run, and of the validation, on one line.
losses() {
    run_values run | awk '
        $1 == "step" { printf "%.7g%s ", $10, / skipped 1 / ? "x" : "" }
        $1 == "epoch" { printf "%.7g\n", $14 }'
}

# agree LIMIT: compares the losses of the run with $want. Prints the largest relative difference.
agree() {
    paste <(tr ' ' '\n' <<<"$want") <(losses | tr ' ' '\n') | awk -v limit="$1" '
        $1 == "-" { next }
        {
            d = ($1 + 0 > $2 + 0 ? $1 - $2 : $2 - $1) / $1
            if (d > most) most = d
            if (NF != 2 || ($1 ~ /x/) != ($2 ~ /x/) || !(d <= limit)) bad = 1
        }
        END { print most + 0; exit bad || NR < 2 }'
}

# state: prints the hash of the run's weights and momentum.
state() {
    sed -n 's/.*"state_bits": *\("[0-9a-f]*"\).*/\1/p' run/summary.json
}

# check WHERE LIMIT ARGS...: one run of the current training.
check() {
    local what="$training: $1 ${*:3}" limit=$2 why code=0 far=0 before=$bits
    why=$(lacks "$1")
    [[ -z $why ]] || { missing[$why]=$((${missing[$why]-0} + 1)) && return; }
    compute "$1" "${args[@]}" "${@:3}" || code=$?
    ((code == 0)) || { fail "$what: exited with $code: $(head -c 300 err)" && return; }
    bits=$(state)
    if [[ $limit == bits ]]; then
        [[ -n $bits && $bits == "$before" ]] || fail "$what: the bits of the state are not those of the run before"
    else
        far=$(agree "$limit") || fail "$what: losses $(losses) instead of $want"
    fi
    printf '%-9.2g %-5s %s\n' "$far" "$limit" "$what"
    ran=$((ran + 1))
}

# make_expected ARGS...: prints the line "is" of the current training. With ARGS, devices that share a
# batch have other running statistics, so that the loss of the validation is not compared.
make_expected() {
    compute nd --devices ref "${args[@]}" "$@" || fail "$training: $(<err)"
    want=$(losses)
    (($# == 0)) || want="${want% *} - from $*"
    echo "is $want"
}

declare -A missing=()
ran=0 bits=
while IFS= read -r line; do
    read -ra word <<<"$line"
    case ${word[0]-} in
    training) training=${word[1]} args=("${word[@]:2}") ;;
    is)
        want=${line#is } want=${want% from *}
        from=()
        [[ $line != *" from "* ]] || read -ra from <<<"${line##* from }"
        [[ $which != make ]] || line=$(make_expected "${from[@]}")
        ;;
    run | \*run)
        # shellcheck disable=SC2053 # a pattern
        [[ $which == make || ($which == daily && $line != \**) || ${word[1]} != $where ]] || check "${word[@]:1}"
        ;;
    esac
    [[ $which != make ]] || echo "$line"
done <"$source_dir/tests/cli/matrix.txt"
[[ $which != make ]] || finish
echo "$ran runs"
why=$(for what in "${!missing[@]}"; do echo "${missing[$what]} runs need $what"; done | paste -sd,)
[[ -z $why ]] || skip "$why; $ran others passed"
((ran > 0)) || fail "no run is '$where'"
finish
