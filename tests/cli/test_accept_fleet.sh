#!/usr/bin/env bash
# ampscale accept on several nodes: results compared with each other, and test suites as the ranks
# of a job.
. "$(dirname "$0")/common.sh" "$@"
cd "$scratch" || exit 1

# fleet FILE RATE...: writes results of nodes n0, n1 ... with these rates; '-' means no value.
fleet() {
    local file=$1 rate i=0
    shift
    for rate; do
        [[ $rate == - ]] && rate=null
        echo "{\"node\": \"n$i\", \"train/return_code\": 0, \"train/images_per_s\": $rate}"
        i=$((i + 1))
    done >"$file"
}

# is_list NAME NODE...: checks that out/NAME.txt lists these nodes.
is_list() {
    local file=judged/$1.txt
    shift
    cmp -s "$file" <(for node; do echo "$node"; done) || fail "$file has $(xargs <"$file"), not $*"
}

fleet alike.jsonl 100 101 99 100
expect 0 accept --node-list alike.jsonl
grep -q '^passed: 4 nodes: 4 passed' out || fail "alike: $(<out)"

fleet slow.jsonl 100 101 70 - 100
mkdir r
printf 'n0\nn1 slots=8\nn2\nn3\nn4\naway\n' >expected
expect 4 accept --node-list slow.jsonl --expect expected --out judged
is_list good n0 n1 n4
is_list failed n2
is_list missing n3 away
for what in 'FAIL train/images_per_s: 30.0 % worse than the median of 4 nodes \(100\)' \
    'MISSING train/images_per_s: not measured here; 4 of 5 nodes have a value' \
    'MISSING no results of this node were found' '^FAILED: 6 nodes: 3 passed'; do
    grep -qE -- "$what" out || fail "the table does not say '$what': $(<out)"
done
for file in fleet.json fleet.md fleet.html fleet.xml results-summary.jsonl; do
    [[ -s judged/$file ]] || fail "there is no judged/$file"
done
if command -v xmllint >/dev/null; then
    xmllint --noout judged/fleet.xml || fail "fleet.xml is no XML"
    [[ ! -e $source_dir/tests/accept/junit.xsd ]] ||
        xmllint --noout --schema "$source_dir/tests/accept/junit.xsd" judged/fleet.xml 2>/dev/null ||
        fail "fleet.xml is not JUnit's"
fi
# The written results are read again, and give the same verdicts.
expect 4 accept --node-list judged/results-summary.jsonl

# Exit codes: 5 for a missing metric, 0 for a warning (4 with --strict), and 5 for metrics that
# cannot be judged.
fleet missing.jsonl 100 - 100 100
expect 5 accept --node-list missing.jsonl
fleet warning.jsonl 100 94 100 100
expect 0 accept --node-list warning.jsonl
expect 4 accept --node-list warning.jsonl --strict
expect 4 accept --node-list warning.jsonl --within 5
fleet two.jsonl 100 100
expect 5 accept --node-list two.jsonl
expect_error 5 "node 'n0' occurs twice" accept --node-list two.jsonl two.jsonl
expect_error 5 "line 1" accept --node-list expected
expect_error 5 "cannot open 'nowhere'" accept --node-list nowhere
expect_error 5 "no results of nodes in '$scratch/r'" accept --node-list "$scratch/r"
expect_error 5 "cannot open 'none'" accept --node-list two.jsonl --expect none
expect_error 2 "unexpected argument 'two.jsonl'" accept two.jsonl
expect_error 2 "give --failing" pair
expect_error 2 "must run as the ranks of a job" accept pair --failing n1

# Three ranks on this machine act as three nodes: each rank runs a test suite in its node's folder.
# Then one node's report is removed, and the job resumes. A comparison needs three nodes.
. "$source_dir/tests/comm/mpi.sh"
mpi_find "$("$build_dir/tests/comm/mpi_ranks" version)"
cat >spec.json <<'JSON'
{"schema": 1, "name": "little", "about": "a test", "device": "ref", "hardware": ["*"],
 "checks": [{"name": "facts", "kind": "facts", "level": 1, "seconds": 1, "limit_s": 60,
             "limits": {"cores": {"min": 1, "fleet_within": 1, "source": "a test"}}}]}
JSON
node=$(uname -n | tr -c 'A-Za-z0-9.\n' -)
mpi_leaks on
mpi_run 60 3 "$program" accept --spec "$scratch/spec.json" --out "$scratch/job" --level 1
mpi_leaks off
((code == 0)) || fail "a job of three ranks ended with exit code $code: $(cat out err)"
for name in "$node" "$node-1" "$node-2"; do
    [[ -s job/$name/accept.json ]] || fail "three ranks: there is no report of $name"
done
grep -q '^passed: 3 nodes: 3 passed' out || fail "the output does not say that three nodes passed: $(cat out err)"
rm "job/$node-1/accept.json"
expect 5 accept --node-list job
grep -q "MISSING nothing was measured: the node's test suite has not ended" out || fail "the output does not report the node whose report was removed: $(<out)"
mpi_run 60 3 "$program" accept --spec "$scratch/spec.json" --out "$scratch/job" --level 1 --resume
((code == 0)) || fail "the resumed job ended with exit code $code: $(cat out err)"
expect 0 accept --node-list job

