#!/usr/bin/env bash
# Training on a fake GPU on which one call fails (tests/kernels/cuda/fake/inject.h). The run may
# continue on a lower rung of the ladder, without graphs or fused operations. The result is bitwise
# equal to that of a run that began on the lower rung, and the record names the change of rung. A run
# that cannot continue, for instance because the device is lost, ends with one line that suggests a
# remedy.
. "$(dirname "$0")/common.sh" "$@"

need_fake_gpu runners_ladder_runs
cd "$scratch" || exit 1
settings=(train --dummy --dummy-train 8 --dummy-val 4 --classes 5 -a resnet8 --image-size 16 -b 4
    --epochs 1 --precision amp --threads 1 --devices cuda:0 --telemetry 0)

# fails CODE CALL OUT ARGS...: trains while that call fails, and checks the exit code.
fails() {
    local want=$1 call=$2 out=$3
    shift 3
    export AMPSCALE_FAKE_FAIL=$call
    expect "$want" "${settings[@]}" --out "$out" "$@"
    unset AMPSCALE_FAKE_FAIL
}

# field FILE KEY: prints the value of the key in a record.
field() {
    sed -nE "s/^ *\"$2\": (.*[^,]),?\$/\1/p" "$1"
}

# ran RUN RUNG FALLS: checks the rung in the record, the number of warnings of a lower rung, and the
# last line of the output. No other line may be on stderr.
ran() {
    local rung
    rung=$(field "$1/summary.json" rung | sed -n 1p)
    [[ $rung == "\"$2\"" ]] || fail "$1: on rung $rung, not '$2'"
    [[ $(wc -l <err) == "$3" && $(grep -c "^ampscale: warning: rung '.*' failed: " err) == "$3" ]] ||
        fail "$1: the number of warnings is not $3: $(cat err)"
    (($3 == 0)) || grep -qE "^Finished .*, on rung '$2' since '.*' failed" out || fail "$1: the last line does not name the rung: $(tail -n 1 out)"
}

# bits RUN WANT: checks that both runs ended with the same state.
bits() {
    local want
    want=$(field "$2/summary.json" state_bits)
    [[ -n $want && $(field "$1/summary.json" state_bits) == "$want" ]] || fail "the final states of $1 and $2 differ"
}

# The first run stores its plans in the cache, so the later runs time no plans.
fails 0 "" auto
ran auto auto 0
fails 0 "" unfused --fuse none
fails 0 "" plain --fuse none --no-graph
ran plain "fuse none, no graph" 0
bits unfused plain

# Graphs that cannot be recorded, instantiated or launched: the run continues without graphs, and
# with the --fuse of its command line.
for call in cudaStreamEndCapture:2 cudaGraphInstantiate:3 cudaGraphLaunch:5 cudnnBackendExecute@capture:3; do
    fails 0 "$call" "$call" --fuse none
    ran "$call" "fuse none, no graph" 1
    bits "$call" plain
done

# A step fails once. The run continues on the lower rung, which has no fused operations. If the
# device is lost, the run ends, and its message names the flags that may help.
fails 0 cudaStreamWaitEvent:1 step
ran step "fuse none" 1
bits step unfused
fails 1 cudaStreamWaitEvent:1:sticky lost
[[ $(wc -l <err) == 1 && ! -e lost ]] && grep -q '; try --fuse none --no-graph$' err ||
    fail "the message for a lost device is wrong: $(cat err)"

# An engine of cuDNN breaks the device as it is tried, crashes the process or does not end. The message
# names it and the problem. The same command does not use the engine the next time.
fresh() {
    rm -rf plans
    XDG_CACHE_HOME=$PWD/plans "$@"
}
named="ngine 7 of cuDNN.* for 'fake GPU sm90 cudnn[0-9]+ fwd fp16 n4 "
for how in sticky crash hang; do
    code=1
    [[ $how != crash ]] || code=$((128 + $(kill -l SEGV)))
    ulimit -c 0
    AMPSCALE_FAKE_ENGINE=7@fwd:$how fresh fails "$code" "" "$how" --steps 1 --fuse none
    grep -qE "^ampscale: .*$named" err || fail "$how: the message does not name the engine: $(cat err)"
    AMPSCALE_FAKE_ENGINE=7@fwd:$how XDG_CACHE_HOME=$PWD/plans fails 0 "" "$how" --steps 1
    ran "$how" auto 0
done
AMPSCALE_FAKE_ENGINE=7@fwd:sticky AMPSCALE_CUDNN_WITHOUT=7 fresh fails 0 "" avoids --steps 1
ran avoids auto 0
grep -q '"AMPSCALE_CUDNN_WITHOUT": "7"' avoids/run.json || fail "run.json does not have the excluded engines"
AMPSCALE_CUDNN_WITHOUT=7, fails 2 "" refuses --steps 1
grep -q "^ampscale: .*AMPSCALE_CUDNN_WITHOUT is '7,'; give the numbers" err || fail "a wrong list of engines is accepted: $(cat err)"

# Fused operations that fail do not end the run. Its record says so.
AMPSCALE_FAKE_ENGINE=any@stats:fails fresh fails 0 "" without-sums --steps 1
ran without-sums auto 0
python3 - without-sums/run.json auto/run.json <<'CHECK' || fail "the fusions in run.json"
import json, sys
lacks, whole = ({f["form"]: f for f in json.load(open(path))["fusions"]} for path in sys.argv[1:])
assert all(f["failed"] == 0 for f in whole.values()) and whole["stats"]["taken"] > 0, whole
assert lacks["stats"]["chains"] == lacks["stats"]["failed"] > lacks["stats"]["taken"] == 0, lacks
assert "every plan for '" in lacks["stats"]["why"] and lacks["mask"]["failed"] == 0, lacks
CHECK

# `bench step` fails. Its message names the flag that times the step without the feature that
# failed.
echo '{"schema": 1, "bench": "peak", "device": "x", "copy": [{"bytes": 4e6, "bytes_per_s": 1e10}],
      "flops": [{"type": "fp32", "flops_per_s": 1e12}]}' >peak.json
step=(bench step --devices cuda:0 --net resnet8 -b 2 --image-size 16 --rounds 1 --peak peak.json)
expect 0 "${step[@]}" # operations are timed: a launch that fails below is one of the step
export AMPSCALE_FAKE_FAIL=cudaLaunchKernel:10
expect 1 "${step[@]}"
[[ $(wc -l <err) == 1 ]] && grep -q '; --fuse none times the step without fused operations$' err ||
    fail "bench step does not name the flag that may help: $(cat err)"
finish
