/* Opens and describes a GPU. */
#include "kernels/cuda/device.h"

#include "base/array.h"
#include "kernels/cuda/cudnn_desc.h"
#include "kernels/cuda/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Volta is the oldest generation with tensor cores. cuDNN 9.10 is the last version that supports
 * Volta. */
enum { SM_MIN = 70, SM_TURING = 75, SM_BF16 = 80, SM_PDL = 90, CUDNN_WITHOUT_VOLTA = 91100 };

/* The first version of CUDA whose graphs have edges of programmatic dependent launch. */
enum { CUDA_PDL = 12030 };

enum status cuda_check(cudaError_t e, const char *fmt, ...)
{
    if (e == cudaSuccess)
        return STATUS_OK;
    char action[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(action, sizeof action, fmt, args);
    va_end(args);
    enum status st = cuda_error(e, action);
    cudaGetLastError(); /* clears the error, which the next kernel launch would report again */
    return st;
}

enum status cuda_enter(const struct cuda_device *dev)
{
    if (dev->described)
        return STATUS_OK;
    return cuda_check(cudaSetDevice(dev->base.index), "use GPU %d", dev->base.index);
}

enum status cuda_queue(struct stream *s, struct cu_queue *q)
{
    const struct cuda_device *dev = cuda_device_of(s->device);
    *q = (struct cu_queue){cuda_stream_of(s)->raw, dev->multiprocessors, s->pdl};
    return cuda_enter(dev);
}

/* Writes "13.0" for 13000, the form in which the runtime and the driver give a CUDA version. */
static void version_text(int version, char out[16])
{
    snprintf(out, 16, "%d.%d", version / 1000, version % 1000 / 10);
}

/* Counts GPUs. If the driver is missing or too old, the message says so, and what to install. */
static enum status count_gpus(int *n)
{
    int driver = 0, runtime = 0;
    char has[16], wants[16];
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    version_text(driver, has);
    version_text(runtime, wants);
    if (driver == 0)
        return status_fail(STATUS_UNSUPPORTED,
                           "there is no NVIDIA driver ('libcuda.so.1' cannot be loaded); install "
                           "it, or use --devices cpu");
    cudaError_t e = cudaGetDeviceCount(n);
    if (e == cudaErrorInsufficientDriver)
        return status_fail(STATUS_UNSUPPORTED,
                           "the NVIDIA driver is too old: it supports CUDA %s, but CUDA %s is "
                           "needed; install a newer one, or use --devices cpu",
                           has, wants);
    if (e == cudaErrorNoDevice || (e == cudaSuccess && *n == 0))
        return status_fail(STATUS_UNSUPPORTED, "this machine has no NVIDIA GPU; use --devices cpu");
    if (e != cudaSuccess)
        return status_fail(STATUS_UNSUPPORTED, "no GPU can be used: %s", cudaGetErrorString(e));
    return STATUS_OK;
}

enum status cuda_check_capability(const struct cuda_device *dev)
{
    char gpu[320];
    snprintf(gpu, sizeof gpu, "GPU %d, '%s'", dev->base.index, dev->name);
    int major = dev->sm / 10, minor = dev->sm % 10;
    if (dev->sm < SM_MIN)
        return status_fail(
            STATUS_UNSUPPORTED,
            "%s, is too old: its compute capability is %d.%d; at least %d.%d is needed", gpu, major,
            minor, SM_MIN / 10, SM_MIN % 10);
    if (dev->sm < CUDA_SM_OLDEST)
        return status_fail(STATUS_UNSUPPORTED,
                           "%s, has compute capability %d.%d, for which this program has no code; "
                           "build it with CUDA 12 and cuDNN 9.0 to 9.10",
                           gpu, major, minor);
    if (dev->sm < SM_TURING && cudnnGetVersion() >= CUDNN_WITHOUT_VOLTA)
        return status_fail(STATUS_UNSUPPORTED,
                           "%s, has compute capability %d.%d, which cuDNN %s does not support; "
                           "install cuDNN 9.0 to 9.10 for CUDA 12",
                           gpu, major, minor, cudnn_version());
    return STATUS_OK;
}

static enum status read_properties(struct cuda_device *dev)
{
    struct cudaDeviceProp prop;
    int index = dev->base.index;
    TRY(cuda_check(cudaGetDeviceProperties(&prop, index), "read the properties of GPU %d", index));
    snprintf(dev->name, sizeof dev->name, "%s", prop.name);
    dev->sm = prop.major * 10 + prop.minor;
    dev->multiprocessors = prop.multiProcessorCount;
    dev->memory = prop.totalGlobalMem;
    return cuda_check_capability(dev);
}

/* A driver can compile the intermediate form of an older generation for a newer GPU. Such code does
 * not wait for the previous kernel, so it must not be launched early. */
static enum status find_pdl(struct cuda_device *dev)
{
    int driver = 0, runtime = 0, code = 0;
    TRY(cu_code_sm(&code));
    TRY(cuda_check(cudaDriverGetVersion(&driver), "read the version of the driver"));
    TRY(cuda_check(cudaRuntimeGetVersion(&runtime), "read the version of the CUDA runtime"));
    dev->pdl = dev->sm >= SM_PDL && code >= SM_PDL && driver >= CUDA_PDL && runtime >= CUDA_PDL;
    return STATUS_OK;
}

bool cuda_pdl(struct device *dev)
{
    return cuda_device_of(dev)->pdl;
}

enum status cuda_open(const struct backend *b, int index, int threads, struct device **out)
{
    int n = 0;
    *out = NULL;
    TRY(count_gpus(&n));
    if (index >= n)
        return status_fail(STATUS_USAGE,
                           "there is no GPU %d: this machine has %d GPUs, numbered from 0 to %d",
                           index, n, n - 1);
    struct cuda_device *dev;
    TRY(array_new(&dev, 1));
    dev->base = (struct device){.backend = b, .index = index, .threads = threads ? threads : 1};
    enum status st;
    void *mem;
    CHECK(read_properties(dev));
    CHECK(cuda_enter(dev));
    CHECK(find_pdl(dev));
    CHECK(cuda_alloc_host(&dev->base, sizeof *dev->bad_label, &mem));
    dev->bad_label = mem;
    *dev->bad_label = -1;
    *out = &dev->base;
done:
    if (st != STATUS_OK)
        cuda_close(&dev->base);
    return st;
}

void cuda_close(struct device *base)
{
    struct cuda_device *dev = cuda_device_of(base);
    if (cudaSetDevice(base->index) == cudaSuccess) {
        cuda_close_opened(dev);
        if (dev->bad_label)
            cudaFreeHost((void *)dev->bad_label);
    }
    free(dev);
}

void cuda_describe(struct device *base, char *out, size_t size)
{
    struct cuda_device *dev = cuda_device_of(base);
    int driver = 0, runtime = 0;
    char has[16], built[16];
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    version_text(driver, has);
    version_text(runtime, built);
    snprintf(out, size, "%s, sm_%d, %.1f GiB, CUDA %s (driver: %s), cuDNN %s", dev->name, dev->sm,
             (double)dev->memory / 1073741824.0, built, has, cudnn_version());
}

bool cuda_native(struct device *dev, enum dtype type)
{
    int sm = cuda_device_of(dev)->sm;
    return type == DTYPE_F32 || type == DTYPE_F16 ||
           (sm >= SM_BF16 && (type == DTYPE_BF16 || type == DTYPE_TF32));
}

enum status cuda_admit(struct device *base, enum dtype type)
{
    const struct cuda_device *dev = cuda_device_of(base);
    if (dev->sm >= SM_TURING || (type != DTYPE_BF16 && type != DTYPE_TF32))
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "GPU %d, '%s', does not support %s; use --precision amp or fp32",
                       base->index, dev->name, dtype_str(type));
}

enum status cuda_fault_take(struct cuda_device *dev)
{
    int64_t row = *dev->bad_label;
    if (row < 0)
        return STATUS_OK;
    *dev->bad_label = -1;
    return status_fail(STATUS_INVALID, "the label of row %lld is not the index of a class",
                       (long long)row);
}
