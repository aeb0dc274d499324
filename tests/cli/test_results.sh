#!/usr/bin/env bash
# Flags that have the same meaning in every command. The table in docs/reference/conventions.md is right. With
# --json, stdout has only JSON, stderr is empty, and a file gets the same JSON. A progress bar is shown
# only on a terminal.
. "$(dirname "$0")/common.sh" "$@"
. "$source_dir/tests/cli/made_runs.sh"
export OMP_WAIT_POLICY=passive
cd "$scratch" || exit 1

has_json() { grep -qx -e --json < <(help_flags "$@"); }

# row COMMAND: prints the row that the table in docs/reference/conventions.md must have for the command.
row() {
    local flags flag line
    # shellcheck disable=SC2086 # the value is several words
    flags=$(help_flags $1)
    line="| \`$1\` |"
    for flag in --json --csv -o -q -v; do
        # In `bench collective`, -o selects the reduction, so the file is given by --output.
        [[ $flag != -o || $1 != "bench collective" ]] || flag=--output
        grep -qx -e "$flag" <<<"$flags" && line+=" \`$flag\` |" || line+=" |"
    done
    echo "$line"
}
{
    printf '| command | JSON | CSV | file | quiet | verbose |\n|---|---|---|---|---|---|\n'
    while read -r command; do row "$command"; done < <(all_commands)
} >table
diff <(sed -n '/^| command /,/^$/p' "$source_dir/docs/reference/conventions.md" | sed '/^$/d') table >differences ||
    fail "docs/reference/conventions.md: the table differs: $(cat differences)"

# Small inputs for every command that prints JSON.
step=(--net resnet8 --image-size 32 -b 2 --rounds 1 --threads 1)
make_runs base 0
make_runs slow 10
make_runs same 0.1
"$program" data synth --out images --classes 2 --train 2 --val 2 --size 40 2>err >out || fail "data synth failed: $(cat err)"
[[ ! -s err && $(<out) == "images: 2 classes"* ]] || fail "data synth prints: $(cat err out)"
"$program" compare --record history base >/dev/null
"$program" bench peak --max-mib 4 --threads 1 --json -o peak.json || fail "bench peak"
declare -A args=(
    [amp-report]="-a resnet8 --image-size 32 -b 2 --batches 1 --threads 1 --out amp"
    ["bench accuracy"]="-" # not run, because it trains for minutes
    ["bench collective"]="allreduce -b 8 -e 64 -n 2"
    ["bench conv"]="${step[*]}"
    ["bench gemm"]="-m 8 -n 8 -k 8 --iters 2 --threads 1 --peak peak.json"
    ["bench input"]="--data images --image-size 32 -b 2 -n 2 --images 4"
    ["bench memory"]="--max-mib 4 -n 2 --threads 1"
    ["bench optimizer"]="--net resnet8 -n 2 --threads 1 --peak peak.json"
    ["bench overlap"]="-" # not run, because it needs the ranks of a job
    ["bench peak"]="--max-mib 4 --threads 1"
    ["bench step"]="${step[*]} --peak peak.json"
    ["bench throughput"]="-" # trains
    [compare]="base same"
    ["data scan"]="images"
    [info]=""
    [pair]="-" # not run, because it needs the ranks of a job
    [predict]="--network 2,10 --ranks 2..8 base/r1"
    [selftest]="--determinism --quick --repeats 2 --threads 1"
    [trend]="history"
)
command -v python3 >/dev/null || { echo "skipped: no python3 to read JSON" && ((failures > 0)) || exit 77; }

