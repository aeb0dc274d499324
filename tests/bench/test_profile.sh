#!/usr/bin/env bash
# `ampscale bench profile` on the fake GPU, with a fake ncu. The fake ncu derives its numbers from
# the order of launches. Also tests the messages if ncu cannot profile, and usage errors.
. "$(dirname "$0")/../cli/common.sh" "$@"
cd "$scratch" || exit 1
command -v python3 >/dev/null || skip "no python3"
need_fake_gpu bench_profile_csv
net=(--net resnet8 --image-size 32 -b 2 --peak peak.json --devices cuda:0)

# Round peaks make bounds easy to check: 1 GB/s, 1 GFLOP/s.
cat >peak.json <<'PEAK'
{"schema": 1, "bench": "peak", "device": "made", "copy": [{"bytes": 1e6, "bytes_per_s": 1e9}],
 "flops": [{"type": "fp32", "flops_per_s": 1e9}, {"type": "fp16", "flops_per_s": 1e9}]}
PEAK

# holds PYTHON: checks an expression over `r`, the record in the file out, and `s`, the sums over
# the record's operations.
holds() {
    python3 -c "import json, math, sys
r = json.load(open('out'))
s = {k: sum(o[k] or 0 for o in r['operations']) for k in ('kernels', 'time_us', 'dram_bytes', 'bytes', 'flops', 'bound_us')}
near = lambda a, b: math.isclose(a, b, rel_tol=1e-6)
sys.exit(not ($1))" || fail "this is false for the record: '$1': $(head -c 2000 out)"
}

expect_error 5 "only GPUs can be profiled; give --devices cuda:0" bench profile --devices cpu
expect_error 5 "'ncu' is not on PATH" bench profile --devices cuda:0
PATH=$source_dir/tests/bench/tools:$PATH
expect_error 2 "--budget '0'" bench profile --budget 0
expect_error 5 "the device 'cpu' has no profiler" bench step --profile-one-step --net resnet8 --image-size 32 -b 1

expect 0 bench profile "${net[@]}" --precision amp --out kept --json
holds "r['bench'] == 'profile' and r['schema'] == 1 and r['tool'] == 'ncu 2025.3.0.0' and r['attributed']"
holds "all(k['dram_share'] == 0.25 and k['registers'] == 80 for k in r['kernels'])"
holds "all(near(k['tensor_share'], 0.625 if 'cudnn' in k['name'] else 0) for k in r['kernels'])"
holds "all(near(k['time_us'], k['count'] * (12.345 if 'cudnn' in k['name'] else 1)) for k in r['kernels'])"
holds "{k['phase'] for k in r['kernels']} >= {'forward', 'backward', 'update'}"
# Together, the operations have all kernels of the step.
holds "s['kernels'] == r['totals']['count'] == sum(k['count'] for k in r['kernels'])"
holds "near(s['time_us'], r['totals']['time_us']) and near(r['totals']['dram_bytes'], 4096 * s['kernels'])"
holds "near(s['bound_us'], r['totals']['bound_us']) and s['flops'] > 0"
holds "all(o['tensor_share'] > 0.5 for o in r['operations'] if o['op'].startswith('conv') and o['kernels'] == 1)"
holds "all(o['kernels'] > 0 and o['tensor_share'] == 0 for o in r['operations'] if o['op'].startswith('bn_'))"
holds "all(near(o['bound_us'], max(o['bytes'], o['flops']) / 1e3) for o in r['operations'])"
cmp -s out kept/profile.json || fail "the stored record differs from the printed one"
[[ -s kept/ncu.csv ]] || fail "ncu's output is not kept"
[[ -z $(ls "$TMPDIR") ]] || fail "TMPDIR is not empty: $(ls "$TMPDIR")"

FAKE_NCU=old expect 0 bench profile "${net[@]}" --json
holds "near(r['totals']['dram_bytes'], 4096 * s['kernels'])"
FAKE_NCU=hostile expect 0 bench profile "${net[@]}" --json
holds "r['attributed']"
FAKE_NCU=marks expect 0 bench profile "${net[@]}" --json
holds "not r['attributed'] and r['operations'] == [] and {k['phase'] for k in r['kernels']} == {'-'}"

# The table has the kernels and the operations. Times measured on a fake GPU are random, so --fuse auto
# would choose fusions at random.
expect 0 bench profile "${net[@]}" --fuse none
grep -qE '^own<__half, \(bool\)1> +[0-9]+ .* 80$' out || fail "the kernels: $(<out)"
grep -qE '^conv_fwd, forward +[0-9]+ .* 0\.6[0-9] ' out || fail "the operations: $(<out)"

FAKE_NCU=permission expect_error 5 "ERR_NVGPUCTRPERM); run as root" bench profile "${net[@]}"
FAKE_NCU=library expect_error 5 "ncu: LibraryNotLoaded: cannot load ?[31mlibcuda.so" bench profile "${net[@]}"
FAKE_NCU=none expect_error 5 "ncu reported no kernel" bench profile "${net[@]}"
FAKE_NCU=hang expect_error 5 "not done within 1 s; give a larger --budget" bench profile "${net[@]}" --budget 1
expect_error 5 "the process that runs the step exited with code" bench profile --devices cuda:9 --net resnet8 --peak peak.json
finish
