#!/usr/bin/env bash
# A stop signal is never lost: not while mpirun starts, nor while nobody reads the output. A second
# one ends at once. With the argument "mpirun" after the usual three, real ranks of mpirun are used.
. "$(dirname "$0")/common.sh" "$@"
cd "$scratch" || exit 1
own_program
small=(--dummy --dummy-train 64 --classes 3 -a resnet8 --image-size 32 -b 8 --training-only --threads 1)
export OMP_WAIT_POLICY=passive
[[ ${4-} != mpirun ]] || type -p mpirun >/dev/null || skip "there is no mpirun"

# starts NAME ARGS...: starts the program in the background; `ends` waits for it.
starts() {
    name=$1
    "$program" "${@:2}" >"${output-out}" 2>"${output-err}" </dev/null &
    job=$!
}
gone() { ! kill -0 "$job" 2>/dev/null; }
# ends CODE: the job ends by itself with this code.
ends() {
    await 60 gone || { kill -KILL "$job" && none_left "$name"; }
    code=0
    { wait "$job"; } 2>/dev/null || code=$?
    ((code == $1)) || fail "$name: the exit code is $code, not $1: $(tail -n 3 err)"
}
# again SIGNAL: sends the signal until the job has ended.
again() { gone || { kill -s "$1" "$job" && false; }; }
steps() { [[ -e $1/steps.jsonl ]] && (($(wc -l <"$1/steps.jsonl") > 8)); }

# Two signals at once are one request, as `timeout` sends them. SIGUSR1 does not count, however often.
starts same train "${small[@]}" --epochs 100000 --out same
await 30 steps same
kill -USR1 "$job" && kill -USR1 "$job" && kill -TERM "$job" && kill -TERM "$job"
ends 143
[[ -s same/checkpoint.safetensors ]] || fail "two signals at once: no checkpoint: $(<err)"

# A step that takes minutes does not end at the first signal, but at the second one.
for second in TERM HUP; do
    starts "second-$second" train "${small[@]}" --dummy-train 524288 --accumulate 65536 --out "second-$second"
    await 30 test -s "second-$second/run.json"
    kill -USR1 "$job" && kill -TERM "$job"
    sleep 0.6
    gone && fail "second-$second: one signal has ended a step: $(<err)"
    await 20 again "$second"
    ends $((128 + $(kill -l "$second")))
    [[ ! -e second-$second/checkpoint.safetensors ]] || fail "second-$second: the run stopped in an orderly way"
done

# Nobody reads a pipe that is full. Training continues, and a signal stops it.
mkfifo full
exec 5<>full
dd if=/dev/zero of=full bs=4096 count=16 oflag=nonblock 2>/dev/null
kinds=(train)
[[ ! -e ampscale_gloo.so ]] || kinds+=(gloo)
[[ ${4-} != mpirun ]] || kinds=(mpirun)
for kind in "${kinds[@]}"; do
    start=(launch --nproc 2 --grace 3600)
    [[ $kind != gloo ]] || start+=(--comm gloo)
    [[ $kind != train ]] || start=()
    output=full starts "$kind" "${start[@]}" train "${small[@]}" --epochs 100000 -p 1 --out "$kind"
    await 60 steps "$kind" || fail "$kind: a full pipe blocks training"
    kill -TERM "$job"
    ends 143
    [[ -s $kind/checkpoint.safetensors ]] || fail "$kind: no checkpoint"
    none_left "$kind"
done
# Not even a launcher whose ranks do not stop needs a reader.
printf '#!/bin/sh\n[ "$1" != --version ] || { echo "Open MPI"; exit; }\ntrap "" USR1\nexec sleep 300\n' >deaf
chmod +x deaf
output=full starts hung launch --mpirun ./deaf --nproc 2 --grace 3600 --log-dir hung-logs -- info
await 30 test -e hung-logs/mpirun.log
await 30 again TERM
ends 143

# A reader that has gone is no failure; a full disk is, and the record says so.
{ "$program" train "${small[@]}" --epochs 2 -p 1 --out head 2>err; echo $? >code; } | head -n 1 >/dev/null
[[ $(<code) == 0 && ! -s err ]] && grep -q '"exit_code": 0' head/outcome.json ||
    fail "train | head: exit code $(<code), $(grep exit_code head/outcome.json), $(<err)"
if [[ -c /dev/full ]]; then
    code=0
    "$program" train "${small[@]}" --epochs 2 -p 1 --out disk >/dev/full 2>err || code=$?
    ((code == 1)) && grep -q '"exit_code": 1' disk/outcome.json ||
        fail "train >/dev/full: exit code $code, $(grep exit_code disk/outcome.json)"
    one_line "train >/dev/full" "cannot write"
