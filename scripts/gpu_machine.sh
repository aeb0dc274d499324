# shellcheck shell=bash disable=SC2034,SC2154
# The part of scripts/gpu-check that finds what a machine has, prepares it, and runs its profiler. To be
# sourced by it, not run: uses and sets its variables.

# find_program: sets `ampscale` and `module` to the program and its module, and `ours` to the command
# that runs the program with the libraries that it needs. Unpacks the program of a pack, and those
# libraries of the pack that this machine lacks. Sets `library_path` to their folder and the folders of
# CUDA's libraries in Python packages.
find_program() {
    local file name known folder list='import glob, nvidia
for path in nvidia.__path__:
    print(*sorted(glob.glob(path + "/*/lib")), sep="\n")'
    mkdir "$work"/{bin,lib}
    known=$(PATH=$PATH:/sbin ldconfig -p 2>/dev/null || true)
    for file in "$build_dir"/{bin,lib}/*.gz; do
        name=${file#"$build_dir/"} name=${name%.gz}
        [[ ! -e $file || $name == lib/* && $known == *"${name#lib/} "* ]] || gunzip -c "$file" >"$work/$name"
    done
    chmod -R +x "$work/bin"
    ampscale=$(find "$work/bin" "$build_dir"/{bin,cli} -maxdepth 1 ! -type d -name ampscale 2>/dev/null | head -n 1 || true)
    module=$(find "$work/bin" "$build_dir"/{bin,cli,kernels/cuda,lib} -maxdepth 1 -name ampscale_cuda.so 2>/dev/null | head -n 1 || true)
    [[ -n $ampscale ]] || die 5 "there is no ampscale in '$build_dir'; give --build a build tree or a pack"
    library_path=$work/lib
    while IFS= read -r folder; do
        library_path+=:$folder
    done < <({ bash tests/peers/run.sh 'torch, nvidia' -c "$list" || python3 -c "$list"; } 2>/dev/null | grep '^/')
    library_path+=${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    ours=(env LD_LIBRARY_PATH="$library_path" XDG_CACHE_HOME="$cache")
    [[ -n ${AMPSCALE_CUDA_MODULE-} || -z $module ]] || ours+=(AMPSCALE_CUDA_MODULE="$module")
}

# hold: keeps a context on the GPU until its standard input is closed: until this script and what it
# has started have ended. Without it, or a daemon that does the same, the driver initialises the GPU
# again for each process.
hold() {
    exec bash tests/peers/run.sh ctypes -c 'import ctypes, sys
cuda, gpu, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
cuda.cuInit(0)
cuda.cuDeviceGet(ctypes.byref(gpu), int(sys.argv[1]))
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), gpu)
sys.stdin.read()' "${device#cuda:}"
} >/dev/null 2>&1

# warm: reads the libraries of the GPU and of PyTorch, several gigabytes, into the page cache while
# the first check or the command runs. Otherwise, on a machine that has just started, each process
# would wait for the disk.
warm() {
    tr ':' '\n' <<<"$library_path" | while IFS= read -r folder; do
        cat "$folder"/lib{cudnn,cublas,nccl,nvrtc,nvJitLink}*.so* || true
    done
    exec bash tests/peers/run.sh 'torch, torchvision' -c 'import torch, torchvision'
} >/dev/null 2>&1 </dev/null

# look: sets `device_text` to the program's description of the device. Sets `peer` to the flag that
# compares with PyTorch, if PyTorch is found. Reports in one line what is missing. Exits if the
# device is missing, or if PyTorch is missing and a check would take turns with it.
look() {
    local listed missing='' tool
    listed=$("${ours[@]}" "$ampscale" info 2>&1) || die 5 "'$ampscale' does not start: $(head -n 1 <<<"$listed")"
    device_text=$(sed -nE "s/^  $device +//p; t; s/^  ${device%%:*}:0 +(not available: )/\1/p" <<<"$listed")
    bash tests/peers/run.sh 'torch, torchvision' -c pass >/dev/null 2>&1 && peer=(--peer tests/peers/torch_step.py) || missing=', PyTorch'
    for tool in compute-sanitizer ncu; do
        [[ $device != cuda* ]] || command -v $tool >/dev/null || missing+=", $tool"
    done
    [[ -n $device_text && $device_text != 'not available: '* ]] ||
        die 5 "no device '$device': ${device_text:-this program knows none of that name}${missing:+; also missing: ${missing#, }}"
    [[ $missing != *PyTorch* || -n $no_peer || $device != cuda* || ! ${checks[*]} =~ ^(--pass [12])?$|first|throughput ]] ||
        die 5 "no Python with torch and torchvision is found for the checks 'first' and 'throughput': set AMPSCALE_PEERS to a folder with bin/python3, or give --no-peer to do without it"
    say "$device: $device_text${missing:+; missing: ${missing#, }}"
}

# profile: if this call has measured 'step-amp' and ncu is found, profiles the same step until the budget
# is spent. Adds ncu's table and the step's operations to the records. After a failure, reports the
# reason in one line.
profile() {
    local code=0 why peak=$records/checks/peak/r1/output.json step=(--net resnet50 -b 256)
    local metrics=gpu__time_duration.sum,dram__bytes.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed
    metrics+=,sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed,launch__registers_per_thread
    [[ $device == cuda* && $records/checks/step-amp.json -nt $work/bin ]] && command -v ncu >/dev/null || return 0
    [[ $spec == bring-up ]] || step=(--net resnet8 --image-size 32 -b 4)
    [[ ! -s $peak ]] || step+=(--peak "$peak")
    "${ours[@]}" timeout -k 10 $((budget > SECONDS ? budget - SECONDS : 1)) \
        ncu --profile-from-start off --clock-control none --csv --page raw --print-units base \
        --metrics "$metrics" --log-file "$work/ncu.csv" \
        "$ampscale" bench step --profile-one-step --devices "$device" --precision amp "${step[@]}" \
        >"$work/step.json" 2>"$work/ncu.err" &
    pids+=($!)
    wait "${pids[-1]}" || code=$?
    if ((code == 0)); then
        mv "$work"/{ncu.csv,step.json} "$records/"
        keep
        return
    fi
    why=$(sed -n 's/^==ERROR== //p' "$work"/ncu.{csv,err} 2>/dev/null | head -n 1) || true
    ((code != 124)) || why='not done within the budget'
    say "ncu failed: ${why:-$(tail -n 1 "$work/ncu.err")}"
}
