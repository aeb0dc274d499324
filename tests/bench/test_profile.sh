#!/usr/bin/env bash
# `ampscale bench profile`: the steps of the fake GPU under a fake ncu, whose numbers follow from the
# order of launches; what ncu says where it cannot profile; refusals.
. "$(dirname "$0")/../cli/common.sh" "$@"
cd "$scratch" || exit 1
export OMP_WAIT_POLICY=passive XDG_CACHE_HOME=$scratch/cache
export AMPSCALE_CUDA_MODULE=$build_dir/tests/kernels/cuda/fake/ampscale_cuda_fake.so
if [[ ! -e $AMPSCALE_CUDA_MODULE ]]; then
    echo "skipped: no C++ compiler, no fake GPU"
    exit 77
fi
if sanitized; then
    echo "skipped: AddressSanitizer warns of the fibres on which the fake GPU's kernels run; bench_profile_csv has the reader of profiles under sanitizers"
    exit 77
fi
net=(--net resnet8 --image-size 32 -b 2 --peak peak.json --devices cuda:0)

# Round numbers, so that bounds are known: 1 GB/s, 1 GFLOP/s.
cat >peak.json <<'PEAK'
{"schema": 1, "bench": "peak", "device": "made", "copy": [{"bytes": 1e6, "bytes_per_s": 1e9}],
 "flops": [{"type": "fp32", "flops_per_s": 1e9}, {"type": "fp16", "flops_per_s": 1e9}]}
PEAK

# The fake ncu: takes its own flags, runs what follows, and writes a kernel for each launch that the
# fake GPU saw between the profiler's start and stop. FAKE_NCU chooses how it fails.
mkdir tools
cat >tools/ncu <<'NCU'
#!/usr/bin/env bash
set -u
log=/dev/stdout metrics=
if [[ ${1-} == --version ]]; then
    printf 'NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.0.0 (build 36273991)\n'
    exit
fi
while (($#)); do
    case $1 in
    --profile-from-start) from_start=$2 && shift 2 ;;
    --clock-control) clock=$2 && shift 2 ;;
    --page | --print-units) shift 2 ;;
    --metrics) metrics=$2 && shift 2 ;;
    --log-file) log=$2 && shift 2 ;;
    --csv) shift ;;
    *) break ;;
    esac
done
[[ $from_start == off && $clock == none && $LC_ALL == C ]] || exit 9
case ${FAKE_NCU-} in
permission)
    echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0. For instructions on enabling permissions and to get more information see https://developer.nvidia.com/ERR_NVGPUCTRPERM" >"$log"
    exit 1
    ;;
library)
    echo "==ERROR== LibraryNotLoaded: cannot load $(printf '\033')[31mlibcuda.so" >"$log"
    exit 1
    ;;
old)
    if [[ $metrics == *dram__bytes.sum* ]]; then
        echo '==ERROR== Failed to find metric regex:^dram__bytes\.(sum|min|max|avg|pct|ratio|max_rate)$' >"$log"
        exit 1
    fi
    ;;
none)
    echo "==WARNING== No kernels were profiled." >"$log"
    exit 0
    ;;
hang) sleep 600 ;;
esac
echo "==PROF== Connected to process 4711 ($1)" >"$log"
AMPSCALE_FAKE_PROFILE=$scratch/launches "$@" || exit
bytes='"dram__bytes.sum"' n_bytes=1
[[ $metrics == *dram__bytes_read* ]] && bytes='"dram__bytes_read.sum","dram__bytes_write.sum"' n_bytes=2
{
    echo "==PROF== Disconnected from process 4711"
    echo '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",'"$bytes"',"dram__throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum","launch__registers_per_thread","sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"'
    unit='"byte"'
    ((n_bytes == 1)) || unit='"Kbyte","byte"'
    echo '"","","","","","","","","","",""'",$unit"',"%","ns","register/thread","%"'
    awk -v two="$((n_bytes == 2))" -v broken="${FAKE_NCU-}" '
        $1 == "library" { name = "void cudnn::conv<\"fprop\", (int)2>(Params, const float *)"; t = "12,345"; tensor = "62.50" }
        $1 == "kernel" { name = "void own<__half, (bool)1>(columns, (anonymous)::args)"; t = "1,000"; tensor = "0" }
        $1 == "kernel" && $2 $3 $4 == "111" && $5 == 32 { name = "profile_mark()"; t = "900"; tensor = "n/a" }
        broken == "marks" && name == "profile_mark()" && NR % 5 == 1 { next }
        {
            gsub(/"/, "\"\"", name)
            printf "\"%d\",\"4711\",\"ampscale\",\"127.0.0.1\",\"%s\",\"1\",\"7\",\"(256, 1, 1)\",\"(1, 1, 1)\",\"0\",\"9.0\",%s,\"25.00\",\"%s\",\"80\",\"%s\"\n",
                NR - 1, name, two ? "\"2.048\",\"2,048\"" : "\"4,096\"", t, tensor
            if (NR % 7 == 0) print "==PROF== Profiling \"own\" - 1: 0%....50%....100% - 2 passes"
        }' "$scratch/launches"
    [[ ${FAKE_NCU-} != hostile ]] || printf '"1","\xff\x01\n"2","a","b"\n"3",%s\n\0"4"' "$(printf '"x",%.0s' {1..80})"
} >>"$log"
rm "$scratch/launches"
NCU
chmod +x tools/ncu
export scratch

