#!/usr/bin/env bash
# Every JSON file that the program writes is valid by its schema in docs/schema, as the Python module
# jsonschema checks.
. "$(dirname "$0")/common.sh" "$@"
# Turns off leak detection, because MPI libraries leak memory.
# shellcheck source=tests/comm/mpi.sh
. "$source_dir/tests/comm/mpi.sh"
export OMP_WAIT_POLICY=passive
cd "$scratch" || exit 1
schemas=$source_dir/docs/schema

# Every benchmark has a schema, and docs/schema/README.md lists every schema.
while read -r name; do
    [[ -e $schemas/bench-$name.schema.json ]] || fail "there is no schema of the benchmark '$name'"
done < <(grep -rhoE 'bench_head head = \{"[a-z_]+"' "$source_dir/bench" | sed 's/.*"\(.*\)"/\1/; s/_/-/g')
for file in "$schemas"/*.schema.json; do
    grep -qF "[${file##*/}](${file##*/})" "$schemas/README.md" || fail "docs/schema/README.md does not list ${file##*/}"
done

# Finds a Python whose module jsonschema supports draft 2020-12, in the environment of the peers or
# in the system.
peer=(bash "$source_dir/tests/peers/run.sh" jsonschema)
if ! "${peer[@]}" -c 'from jsonschema import Draft202012Validator' >/dev/null 2>&1; then
    ((failures == 0)) || finish
    echo "skipped: no Python has jsonschema 4; scripts/setup --test installs it"
    exit 77
fi

# validate WANT ARGS...: checks the validator's exit code.
validate() {
    local want=$1 got=0
    shift
    "${peer[@]}" "$source_dir/tests/schema/validate.py" "$schemas" "$@" >valid 2>&1 || got=$?
    ((got == want)) || fail "the validation of $* ended with $got, not $want: $(head -n 20 valid)"
}

# save FILE ARGS...: stores the output of a command.
save() {
    expect 0 "${@:2}"
    cp out "records/$1.json"
}

mkdir records
net=(-a resnet8 --image-size 32 -b 8 --classes 4 --threads 1)
dummy=(--dummy --dummy-train 24 --dummy-val 8)

# Runs: resumed, diverged, with loss scaling, with validation only, on image files, and on several
# ranks.
expect 0 train "${net[@]}" "${dummy[@]}" --epochs 2 --out records/plain --checkpoint-steps 2
expect 0 train "${net[@]}" "${dummy[@]}" --epochs 3 --out records/plain --resume auto
expect 0 train "${net[@]}" "${dummy[@]}" --epochs 1 --out records/amp --precision amp --desired-acc 0.1 \
    --norm-weight-decay 0 --lr-schedule poly --lr-end 0 --clip-grad-norm 5 --val-every 1 --inject throttle=1%
expect 1 train "${net[@]}" "${dummy[@]}" --epochs 2 --out records/diverged --lr 1e6
expect 0 train "${net[@]}" "${dummy[@]}" --evaluate --init records/plain/checkpoint.safetensors --out records/evaluated
expect 0 data synth --out records/images --classes 3 --train 6 --val 2 --size 48
expect 0 train -a resnet8 records/images --image-size 32 -b 4 --epochs 1 --threads 1 --out records/run --on-save false \
    --interpolation bicubic --val-crop-pct 0.8
expect 0 launch --np 2 -- train "${net[@]}" "${dummy[@]}" --epochs 1 --out records/ranks
save data-scan data scan records/images --json
save info info --json
save list info --list --json
save layers info --arch resnet8 --json
save policy info --policy amp --json
save policy-fp32 info --arch vgg11_bn --policy fp32 --json

# Files derived from runs.
for i in {1..12}; do
    cp -r records/plain "r$i"
    sed -i -E "s/(\"started_s\": [0-9]+)[^,]*/\1.$((i + 10))/" "r$i/run.json"
done
expect 0 compare --json -o records/compare.json --benchmark-action records/action.json r{1..6} -- r{7..12}
expect 5 compare --json -o records/few.json r1 -- r2
expect 0 record --commit 1a2b --metric 'loss=([0-9])' --out records/recorded -- echo loss 3
run compare --json -o records/refused.json r1 -- records/amp
expect 5 compare --record records/history r1 r2
expect 0 trend records/history --json -o records/trend.json
expect 0 predict r1 --network 10,1 --ranks 2,4 --ranks-per-node 4 --out records/predict
expect 0 amp-report -a resnet8 --image-size 32 --classes 4 --threads 1 --batches 1 --out records/amp-report

# A study in which a run fails, and an acceptance test on several nodes.
cat >study.json <<'END'
{"schema": 1, "name": "tiny", "about": "for a test", "modes": {"nd": [1], "dp": [2]},
 "precisions": ["fp32"], "archs": ["resnet8"], "batch": {"weak": [4]},
 "data": [{"name": "dummy", "classes": 3, "train": 64, "val": 4},
          {"name": "made", "generate": {"classes": 2, "train": 4, "val": 2, "size": 48}},
          {"name": "damaged", "folder": "damaged"}],
 "image_size": 32, "threads": 1, "workers": 1, "repeats": 1, "warmup_steps": 1,
 "measured_steps": 3, "limit_s": 60, "train": ["--max-bad-images", "0"]}
END
cp -r records/images damaged
for image in damaged/*/*/*; do
    : >"$image"
done
run study study.json --no-report --out records/study
((code != 0)) && [[ -n $(find records/study -name '*.failed') ]] || fail "a study on empty images succeeded: $(cat out)"
cat >spec.json <<'END'
{"schema": 1, "name": "made", "about": "a test", "device": "cpu", "hardware": ["*"], "checks": [
 {"name": "memory", "kind": "memory", "level": 1, "seconds": 1, "limit_s": 60,
  "args": {"max_mib": 4, "iters": 3, "threads": 1}, "limits": {"wrong": {"max": 0, "source": "none"}}},
 {"name": "train", "kind": "train", "level": 2, "seconds": 1, "limit_s": 60, "repeats": 2,
  "args": {"arch": "resnet8", "image_size": 32, "batch": 8, "classes": 10, "steps": 4, "threads": 1}}]}
END
expect 0 accept --spec ./spec.json --out records/node-a
cp -r records/node-a records/node-b
cp -r records/node-a records/node-c
run accept --node-list records --out records/fleet
[[ -e records/fleet/fleet.json ]] || fail "there is no fleet.json: $(cat err)"
run launch --np 3 -- pair --failing 2 --net resnet8 -b 2 --image-size 32 --rounds 1 --mib 1 --samples 2 --threads 1 --out records/pair
[[ -e records/pair/pair.json ]] || fail "there is no pair.json: $(cat err)"

# Benchmarks and self-tests.
one=(--threads 1 --json)
step=(--net resnet8 --image-size 32 -b 2)
save peak bench peak --max-mib 4 "${one[@]}"
peak=(--peak records/peak.json)
save memory bench memory --max-mib 4 -n 2 "${one[@]}"
save conv bench conv "${step[@]}" "${one[@]}"
save gemm bench gemm "${step[@]}" --iters 2 "${peak[@]}" "${one[@]}"
save gemm-size bench gemm -m 8 -n 8 -k 8 --iters 2 "${peak[@]}" "${one[@]}"
save optimizer bench optimizer --net resnet8 -n 2 "${peak[@]}" "${one[@]}"
save step bench step "${step[@]}" "${peak[@]}" "${one[@]}"
# The prediction of a step on a GPU. It needs the CUDA module and cuDNN 9.11.
run bench step --predict h200 --net resnet18 -b 16 --precision amp --json
((code != 0)) || cp out records/step-predict.json
save input bench input --data records/images --images 4 --image-size 32 -b 2 -n 2 "${one[@]}"
save overlap launch --np 2 -- bench overlap "${step[@]}" "${one[@]}"
save collective bench collective allreduce -b 8 -e 64 -n 2 --json
expect 0 bench throughput -a resnet8 --image-size 32 --rows fp32:2 --rounds 1 --steps 12 --fuse auto,none --out records/throughput "${one[@]}"
expect 0 bench accuracy --quick --precisions fp32 --out records/accuracy "${one[@]}"
save accuracy-reference bench accuracy --print-reference
save determinism selftest --determinism --quick --repeats 2 "${one[@]}"
save operations selftest --operations --every 200 --json
sanitized || save selftest selftest --quick --json
save spec-cpu accept --spec cpu --print
save study-quick study quick --print

validate 0 records
# Every schema was used to validate a file made above, except schemas of records that need a GPU,
# another program or much time.
for file in "$schemas"/*.schema.json; do
    name=${file##*/} && name=${name%.schema.json}
    case $name in
    common | bench-memory-peers | peer-* | peers) continue ;;
    bench-step-predict) [[ -e records/step-predict.json ]] || continue ;;
    telemetry) [[ -n $(find records -name telemetry.jsonl) ]] || continue ;;
    selftest) ! sanitized || continue ;;
    esac
    grep -qw -- "$name" < <(grep '^schemas used:' valid) || fail "no record was validated with $name.schema.json"
done
validate 0 --older "$source_dir"/results/recorded/*/{study-*,precision,peers-*.json,overlap-*.json}
validate 0 "$source_dir"/{accept/specs,study/presets}

# The validator refuses an unknown key, a wrong type, a missing key, and a file without a schema.
mkdir wrong
sed 's/"seed"/"sead"/' records/plain/run.json >wrong/run.json
validate 1 wrong/run.json
sed '/"exit_code"/d' records/plain/outcome.json >wrong/outcome.json
validate 1 wrong/outcome.json
echo '{"surprise": 1}' >wrong/surprise.json
validate 1 wrong/surprise.json
finish
