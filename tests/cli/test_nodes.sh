#!/usr/bin/env bash
# `ampscale accept` on several nodes and GPUs: suites as the ranks of a job, lost nodes, pair tests, and
# a node with two fake GPUs and fake sensors.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/comm/mpi.sh"
cd "$scratch" || exit 1
mpi_find "$("$build_dir/tests/comm/mpi_ranks" version)"
node=$(uname -n | tr -c 'A-Za-z0-9.\n' -)

# spec DEVICE CHECKS: writes spec.json.
spec() {
    printf '{"schema": 1, "name": "made", "about": "a test", "device": "%s", "devices": %d, "hardware": ["*"], "checks": [%s]}\n' "${@}" >spec.json
}

# train NAME KEYS LIMITS: prints a check of two small steps.
train() {
    printf '{"name": "%s", "kind": "train", "level": 1, "seconds": 1, "limit_s": 100, %s "args": {"arch": "resnet8", "image_size": 16, "batch": 2, "classes": 5, "steps": 2%s}, "limits": {%s}}' "$@"
}

# ranks COMMAND...: runs three ranks with the spec, which act as three nodes.
ranks() {
    mpi_run 60 3 "$@" "$program" accept --spec "$scratch/spec.json" --level 1 "${more[@]}"
}

# Each rank runs a suite in its node's folder. Then one node's report is removed, and the job resumes.
spec ref 1 "{\"name\": \"facts\", \"kind\": \"facts\", \"level\": 1, \"seconds\": 1, \"limit_s\": 60, \"limits\": {\"cores\": {\"min\": 1}}},$(train long "" ', "threads": 1' "")"
more=(--out "$scratch/job")
mpi_leaks on
ranks
mpi_leaks off
((code == 0)) && grep -q '^passed: 3 nodes: 3 passed' out || fail "a job of three ranks ended with exit code $code: $(cat out err)"
grep -q "^remark: '$node' and '$node-2' were measured on hosts named '$(uname -n)'" out || fail "ranks of one host are judged as nodes without a remark: $(<out)"
mpi_run 60 1 "$program" accept --spec "$scratch/spec.json" --level 1 --name a --out "$scratch/named"
((code == 2)) && grep -q -- '--name is for one node' err || fail "a job takes --name: $code $(<err)"
lost=$scratch/job/$node-1
rm "$lost/accept.json"
expect 5 accept --node-list job
grep -q "MISSING nothing was measured: the node's test suite has not ended" out || fail "the output does not report the node whose report was removed: $(<out)"
more+=(--resume)
ranks
((code == 0)) || fail "the resumed job ended with exit code $code: $(cat out err)"
expect 0 accept --node-list job
odd=$'odd\xff' # the name of a folder may be no UTF-8
cp -r job "$odd"
expect 0 accept --node-list "$odd" --out "$odd/fleet"
cp -r job empty
tr -d '\n' <"job/$node-1/accept.json" | sed 's/"values": *\[[^]]*\]/"values": []/g' >"empty/$node-1/accept.json"
expect 5 accept --node-list empty
# Nor are the checks of another build, or of a node whose processor was exchanged, those of this one.
cp -r "job/$node-1" other
for change in '"version": "[^"]*"/"version": "0.0.1"' '"processor": "[^"]*"/"processor": "another"'; do
    sed -i.was "s/$change/" other/node.json
    expect_error 2 "the results in 'other' are of a node that differs" accept --spec "$scratch/spec.json" --level 1 --out other --resume -q
    mv other/node.json.was other/node.json
done