# holds PYTHON: an expression over the record `r` in the file out, and sums `s` over its operations.
holds() {
    command -v python3 >/dev/null || return 0
    python3 -c "import json, math, sys
r = json.load(open('out'))
s = {k: sum(o[k] or 0 for o in r['operations']) for k in ('kernels', 'time_us', 'dram_bytes', 'bytes', 'flops', 'bound_us')}
near = lambda a, b: math.isclose(a, b, rel_tol=1e-6)
sys.exit(not ($1))" || fail "the record does not hold '$1': $(head -c 2000 out)"
}

expect_error 5 "profiles are of GPUs; give --devices cuda:0" bench profile --devices cpu
expect_error 5 "'ncu' is not on PATH" bench profile --devices cuda:0
PATH=$PWD/tools:$PATH
expect_error 2 "--budget '0'" bench profile --budget 0
expect_error 5 "no profiler of the device 'cpu'" bench step --profile-one-step --net resnet8 --image-size 32 -b 1

expect 0 bench profile "${net[@]}" --precision amp --out kept --json
holds "r['bench'] == 'profile' and r['schema'] == 1 and r['tool'] == 'ncu 2025.3.0.0' and r['attributed']"
holds "{k['name'] for k in r['kernels']} == {'own<__half, (bool)1>', 'cudnn::conv<\"fprop\", (int)2>'}"
holds "all(k['dram_share'] == 0.25 and k['registers'] == 80 for k in r['kernels'])"
holds "all(near(k['tensor_share'], 0.625 if 'cudnn' in k['name'] else 0) for k in r['kernels'])"
holds "all(near(k['time_us'], k['count'] * (12.345 if 'cudnn' in k['name'] else 1)) for k in r['kernels'])"
holds "{k['phase'] for k in r['kernels']} >= {'forward', 'backward', 'update'}"
# What the operations launched is all that there is, in the order of the step.
holds "s['kernels'] == r['totals']['count'] == sum(k['count'] for k in r['kernels'])"
holds "near(s['time_us'], r['totals']['time_us']) and near(r['totals']['dram_bytes'], 4096 * s['kernels'])"
holds "near(s['bound_us'], r['totals']['bound_us']) and s['flops'] > 0"
holds "all(o['tensor_share'] > 0.5 for o in r['operations'] if o['op'].startswith('conv') and o['kernels'] == 1)"
holds "all(o['kernels'] > 0 and o['tensor_share'] == 0 for o in r['operations'] if o['op'].startswith('bn_'))"
holds "all(near(o['bound_us'], max(o['bytes'], o['flops']) / 1e3) for o in r['operations'])"
cmp -s out <(cat kept/profile.json && echo) || fail "what is kept is another record than what is printed"
for file in ncu.csv ncu.log step.json profile.json; do
    [[ -e kept/$file ]] || fail "'$file' is not kept"
done
[[ -z $(ls "$TMPDIR") ]] || fail "something is left: $(ls "$TMPDIR")"

FAKE_NCU=old expect 0 bench profile "${net[@]}" --json
holds "near(r['totals']['dram_bytes'], 4096 * s['kernels'])"
FAKE_NCU=hostile expect 0 bench profile "${net[@]}" --json
holds "r['attributed']"
FAKE_NCU=marks expect 0 bench profile "${net[@]}" --json
holds "not r['attributed'] and r['operations'] == [] and {k['phase'] for k in r['kernels']} == {'-'}"

# What the clock of a fake GPU would fuse is chance.
expect 0 bench profile "${net[@]}" --fuse none
grep -qE '^own<__half, \(bool\)1> +[0-9]+ +[0-9]+\.0 +[0-9.]+% +[0-9.]+ +4\.1 +0\.00 +0\.25  backward +80$' out || fail "the kernels: $(<out)"
grep -qE '^conv_fwd, forward +[0-9]+ .* 0\.6[0-9] +0\.25 +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+$' out || fail "the operations: $(<out)"

FAKE_NCU=permission expect_error 5 "ERR_NVGPUCTRPERM); run as root" bench profile "${net[@]}"
FAKE_NCU=library expect_error 5 "ncu: LibraryNotLoaded: cannot load ?[31mlibcuda.so" bench profile "${net[@]}"
FAKE_NCU=none expect_error 5 "ncu saw no kernel" bench profile "${net[@]}"
FAKE_NCU=hang expect_error 5 "not done within 1 s; give --budget more" bench profile "${net[@]}" --budget 1
expect_error 5 "cannot profile: the step ended with code" bench profile "${net[@]}" --peak nothing.json
expect_error 5 "the step ended with code" bench profile --devices cuda:9 --net resnet8 --peak peak.json
finish