fi

# Every other command that answers signals itself: one that finds nobody who reads stops as well. A
# reader that is only late gets every byte.
mkfifo unread
sleep 1000 <>unread &
reader=$!
"$build_dir/cli/ampscale" train "${small[@]}" --epochs 100000 --out live >/dev/null 2>&1 </dev/null &
live=$!
await 30 steps live
for command in "record --out recorded -- seq 10000000" "selftest --operations --every 40 -v" "watch head" "watch live"; do
    read -ra words <<<"$command"
    head -c 1000000 /dev/zero >unread 2>/dev/null & # more than a pipe holds: it is full from now on
    filler=$!
    await 30 grep -q '^State:[[:space:]]*S' /proc/$filler/status
    output=unread output_err=err starts "unread-${words[0]}" "${words[@]}"
    sleep 1
    kill -TERM "$job" 2>/dev/null
    [[ $command == watch* ]] && await 10 gone || await 60 again TERM
    code=0
    { wait "$job"; } 2>/dev/null || code=$?
    ((code == 143)) || fail "$command, whose output nobody reads: the exit code is $code, not 143: $(<err)"
    kill $filler && wait $filler 2>/dev/null
    none_left "unread-${words[0]}"
done
kill $reader $live
{ "$program" record --out read -- sh -c 'seq 100000; sleep 0.3; echo last' 2>err </dev/null && touch recorded-all; } | head -n 1 >/dev/null
[[ -e recorded-all && $(tail -n 1 read/output.log) == last ]] || fail "record | head: $(<err), $(tail -n 1 read/output.log)"
"$program" record --out late -- seq 200000 2>err </dev/null | { sleep 2 && cat >late.out; }
seq 200000 | cmp - late.out || fail "a late reader does not get the whole output"

# A reader of the messages that has gone does not keep a result from its file, and a pipe without a
# reader does not keep a signal from the command.
"$program" train "${small[@]}" --steps 8 --epochs 1 --no-checkpoint --out run >out 2>err || fail "train: $(<err)"
mkdir base new && cp -r run base/r1 && cp -r run new/r1
sed -i 's/"started_s": /&1/' new/r1/run.json
"$program" compare base new --json -o fresh.json >out 2>err
code=$?
echo '{"verdict": "passed"}' >old.json
"$program" compare base new --json -o old.json 2> >(exec true) && fail "compare passes a single run"
cmp -s old.json fresh.json || fail "the verdict without a reader of stderr, exit code $code: $(<old.json)"
starts export export run --format prometheus -o full.prom
ends 0
mkfifo idle.prom
starts idle export run --format prometheus -o idle.prom
sleep 0.5
kill -TERM "$job"
ends 143

# What the parent ignores or blocks is inherited.
{ env --ignore-signal=CHLD --block-signal=TERM "$program" record --out orphan -- true >out 2>err; } || fail "record without SIGCHLD: $(<err)"
env --block-signal=TERM "$program" train "${small[@]}" --epochs 100000 --out blocked >out 2>err &
job=$! name=blocked
await 30 steps blocked
kill -TERM "$job"
ends 143
"$program" record --out cut -- sleep 60 >out 2>err &
job=$! name=cut
await 20 test -e cut/output.log
kill -INT "$job"
ends 130