# json_of COMMAND: checks that the command prints only JSON, and that --output writes an object with
# the same keys.
json_of() {
    local code=0
    # shellcheck disable=SC2086 # the value is several words
    "$program" $1 ${args[$1]} --json >out 2>err </dev/null || code=$?
    ((code == 0 || code == 5)) || fail "'$1' exited with $code: $(cat err)"
    ((code != 0)) || [[ ! -s err ]] || fail "$1 succeeded, but printed messages: $(cat err)"
    rm -f file
    # shellcheck disable=SC2086
    "$program" $1 ${args[$1]} --json --output file >again 2>err </dev/null
    [[ ! -s again ]] || fail "$1 --output also prints: $(head -c 200 again)"
    python3 - <<'PY' || fail "$1: stdout or the file is no JSON object: $(head -c 300 out)"
import json
out, file = json.load(open("out")), json.load(open("file"))
assert type(out) is type(file) and list(out) == list(file), (list(out), list(file))
PY
}
while read -r command; do
    # shellcheck disable=SC2086
    has_json $command || continue
    [[ -v args[$command] ]] || { fail "'$command' has --json, but this test has no arguments for the command" && continue; }
    [[ ${args[$command]} == - ]] || json_of "$command"
done < <(all_commands)

# With --quiet, training prints its results, and no progress.
expect 0 train --dummy --dummy-train 16 --dummy-val 4 --classes 5 -a resnet8 --image-size 16 --epochs 1 -b 4 -p 1 --threads 1 --out silent --quiet
! grep -qE '^(Epoch|Test): ' out && grep -q '^Finished ' out || fail "train --quiet: $(<out)"

# --output refuses a folder, writes through a link, and writes to a pipe. It does not replace a file
# if the command has no result.
expect_error 2 "'images' is a folder" info --output images
expect_error 2 "'' is empty: give the name of a file" info --output ''
ln -s linked link
expect 0 info -o link
[[ -L link ]] && grep -q '^ampscale ' linked || fail "the output replaced a link, or was not written to the link's target"
mkfifo pipe
timeout 20 cat pipe >piped &
expect 0 info -o pipe
wait $!
[[ -p pipe ]] && cmp -s linked piped || fail "the output replaced a pipe, or was not written to the pipe"
echo before >kept
expect 2 info --list --arch resnet8 -o kept
[[ $(<kept) == before ]] || fail "a command that printed nothing replaced its file"

# full_disk ARGS...: runs the program with a limit on the size of files, which acts as a full disk.
full_disk() {
    (ulimit -f 0 && exec "$program" "$@") 2>&1 >/dev/null </dev/null | cat >err
    code=${PIPESTATUS[0]}
}

# Every file that the user names is written in the same way: a link is followed, also to a file that
# does not exist; a pipe or a descriptor is written to and not replaced; a file's mode is kept; a folder
# is refused. If the file cannot be written, one line says so, whatever the verdict, the exit code is 1,
# and no file of an earlier command remains, which would be taken for this result.
for command in "info -o" "export base/r1 --format prometheus -o" "report base --no-figures -o" "report base --no-figures --html" \
    "compare base slow --json -o" "compare base slow --junit" "compare base slow --markdown" "compare base slow --benchmark-action"; do
    rm -rf links mine
    mkdir links && ln -s new links/second && ln -s links/second first
    want=0
    [[ $command != compare* ]] || want=3
    read -ra words <<<"$command"
    expect "$want" "${words[@]}" first
    [[ -L first && -L links/second && -f links/new && -s links/new ]] || fail "$command: a link was replaced, or its target was not written"
    echo old >mine && chmod 640 mine && ln -sf "$PWD/mine" first
    expect "$want" "${words[@]}" first
    [[ -L first && $(stat -c %a mine) == 640 ]] && cmp -s mine links/new || fail "$command: the target of a link is '$(head -c 80 mine)', mode $(stat -c %a mine)"
    timeout 20 cat pipe >piped &
    expect "$want" "${words[@]}" pipe
    wait $!
    [[ -p pipe ]] && cmp -s mine piped || fail "$command: a pipe was replaced or not written to"
    code=0
    "$program" "${words[@]}" /dev/fd/9 >out 2>err </dev/null 9>opened || code=$?
    ((code == want)) && cmp -s mine opened || fail "$command: /dev/fd/9 was not written: $(<err)"
    expect 2 "${words[@]}" links
    one_line "$command" "'links' is a folder: give the name of a file"
    if [[ -w /dev/full ]]; then
        code=0
        "$program" "${words[@]}" /dev/fd/9 >out 2>err </dev/null 9>/dev/full || code=$?
        ((code == 1)) || fail "$command: on a full device, the exit code is $code"
        one_line "$command on a full device" "cannot write '/dev/fd/9': No space left on device"
    fi
    full_disk "${words[@]}" first
    ((code == 1)) || fail "$command: on a full disk, the exit code is $code"
    one_line "$command on a full disk" "cannot write 'first': File too large; the earlier file was removed"
    [[ -L first && ! -e first && -z $(find . -maxdepth 1 -name '*tmp*' -type f) ]] || fail "$command: the old file or a temporary one remains: $(ls)"
    rm first