# A node whose test suite is killed, and a node that never joins: the other nodes get verdicts.
# At first, all three nodes measure all metrics. Then one node loses its results of the long check.
cat >lost.json <<'JSON'
{"schema": 1, "name": "lost", "about": "a test", "device": "ref", "hardware": ["*"],
 "checks": [{"name": "facts", "kind": "facts", "level": 1, "seconds": 1, "limit_s": 60,
             "limits": {"cores": {"min": 1, "source": "a test"}}},
            {"name": "long", "kind": "train", "level": 1, "seconds": 1, "limit_s": 20,
             "args": {"arch": "resnet8", "image_size": 16, "batch": 2, "classes": 10, "steps": 2, "threads": 1}}]}
JSON
mpi_run 60 3 "$program" accept --spec "$scratch/lost.json" --out "$scratch/lost" --level 1
((code == 0)) || fail "a job of three nodes ended with exit code $code: $(cat out err)"
sed -i 's/"steps": 2\b/"steps": 100000000/' lost.json lost/*/spec.json
lost=$scratch/lost/$node-1

# suite_of_lost: prints the process ID of the test suite that writes to the folder $lost.
suite_of_lost() {
    pgrep -f -- " accept .*--out $lost\$"
}

# lose: removes the results of the long check from the folder $lost.
lose() {
    rm -rf "$lost/checks/long" "$lost/checks/long.json" "$lost/checks/long.part" "$lost/accept.json"
}

# ended CODE: checks that two of three nodes have passed and the third has no results.
ended() {
    ((code == $1)) || fail "the exit code is $code, not $1: $(cat out err)"
    grep -q '^incomplete: 3 nodes: 2 passed, .* 1 has missing results' out || fail "the output does not say that two of three nodes passed: $(cat out err)"
    grep -qx "    MISSING nothing was measured: the node's test suite has not ended" out || fail "the output does not report the lost node: $(cat out err)"
}

lose
{
    for ((i = 0; i < 300; i++)); do
        [[ -e $lost/checks/long/r1/run/steps.jsonl ]] && break
        sleep 0.1
    done
    kill -KILL "$(suite_of_lost)"
} &
mpi_run 60 3 "$program" accept --spec "$scratch/lost.json" --out "$scratch/lost" --level 1 --resume
wait
ended 5
grep -qx "ampscale: node '$node-1': the node's test suite was ended by a signal: Killed" err || fail "stderr does not say why the node has no results: $(cat err)"

lose
mpi_run 60 3 "$program" accept --spec "$scratch/lost.json" --out "$scratch/lost" --level 1 --resume --wait 5
ended 5
grep -qx "ampscale: cannot join the MPI job: not all ranks arrived within 5 s; no results from: $node-1" err || fail "no line names the node that did not join: $(cat err)"
for ((i = 0; i < 300; i++)); do # waits for processes that the launcher has ended
    suite_of_lost >/dev/null || break
    sleep 0.1
done

# Two nodes never join, and their folders are on other machines. The launcher's list of hosts gives
# their names. A single node cannot be compared.
# shellcheck disable=SC2016 # the shell of each rank expands these variables
AMPSCALE_HOSTS="$node:2,far-away" mpi_run 60 3 bash -c \
    '[[ ${OMPI_COMM_WORLD_RANK-$PMI_RANK} == 0 ]] && exec "$@"; sleep 30' \
    - "$program" accept --spec "$scratch/spec.json" --out "$scratch/apart" --level 1 --wait 2
((code == 5)) || fail "the exit code is $code when no other node joins: $(cat out err)"
grep -qx "ampscale: cannot join the MPI job: .*; no results from: $node-1, far-away" err || fail "stderr does not name the nodes without results: $(cat err)"
cmp -s apart/missing.txt <(printf '%s\n' "$node" "$node-1" far-away) || fail "missing: $(cat apart/missing.txt)"

# A killed rank ends the job. The last line says how to resume the job and how to judge the existing
# results.
lose
"$program" launch --mpirun "${mpi_launch[0]}" --nproc 3 -- \
    accept --spec "$scratch/lost.json" --out "$scratch/lost" --level 1 --resume >out 2>err </dev/null &
launch=$!
for ((i = 0; i < 300; i++)); do
    [[ -e $lost/checks/long/r1/run/steps.jsonl ]] && break
    sleep 0.1
done
kill -KILL "$(ps -o ppid= -p "$(suite_of_lost)" | tr -d ' ')"
code=0
wait "$launch" || code=$?
((code == 137)) || fail "after a rank was killed, the exit code is $code: $(cat err)"
[[ $(tail -n 1 err) == "ampscale: the results are in $scratch/lost: 'ampscale launch --mpirun ${mpi_launch[0]} --nproc 3 -- accept "*" --resume' runs the missing checks, and 'ampscale accept --node-list $scratch/lost' judges the existing results" ]] ||
    fail "the last line does not say how to continue: $(tail -n 1 err)"
expect 5 accept --node-list "$scratch/lost"
ended 5

# again CODE LINE COMMAND ARGS...: checks that one of three attempts ends with CODE and prints LINE.
# On a busy machine, an attempt may be disturbed.
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

mpi_leaks on
again 0 "$node-1: failure not reproduced" accept pair --failing 1 --out "$scratch/again"
[[ -s again/pair.json ]] || fail "there is no pair.json"
mpi_leaks off
again 4 "$node-1: the node itself" pair --failing "$node-1" --inject slow-rank=1:4000%
finish