# A closed standard stream: its number is given to no other file, into which the output would go.
for closed in "<&- >out" ">&-" "<&- >&-" ">&- 2>&-"; do
    rm -rf closed
    eval '"$program" train "${small[@]}" --steps 8 --epochs 1 --out closed '"$closed" || fail "train $closed: exit code $?"
    ! grep -v '^{' closed/*.jsonl || fail "train $closed writes its output into the record"
done
code=0
"$program" info 2>err >&- || code=$?
((code == 1)) || fail "info >&-: exit code $code"
one_line "info >&-" "cannot write the results to standard output: Bad file descriptor"

# mpirun may lose SIGUSR1 while it starts. launch repeats it until a rank has acknowledged it.
cat >deaf <<'END'
#!/usr/bin/env bash
[[ $1 != --version ]] || { echo "Open MPI"; exit; }
n=0
trap '((++n < 2)) || { echo "ampscale: rank 0 (host h, pid 7) is asked to stop" >&2; touch asked; exit 1; }' USR1
echo "ampscale: rank 0 (host h, pid 7) has started" >&2
while :; do sleep 0.1; done
END
starts deaf launch --mpirun ./deaf --nproc 1 --grace 3600 --log-dir deaf-logs -- info
await 30 test -e deaf-logs/mpirun.log
sleep 0.1
kill -TERM "$job"
ends 143
[[ -e asked ]] || fail "launch does not repeat its request: $(<err)"
! grep -q "is asked to stop" err || fail "the acknowledgement is shown: $(<err)"
# SIGUSR1 would kill a rank that has not started yet, and mpirun may then hang. launch waits for it.
cat >slow <<'END'
#!/usr/bin/env bash
[[ $1 != --version ]] || { echo "Open MPI"; exit; }
starts() { echo "ampscale: rank $1 (host h, pid 7) has started" >&2; }
trap 'touch lost' USR1
starts 0
until [[ -e asking ]]; do sleep 0.1; done
trap 'for rank in 0 1; do echo "ampscale: rank $rank (host h, pid 7) is asked to stop" >&2; done; touch both; exit 1' USR1
starts 1
while :; do sleep 0.1; done
END
chmod +x slow
starts slow launch --mpirun ./slow --nproc 2 --grace 3600 --log-dir slow-logs -- info
await 30 test -e slow-logs/mpirun.log
kill -TERM "$job"
await 30 grep -q 'asking the ranks to stop' err
touch asking
ends 143
[[ -e both && ! -e lost ]] || fail "launch does not wait for a rank to start: $(ls)"
# All ranks have ended, and mpirun hangs: launch does not wait for the rest of --grace.
cat >late-mpirun <<'END'
#!/usr/bin/env bash
[[ $1 != --version ]] || { echo "Open MPI"; exit; }
trap 'echo "ampscale: rank 0 (host h, pid 7) was asked to stop, and exited with code 143" >&2' USR1
trap "" TERM
echo "ampscale: rank 0 (host h, pid 7) has started" >&2
while :; do sleep 0.1; done
END
chmod +x late-mpirun
starts late-mpirun launch --mpirun ./late-mpirun --nproc 1 --grace 3600 --log-dir late-logs -- info
await 30 test -e late-logs/mpirun.log
kill -TERM "$job"
ends 143
for moment in 0.01 0.02 0.03 0.05 0.1 0.3; do
    [[ ${4-} == mpirun ]] || break
    starts "early-$moment" launch --nproc 2 --grace 3600 -- train "${small[@]}" --epochs 100000 --out early
    sleep "$moment"
    kill -TERM "$job"
    ends 143
    none_left "early-$moment"
done
# A signal to the whole group ends a child that has no group of its own yet. The parent sees its end,
# and knows why.
cat >spec.json <<'END'
{"schema": 1, "name": "made", "about": "a test", "device": "cpu", "hardware": ["*"], "checks": [
 {"name": "memory", "kind": "memory", "level": 1, "seconds": 1, "limit_s": 60,
  "args": {"max_mib": 4, "iters": 1, "threads": 1}, "limits": {"wrong": {"max": 0}}}]}
END
cat >study.json <<'END'
{"schema": 1, "name": "made", "about": "a test", "modes": {"nd": [1]}, "precisions": ["fp32"],
 "archs": ["resnet8"], "batch": {"weak": [4]}, "image_size": 32, "threads": 1, "workers": 1, "repeats": 1,
 "warmup_steps": 1, "measured_steps": 2, "limit_s": 60,
 "data": [{"name": "jpeg", "generate": {"classes": 3, "train": 4, "val": 2, "size": 48}}]}
END
for command in "launch --mpirun /bin/true --nproc 1 -- info" "accept --spec ./spec.json --out accepted" "study study.json --out studied"; do
    ! sanitized || break
    read -ra words <<<"$command"
    set -m # gives the job its own group
    LD_PRELOAD=$build_dir/tests/interpose/libinterpose.so AMPSCALE_INTERPOSE=spawn:delay1000:2 starts "${words[0]}" "${words[@]}"
    set +m
    await 20 pgrep -P "$job" >/dev/null || fail "$command starts no child"
    kill -STOP "$job" && kill -TERM -- "-$job"
    await 20 grep -q '^State:[[:space:]]*Z' "/proc/$(pgrep -P "$job")/status" || fail "$command: the child has its own group"
    kill -CONT "$job"
    ends 143
done

# A request to the supervisors does not reach the commands that they are just starting.
if [[ ${4-} == mpirun ]] && ! sanitized; then
    rm -r early-logs
    LD_PRELOAD=$build_dir/tests/interpose/libinterpose.so AMPSCALE_INTERPOSE=open:delay300:1-:/dev/null \
        starts starting launch --nproc 2 --grace 3600 -- train "${small[@]}" --epochs 100000 --out early
    await 30 test -e early-logs/mpirun.log
    kill -TERM "$job"
    ends 143
    ! grep "was killed by" err || fail "a stop kills a command that is just starting"
fi
finish
