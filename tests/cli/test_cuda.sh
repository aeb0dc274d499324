#!/usr/bin/env bash
# GPUs as devices: every command that takes a device says in one line what is missing, and a run on
# the CPU loads no GPU library. On the fake GPU (tests/kernels/cuda/fake) the devices are listed.
. "$(dirname "$0")/common.sh" "$@"
cd "$scratch" || exit 1
tiny=(train --dummy -a resnet8 --image-size 16 --classes 2 -b 2 --dummy-val 2 --steps 1)

# says CODE TEXT DEVICE: checks the error of a training on a device that cannot be used.
says() {
    expect_error "$1" "$2" "${tiny[@]}" --devices "$3" --out run
    [[ ! -e run ]] || fail "train --devices $3 was refused, but made its folder"
}

# not_available TEXT: checks that `info` prints TEXT as the reason why cuda:0 is not available, and
# still exits with code 0.
not_available() {
    expect 0 info
    grep -qE -- "^  cuda:0 +not available: .*$1" out || fail "info does not say '$1': $(cat out)"
}

# A copy of the program has no module next to it. All commands open devices with the same code.
here=$program
cp "$program" ampscale && program=$scratch/ampscale
lacks="needs the CUDA module 'ampscale_cuda.so', which this build does not have"
says 1 "$lacks" cuda
expect_error 1 "$lacks" bench step --devices cuda
expect_error 1 "$lacks" selftest -q --devices cuda
expect_error 1 "$lacks" amp-report -a resnet8 --image-size 32 --devices cuda --out report
not_available "needs the CUDA module"
program=$here
AMPSCALE_CUDA_MODULE=$scratch/absent.so says 1 "'$scratch/absent.so', which does not exist" cuda:0

# A file that is not a module.
echo "no library" >text.so
AMPSCALE_CUDA_MODULE=$scratch/text.so says 1 "cannot load the CUDA module: $scratch/text.so" cuda
if command -v cc >/dev/null; then
    echo 'int x;' >x.c
    # shellcheck disable=SC2016
    echo 'const void *ampscale_cuda_backend(unsigned abi) { return abi ? 0 : "old"; }' >old.c
    cc -shared -fPIC -o empty.so x.c
    cc -shared -fPIC -o old.so old.c
    cc -shared -fPIC -o libabsent.so.9 -Wl,-soname,libabsent.so.9 x.c
    cc -shared -fPIC -o needs.so x.c -Wl,--no-as-needed libabsent.so.9
    rm libabsent.so.9
    AMPSCALE_CUDA_MODULE=$scratch/empty.so says 1 "'$scratch/empty.so' is not a CUDA module" cuda
    AMPSCALE_CUDA_MODULE=$scratch/old.so says 1 "was built for another version of this program" cuda
    AMPSCALE_CUDA_MODULE=$scratch/needs.so says 1 "needs the library 'libabsent.so.9', which is not installed" cuda
else
    echo "no C compiler: broken modules were not tested"
fi

# If the program's CUDA module exists and the machine has no driver, the message names the driver.
if [[ -e $(dirname "$here")/ampscale_cuda.so && ! -e /dev/nvidiactl ]] && run info && grep -q 'libcuda.so.1' out; then
    says 1 "there is no NVIDIA driver ('libcuda.so.1' cannot be loaded)" cuda:0
fi

fake_gpu || { echo "there is no fake GPU, because the build found no C++ compiler: devices were not tested" && finish; }
AMPSCALE_FAKE_GPU=no-driver says 1 "there is no NVIDIA driver ('libcuda.so.1' cannot be loaded)" cuda
AMPSCALE_FAKE_GPU=old-driver says 1 "the NVIDIA driver is too old: it supports CUDA 11.4, but CUDA 12.9 is needed" cuda
AMPSCALE_FAKE_GPU=no-gpu says 1 "this machine has no NVIDIA GPU" cuda
AMPSCALE_FAKE_GPU=no-gpu not_available "this machine has no NVIDIA GPU"
says 2 "there is no GPU 9: this machine has 4 GPUs, numbered from 0 to 3" cuda:9
says 1 "GPU 3, 'fake GPU', is too old: its compute capability is 6.1; at least 7.0 is needed" cuda:3

# Volta GPUs train in fp16 and fp32, and only with a cuDNN that supports Volta.
AMPSCALE_FAKE_GPU=volta-cudnn says 1 "which cuDNN 9.19.0 does not support; install cuDNN 9.0 to 9.10" cuda:2
export AMPSCALE_FAKE_GPU=volta
for type in bf16 tf32; do
    expect_error 2 "GPU 2, 'fake GPU', does not support $type; use --precision amp or fp32" \
        "${tiny[@]}" --devices cuda:2 --precision $type --out run
done
expect 0 "${tiny[@]}" --devices cuda:2 --precision amp --out volta
grep -q 'sm_70.*cuDNN 9.10.2' volta/run.json || fail "the record does not name the GPU: $(<volta/run.json)"
run selftest --operations --verbose --only conv_stats_fwd --devices cuda:0
grep -q 'cuDNN has no form before version 9.11' out || fail "fused forms were requested from cuDNN 9.10: $(cat out err)"
unset AMPSCALE_FAKE_GPU

expect 0 info
[[ $(grep -cE '^  cuda:[012] +fake GPU, sm_(90|75), 1.0 GiB, CUDA 12.9 ' out) == 3 ]] || fail "info does not list three GPUs: $(cat out)"
grep -qE '^  cuda:3 +not available: .* too old' out || fail "info does not say why the fourth GPU cannot be used"
expect 0 info --json
grep -qF '"device":"cuda:2","usable":true' out || fail "info --json lists no GPU"

# Kernels are launched early only where the driver and their machine code know how to wait.
for gpu in "" old-code driver-12.2; do
    AMPSCALE_FAKE_GPU=$gpu AMPSCALE_FAKE_COUNT=$scratch/count expect 0 "${tiny[@]}" --devices cuda:0 --pdl on --out "early-$gpu"
    [[ $(grep -c cudaLaunchDependent count) == $([[ -z $gpu ]] && echo 1 || echo 0) ]] || fail "early launches on '$gpu': $(<count)"
    rm count
done

# A run on the CPU loads none of the CUDA libraries. LD_DEBUG names the loaded files.
LD_DEBUG=files expect 0 "${tiny[@]}" --devices cpu --out cpu
! grep -q ampscale_cuda err || fail "a run on the CPU loads the CUDA module"
AMPSCALE_FAKE_GPU=no-gpu LD_DEBUG=files run "${tiny[@]}" --devices cuda --out run
grep -q ampscale_cuda err || fail "LD_DEBUG does not show that the module is loaded"
finish
