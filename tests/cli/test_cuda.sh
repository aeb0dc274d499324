#!/usr/bin/env bash
# GPUs as devices: every command that takes a device says in one line what is missing, and a run on
# the CPU loads no GPU library. On the fake GPU (tests/kernels/cuda/fake) the devices are listed.
. "$(dirname "$0")/common.sh" "$@"

export XDG_CACHE_HOME=$scratch/cache
fake=$build_dir/tests/kernels/cuda/fake/ampscale_cuda_fake.so
here=$program

# says CODE TEXT DEVICE: checks the error of each command for a device that cannot be used. Under
# sanitizers, only the first call tests other commands than train, because all commands open devices
# with the same code.
asked=
says() {
    local text=$2 device=$3
    expect_error "$1" "$text" train --dummy -a resnet8 --image-size 32 --steps 1 --devices "$device" --out "$scratch/run"
    [[ ! -e $scratch/run ]] || fail "train --devices $device was refused, but made its folder"
    ! sanitized || [[ -z $asked ]] || return
    asked=yes
    expect_error "$1" "$text" bench conv --devices "$device"
    expect_error "$1" "$text" bench step --devices "$device"
    expect_error "$1" "$text" selftest -q --devices "$device"
    expect_error "$1" "$text" amp-report -a resnet8 --image-size 32 --devices "$device" --out "$scratch/report"
}

# not_available TEXT: checks that `info` prints TEXT as the reason why cuda:0 is not available, and
# still exits with code 0.
not_available() {
    expect 0 info
    grep -qE -- "^  cuda:0 +not available: .*$1" "$scratch/out" || fail "info does not say '$1': $(cat "$scratch/out")"
}

# A copy of the program has no module next to it.
cp "$program" "$scratch/ampscale" && program=$scratch/ampscale
says 1 "needs the CUDA module 'ampscale_cuda.so', which this build does not have" cuda
not_available "needs the CUDA module"
program=$here
AMPSCALE_CUDA_MODULE=$scratch/absent.so says 1 "'$scratch/absent.so', which does not exist" cuda:0

# A file that is not a module.
echo "no library" >"$scratch/text.so"
AMPSCALE_CUDA_MODULE=$scratch/text.so says 1 "cannot load the CUDA module: $scratch/text.so" cuda
if command -v cc >/dev/null; then
    echo 'int x;' >"$scratch/x.c"
    # shellcheck disable=SC2016
    echo 'const void *ampscale_cuda_backend(unsigned abi) { return abi ? 0 : "old"; }' >"$scratch/old.c"
    cc -shared -fPIC -o "$scratch/empty.so" "$scratch/x.c"
    cc -shared -fPIC -o "$scratch/old.so" "$scratch/old.c"
    cc -shared -fPIC -o "$scratch/libabsent.so.9" -Wl,-soname,libabsent.so.9 "$scratch/x.c"
    cc -shared -fPIC -o "$scratch/needs.so" "$scratch/x.c" -Wl,--no-as-needed "$scratch/libabsent.so.9"
    rm "$scratch/libabsent.so.9"
    AMPSCALE_CUDA_MODULE=$scratch/empty.so says 1 "'$scratch/empty.so' is not a CUDA module" cuda
    AMPSCALE_CUDA_MODULE=$scratch/old.so says 1 "was built for another version of this program" cuda
    AMPSCALE_CUDA_MODULE=$scratch/needs.so says 1 "needs the library 'libabsent.so.9', which is not installed" cuda
else
    echo "no C compiler: broken modules were not tested"
fi

# If the program's CUDA module exists and the machine has no driver, the message names the driver.
if [[ -e $(dirname "$here")/ampscale_cuda.so ]] && ! [[ -e /dev/nvidiactl ]] &&
    ! ldconfig -p 2>/dev/null | grep libcuda.so.1 >/dev/null && run info && grep -q 'libcuda.so.1' "$scratch/out"; then
    says 1 "there is no NVIDIA driver ('libcuda.so.1' cannot be loaded)" cuda:0