done
[[ $(id -u) != 0 ]] || { echo old >mine && chown 1:1 mine && expect 0 info -o mine && [[ $(stat -c %u:%g mine) == 1:1 ]] || fail "the owner of a replaced file has changed"; }
if [[ -w /dev/full ]]; then
    code=0
    "$program" compare base slow --json >/dev/full 2>err </dev/null || code=$?
    ((code == 1)) || fail "a regression on a full standard output: the exit code is $code"
    one_line "a full standard output" "cannot write the results to standard output: No space left on device"
fi
{ echo before && "$program" info -o /dev/stdout 2>err </dev/null && echo after; } >opened
{ echo before && cat linked && echo after; } | cmp -s - opened || fail "/dev/stdout, a file to which others write: $(<opened)"
"$program" info -o /dev/stdout 2>err </dev/null | cmp -s linked || fail "/dev/stdout, a pipe: $(<err)"
python3 -c 'import socket, subprocess, sys
a, b = socket.socketpair()
subprocess.run(sys.argv[1:] + ["/dev/fd/%d" % b.fileno()], pass_fds=[b.fileno()], check=True)
b.close()
open("opened", "wb").write(b"".join(iter(lambda: a.recv(65536), b"")))' "$program" info -o && cmp -s linked opened ||
    fail "a socket was not written to"

# A second process that draws into the same folder ends with a clear line.
mkdir -p drawn
flock drawn "$program" plot base/r1 --out drawn >out 2>err && fail "two processes draw into one folder"
one_line "two processes draw into one folder" "another 'ampscale plot' is using 'drawn'; wait until it has finished"

# A second process that makes a data set in the same folder ends with a clear line. The first one is
# halted meanwhile. After its end, the folder can be used again.
"$program" data synth --out shared --classes 2 --train 100000 --val 2 --size 32 -j 1 -q >log 2>&1 &
job=$!
await 60 test -s shared/dataset.json
kill -STOP $job
expect_error 1 "another 'ampscale data synth' is using 'shared'; wait until it has finished" data synth --out shared
kill -KILL $job
wait $job 2>err
expect_error 2 "'shared' holds a synthetic data set with other settings" data synth --out shared

# A progress bar on a terminal shows the time left. With --quiet there is no bar.
command -v script >/dev/null || skip "without the program 'script', progress bars cannot be tested; the flags were tested"
bar() {
    TERM=${terminal-xterm} script -qefc "'$program' $*" typescript >log 2>&1 </dev/null || fail "'$*' failed on a terminal: $(cat log)"
}
many="data synth --classes 2 --train 60 --val 10 --size 300 -j 1"
bar $many --out many
grep -qE $'\rimages \\[=* *>? *\\] [0-9]+/140  [0-9]+:[0-9]{2} left' typescript || fail "no progress bar was shown: $(cat -v typescript | head -c 500)"
grep -qE $'^\033\\[Kmany: 2 classes' < <(tr '\r' '\n' <typescript) || fail "the bar is not erased: $(cat -v typescript | tail -c 300)"
terminal=dumb bar $many --out dumb # has no escape sequences
! grep -qE $'\033| left' typescript || fail "a bar with TERM=dumb"
terminal='' bar $many --out unknown
! grep -qE $'\033| left' typescript || fail "a bar without TERM"
bar $many --out quiet --quiet
! grep -q ' left' typescript || fail "a bar with --quiet"
finish