# A node whose suite is killed, and a node that never joins: the other nodes get verdicts.
sed -i 's/"steps": 2\b/"steps": 100000000/' spec.json job/*/spec.json

# suite_of_lost: prints the process ID of the suite that writes to the folder $lost.
suite_of_lost() {
    pgrep -f -- " accept .*--out $lost\$"
}

# lose: removes the results of the long check from the folder $lost.
lose() {
    rm -rf "$lost/checks/long" "$lost/checks/long.json" "$lost/checks/long.part" "$lost/accept.json"
}

# wait_long: waits until the long check of the lost node has begun.
wait_long() {
    await 60 test -e "$lost/checks/long/r1/run/steps.jsonl"
}

# ended CODE: checks that two of three nodes have passed and the third has no results.
ended() {
    ((code == $1)) || fail "the exit code is $code, not $1: $(cat out err)"
    grep -q '^incomplete: 3 nodes: 2 passed, .* 1 has missing results' out || fail "two of three nodes: $(cat out err)"
    grep -qx "    MISSING nothing was measured: the node's test suite has not ended" out || fail "the lost node: $(cat out err)"
}
lose
wait_long && kill -KILL "$(suite_of_lost)" &
ranks
wait
ended 5
grep -qx "ampscale: node '$node-1': the node's test suite was ended by a signal: Killed" err || fail "stderr does not say why the node has no results: $(<err)"
lose
more+=(--wait 5)
ranks
ended 5
grep -qx "ampscale: cannot join the MPI job: not all ranks arrived within 5 s; no results from: $node-1" err || fail "no line names the node that did not join: $(<err)"
no_suite() { ! suite_of_lost >/dev/null; }
await 30 no_suite # of processes that the launcher has ended

# A killed rank ends the job. The last line says how to resume the job and how to judge the results.
lose
"$program" launch --mpirun "${mpi_launch[0]}" --nproc 3 -- accept --spec "$scratch/spec.json" --level 1 --out "$scratch/job" --resume >out 2>err </dev/null &
launch=$!
wait_long
kill -KILL "$(ps -o ppid= -p "$(suite_of_lost)" | tr -d ' ')"
code=0
wait "$launch" || code=$?
((code == 137)) || fail "after a rank was killed, the exit code is $code: $(<err)"
[[ $(tail -n 1 err) == "ampscale: the results are in $scratch/job: 'ampscale launch "*" --resume' runs the missing checks, and 'ampscale accept --node-list $scratch/job' judges the existing results" ]] ||
    fail "the last line does not say how to continue: $(tail -n 1 err)"
expect 5 accept --node-list "$scratch/job"
ended 5

# Two nodes never join, and their folders are on other machines. The launcher's list of hosts names them.
more=(--out "$scratch/apart" --wait 2 --only facts)
# shellcheck disable=SC2016 # the shell of each rank expands these variables
AMPSCALE_HOSTS="$node:2,far-away" ranks bash -c '[[ ${OMPI_COMM_WORLD_RANK-$PMI_RANK} == 0 ]] && exec "$@"; sleep 30' -
((code == 5)) || fail "the exit code is $code when no other node joins: $(cat out err)"
cmp -s apart/missing.txt <(printf '%s\n' "$node-1" far-away) || fail "missing: $(<apart/missing.txt)"

# again CODE LINE COMMAND ARGS...: checks that one of three attempts ends with CODE and prints LINE. On a
# busy machine, an attempt may be disturbed.
again() {
    local want=$1 line=$2 turn
    shift 2
    for turn in 1 2 3; do
        mpi_run 100 3 "$program" "$@" --net resnet18 --image-size 32 -b 2 --rounds 1 --mib 4 --samples 9 --within 90 --latency-within 100000 --threads 1
        [[ $code != "$want" ]] || ! grep -q "^$line" out || return 0
        echo "attempt $turn ended with exit code $code: $(cat out err)"
    done
    fail "'$*' does not exit with $want and say '$line'"
}
again 0 "$node-1: failure not reproduced" accept pair --failing 1 --out "$scratch/again"
[[ -s again/pair.json ]] || fail "there is no pair.json"
again 4 "$node-1: the node itself" pair --failing "$node-1" --inject slow-rank=1:4000%

# --- two fake GPUs -------------------------------------------------------------------------------
need_fake_gpu
export LD_LIBRARY_PATH=$build_dir/tests/telemetry/full${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
peers='{"name": "peers", "kind": "gpu-peers", "level": 1, "seconds": 1, "limit_s": 60, "args": {"max_mib": 4, "iters": 2}, "limits": {"wrong": {"max": 0}, "staged": {"max": 2}, "pairs": {"min": 2, "max": 2}}}'
spec cuda 2 "$(train burn '"each": true, "burn": true,' '' '"memory_gib": {"max": 1}'),$peers"
expect 0 accept --spec ./spec.json --dry-run --level 1
grep -q '^burn.1 .*, at the same time$' out || fail "the plan runs the burn-ins one after the other: $(<out)"
expect 0 accept --spec ./spec.json --out gpus --level 1
for metric in copy_0_1 copy_1_0; do
    grep -qE "\"name\":\"$metric\",\"unit\":\"GB/s\",\"better\":\"higher\",\"values\":\[[0-9.e-]*[1-9]" < <(tr -d ' \n' <gpus/accept.json) || fail "$metric was not measured: $(<out)"
done
for gpu in 0 1; do
    grep -q "^  PASS *memory_gib .*worst on $(uname -n) cuda:$gpu" out || fail "the results lack the sensors of GPU $gpu: $(<out)"
done
expect 0 accept --spec ./spec.json --gpus 1 --out single --level 1
! grep -q peers out || fail "the check 'peers' was planned for a single GPU: $(<out)"

# One GPU checks NCCL itself. Without NCCL, the check is missing.
expect 5 accept --spec bring-up-quick --only nccl --out without-nccl
grep -q '^MISSING nccl, .*built without NCCL' out || fail "a check without NCCL is not missing: $(<out)"
if grep -q ampscale_cuda_nccl "$AMPSCALE_CUDA_MODULE"; then
    AMPSCALE_FAKE_NCCL=1 expect 0 accept --spec bring-up-quick --only facts,nccl --out nccl
    AMPSCALE_FAKE_NCCL=1 AMPSCALE_FAKE_FAIL=ncclAllReduce:2 expect 4 accept --spec bring-up-quick --only nccl --out broken-nccl
    grep -q '^FAIL *nccl, .*ncclAllReduce: unhandled system error' out || fail "a failure of NCCL passes: $(<out)"
fi

# The launcher starts a process for each GPU. All GPUs are judged, and the report names the worst one.
spec cuda 2 "$(train node "" "" '"memory_gib": {"max": 1e-9}, "throttled_heat": {"max": 0}')"
expect 4 accept --spec ./spec.json --out node --level 1
grep -q "FAIL *memory_gib .*worst on $(uname -n) cuda:0" out || fail "the output does not name the worst GPU: $(<out)"
grep -q "PASS *throttled_heat" out || fail "not all sensors were judged: $(<out)"
finish
