#!/usr/bin/env bash
# The record of a run on a GPU whose sensors can be read. GPU, libraries and sensors are fakes.
. "$(dirname "$0")/common.sh" "$@"
cd "$scratch" || exit 1
need_fake_gpu
net=(--dummy --dummy-train 8 --dummy-val 4 --classes 10 -a resnet8 --image-size 16 -b 4 -j 1
    --devices cuda:0 --epochs 2)

# holds FILE TEXT: checks that the record contains the text.
holds() {
    grep -qF -- "$2" "$1" || fail "$1 does not contain '$2': $(head -c 1500 "$1")"
}

# Without NVML, the record says which library is missing, no message is printed, and no samples are
# written. A machine with a real driver has NVML, so this part is skipped there.
if ! ldconfig -p | grep 'libnvidia-ml\.so\.1' >/dev/null; then
    expect 0 train "${net[@]}" --epochs 1 --out blind
    ! grep -q '^ampscale:' err || fail "without NVML: $(<err)"
    [[ ! -e blind/telemetry.jsonl ]] || fail "without NVML: there are samples"
    holds blind/run.json 'cannot load libnvidia-ml.so.1'
    ! grep -q energy blind/epochs.jsonl blind/summary.json || fail "the record has an energy although no sensor measured it"
fi

export LD_LIBRARY_PATH=$build_dir/tests/telemetry/full${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export FAKE_NVML_MILLIJOULES=20000
expect 0 train "${net[@]}" --telemetry 0.05 --out seen --prometheus live.prom
holds live.prom 'ampscale_device_memory_utilization_ratio{run="seen",device="0"} 0.45'
holds seen/run.json '"source": "nvml"'
for text in '"name": "Fake GPU"' '"driver": "580.1"' '"power_limit_w": 700.0' '"uuid_hash": '; do
    holds seen/run.json "$text"
done
! grep -qE '"pcie_generation|GPU-secret' seen/run.json || fail "the record reveals the identity of a GPU, or has a property that it does not report"
holds seen/telemetry.jsonl '"sample":0,"device":0,'
holds seen/telemetry.jsonl '"busy":97,'
[[ $(wc -l <seen/telemetry.jsonl) -ge 3 ]] || fail "few samples: $(<seen/telemetry.jsonl)"
[[ $(grep -c '"energy_j":.*"joules_per_image":' seen/epochs.jsonl) == 2 ]] || fail "the record does not have the energy of both epochs: $(<seen/epochs.jsonl)"
holds seen/summary.json '"images_per_joule":'

expect 0 train "${net[@]}" --devices cpu --telemetry 0 --out off
[[ ! -e off/telemetry.jsonl ]] || fail "--telemetry 0 samples"
expect_error 2 "--telemetry '-1'" train "${net[@]}" --telemetry -1
finish
