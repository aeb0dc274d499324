#!/usr/bin/env bash
# Training on two hosts that are connected by a network: the result has the same bytes as on one
# host. If the network fails, all ranks end, and one line says why.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"
. "$(dirname "$0")/ranks.sh"
# shellcheck source=tests/comm/netns.sh
. "$source_dir/tests/comm/netns.sh"
cd "$scratch" || exit 1
make_data data
go=("$scratch/data" --threads 1 -j 1 --epochs 3 --bucket-mb 0.05)

both() {
    expect_ranks 0 2 "${go[@]}" --out "$scratch/$1ddp"
    expect_ranks 0 2 "${go[@]}" --out "$scratch/$1ddp2" --devices cpu:2 --sync-bn
}
both one-
netns_open
trap 'netns_close; rm -rf "$scratch"' EXIT
both ""
for mode in ddp ddp2; do
    hosts=$(grep -o '"host": *"host-[ab]"' "$mode/run.json" | grep -o 'host-.' | xargs)
    [[ $hosts == "host-a host-b" ]] || fail "$mode: recorded hosts '$hosts'"
    same_run "$mode" "one-$mode" "$mode"
done

# The network fails after an epoch. The output of rank 0 still reaches the launcher: it says which
# rank is lost, or that the MPI library does not respond. The ranks on both hosts end.
netns_lose ampscale test -s cut/epochs.jsonl >ranks &
mpi_run 60 2 "$program" train "${net[@]}" "${go[@]}" --epochs 100000 --comm-timeout 2 --out "$scratch/cut"
wait
((code != 0 && code != 124)) || fail "after the network was cut, the job exited with $code"
[[ $(xargs <ranks) == "2 0" ]] || fail "the numbers of ranks before and after the network was cut are not 2 and 0: $(xargs <ranks)"
says='rank 1 \(host host-b, pid [0-9]+\) did not reach operation|rank 0: the MPI library does not'
grep -qE "^ampscale: ($says)" err || fail "no message says that the network has failed: $(<err)"
grep -q '^epoch' < <(run_values cut) || fail "the record cannot be read"
finish
