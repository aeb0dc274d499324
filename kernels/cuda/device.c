/* Opening a GPU, and what is said of it. */
#include "kernels/cuda/device.h"

#include "kernels/cuda/conv_exec.h"
#include "kernels/cuda/error.h"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/op_timer.h"
#include "kernels/cuda/plan_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* The oldest GPUs whose tensor cores the libraries here still serve: Turing. */
enum { SM_MIN = 75, SM_BF16 = 80 };

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
    cudaGetLastError(); /* else the next launch of a kernel would report it once more */
    return st;
}

enum status cuda_enter(const struct cuda_device *dev)
{
    return cuda_check(cudaSetDevice(dev->base.index), "use GPU %d", dev->base.index);
}

enum status cuda_queue(struct stream *s, struct cu_queue *q)
{
    const struct cuda_device *dev = cuda_device_of(s->device);
    *q = (struct cu_queue){cuda_stream_of(s)->raw, dev->multiprocessors};
    return cuda_enter(dev);
}

/* "13.0" of 13000, as the runtime and the driver number CUDA. */
static void version_text(int version, char out[16])
{
    snprintf(out, 16, "%d.%d", version / 1000, version % 1000 / 10);
}

/* Says why no GPU can be used, where the driver itself cannot. */
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
                           "the NVIDIA driver is too old: it is made for CUDA %s, and CUDA %s is "
                           "needed; install a newer one, or use --devices cpu",
                           has, wants);
    if (e == cudaErrorNoDevice || (e == cudaSuccess && *n == 0))
        return status_fail(STATUS_UNSUPPORTED, "there is no NVIDIA GPU here; use --devices cpu");
    if (e != cudaSuccess)
        return status_fail(STATUS_UNSUPPORTED, "no GPU can be used: %s", cudaGetErrorString(e));
    return STATUS_OK;
}

static enum status read_properties(struct cuda_device *dev)
{
    struct cudaDeviceProp prop;
    int index = dev->base.index;
    TRY(cuda_check(cudaGetDeviceProperties(&prop, index), "ask what GPU %d is", index));
    snprintf(dev->name, sizeof dev->name, "%s", prop.name);
    dev->sm = prop.major * 10 + prop.minor;
    dev->multiprocessors = prop.multiProcessorCount;
    dev->memory = prop.totalGlobalMem;
    if (dev->sm < SM_MIN)
        return status_fail(STATUS_UNSUPPORTED,
                           "GPU %d, '%s', is too old: its compute capability is %d.%d, and %d.%d "
                           "is needed",
                           index, dev->name, prop.major, prop.minor, SM_MIN / 10, SM_MIN % 10);
    return STATUS_OK;
}

enum status cuda_open(const struct backend *b, int index, int threads, struct device **out)
{
    int n = 0;
    *out = NULL;
    TRY(count_gpus(&n));
    if (index >= n)
        return status_fail(STATUS_USAGE, "there is no GPU %d: this machine has %d, 0 to %d", index,
                           n, n - 1);
    struct cuda_device *dev = calloc(1, sizeof *dev);
    if (!dev)
        return status_fail(STATUS_OOM, "no memory for a device");
    dev->base = (struct device){.backend = b, .index = index, .threads = threads ? threads : 1};
    enum status st;
    void *mem;
    CHECK(read_properties(dev));
    CHECK(cuda_enter(dev));
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
        conv_library_close(dev->conv);
        matmul_library_close(dev->gemm);
        plan_file_close(dev);
        op_timer_close(dev->timer);
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
             (double)dev->memory / 1073741824.0, built, has, conv_library_version());
}

bool cuda_native(struct device *dev, enum dtype type)
{
    int sm = cuda_device_of(dev)->sm;
    return type == DTYPE_F32 || type == DTYPE_F16 ||
           (sm >= SM_BF16 && (type == DTYPE_BF16 || type == DTYPE_TF32));
}

enum status cuda_fault_take(struct cuda_device *dev)
{
    int64_t row = *dev->bad_label;
    if (row < 0)
        return STATUS_OK;
    *dev->bad_label = -1;
    return status_fail(STATUS_INVALID, "the label of row %lld is no class", (long long)row);
}