fi

if [[ ! -e $fake ]]; then
    echo "there is no fake GPU, because the build found no C++ compiler: devices were not tested"
    finish
fi
export AMPSCALE_CUDA_MODULE=$fake
AMPSCALE_FAKE_GPU=no-driver says 1 "there is no NVIDIA driver ('libcuda.so.1' cannot be loaded)" cuda
AMPSCALE_FAKE_GPU=old-driver says 1 "the NVIDIA driver is too old: it supports CUDA 11.4, but CUDA 12.9 is needed" cuda
AMPSCALE_FAKE_GPU=no-gpu says 1 "this machine has no NVIDIA GPU" cuda
AMPSCALE_FAKE_GPU=no-gpu not_available "this machine has no NVIDIA GPU"
says 2 "there is no GPU 9: this machine has 4 GPUs, numbered from 0 to 3" cuda:9
says 1 "GPU 3, 'fake GPU', is too old: its compute capability is 6.1; at least 7.0 is needed" cuda:3
# Volta GPUs train in fp16 and fp32, and only with a cuDNN that supports Volta.
AMPSCALE_FAKE_GPU=volta-cudnn says 1 "GPU 2, 'fake GPU', has compute capability 7.0, which cuDNN 9.19.0 does not support; install cuDNN 9.0 to 9.10 for CUDA 12" cuda:2
volta() {
    AMPSCALE_FAKE_GPU=volta run train --dummy -a resnet8 --image-size 16 --classes 2 -b 2 --dummy-val 2 --steps 1 \
        --devices cuda:2 --out "$scratch/volta-$1" --precision "$@"
}
for type in bf16 tf32; do
    volta $type
    ((code == 2)) && [[ $(<"$scratch/err") == "ampscale: GPU 2, 'fake GPU', does not support $type; use --precision amp or fp32" ]] ||
        fail "$type on Volta exited with $code: $(cat "$scratch/err")"
    [[ ! -e $scratch/volta-$type ]] || fail "$type on Volta was refused, but the run made its folder"
done
AMPSCALE_FAKE_GPU=volta run selftest --operations --verbose --only conv_stats_fwd --devices cuda:0
grep -q 'cuDNN has no form before version 9.11' "$scratch/out" || fail "fused forms were requested from cuDNN 9.10: $(cat "$scratch/out" "$scratch/err")"
volta amp
((code == 0)) && grep -q 'sm_70.*cuDNN 9.10.2' "$scratch/volta-amp/run.json" ||
    fail "fp16 on Volta exited with $code: $(cat "$scratch/err")"

expect 0 info
[[ $(grep -cE '^  cuda:[012] +fake GPU, sm_(90|75), 1.0 GiB, CUDA 12.9 ' "$scratch/out") == 3 ]] ||
    fail "info does not list three GPUs: $(cat "$scratch/out")"
grep -qE '^  cuda:3 +not available: .* too old' "$scratch/out" || fail "info does not say why the fourth GPU cannot be used"
expect 0 info --json
grep -qF '"device":"cuda:2","usable":true' "$scratch/out" || fail "info --json lists no GPU"

# A run on the CPU loads none of the CUDA libraries. LD_DEBUG names the loaded files.
loaded() {
    LD_DEBUG=files "$program" train --dummy -a resnet8 --image-size 32 --classes 10 -b 2 --dummy-val 2 --steps 1 \
        --devices "$1" --out "$scratch/loaded-$1" 2>&1 </dev/null | grep -c ampscale_cuda
}
[[ $(loaded cpu) == 0 ]] || fail "a run on the CPU loads the CUDA module"
[[ -s $scratch/loaded-cpu/summary.json ]] || fail "the run on the CPU did not complete"
AMPSCALE_FAKE_GPU=no-gpu
export AMPSCALE_FAKE_GPU
[[ $(loaded cuda) != 0 ]] || fail "LD_DEBUG does not show that the module is loaded"
finish
