/* Allocates memory of the device and of the host, and copies. */
#include "kernels/cuda/device.h"

#include <string.h>

enum status cuda_alloc(struct device *base, size_t bytes, void **mem)
{
    struct cuda_device *dev = cuda_device_of(base);
    *mem = NULL;
    TRY(cuda_enter(dev));
    cudaError_t e = cudaMalloc(mem, bytes ? bytes : 1);
    if (e == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* clears the error, which the next launch would report again */
        return status_fail(
            STATUS_OOM,
            "GPU %d has no memory for another %.1f MiB; it has %.1f GiB in total; use a "
            "smaller batch or image",
            base->index, (double)bytes / 1048576.0, (double)dev->memory / 1073741824.0);
    }
    TRY(cuda_check(e, "allocate memory of GPU %d", base->index));
    /* Zeroes the memory on the default stream and waits until it is zeroed, because other streams
     * do not wait for the default stream. */
    e = cudaMemset(*mem, 0, bytes);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(NULL);
    if (e != cudaSuccess) {
        cudaFree(*mem);
        *mem = NULL;
    }
    return cuda_check(e, "zero memory of GPU %d", base->index);
}

void cuda_free(struct device *dev, void *mem)
{
    if (mem && cudaSetDevice(dev->index) == cudaSuccess)
        cudaFree(mem);
}

enum status cuda_alloc_host(struct device *dev, size_t bytes, void **mem)
{
    *mem = NULL;
    TRY(cuda_enter(cuda_device_of(dev)));
    TRY(cuda_check(
        cudaHostAlloc(mem, bytes ? bytes : 1, cudaHostAllocPortable | cudaHostAllocMapped),
        "pin %.1f MiB of the host's memory", (double)bytes / 1048576.0));
    memset(*mem, 0, bytes);
    return STATUS_OK;
}

void cuda_free_host(struct device *dev, void *mem)
{
    if (mem && cudaSetDevice(dev->index) == cudaSuccess)
        cudaFreeHost(mem);
}

/* Copies in stream order; the runtime detects which pointer is to host memory. */
static enum status copy(struct stream *s, void *dst, const void *src, size_t bytes,
                        const char *what)
{
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    return cuda_check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, q.stream), "%s %zu bytes",
                      what, bytes);
}

enum status cuda_upload(struct stream *s, void *dst, const void *src_host, size_t bytes)
{
    return copy(s, dst, src_host, bytes, "send");
}

enum status cuda_download(struct stream *s, void *dst_host, const void *src, size_t bytes)
{
    return copy(s, dst_host, src, bytes, "fetch");
}

enum status cuda_copy(struct stream *s, void *dst, const void *src, size_t bytes)
{
    return copy(s, dst, src, bytes, "copy");
}

enum status cuda_zero(struct stream *s, void *dst, size_t bytes)
{
    struct cu_queue q;
    TRY(cuda_queue(s, &q));
    return cuda_check(cudaMemsetAsync(dst, 0, bytes, q.stream), "zero %zu bytes", bytes);
}

enum status cuda_peer_open(struct device *dev, struct device *other, bool *direct)
{
    int can = 0;
    *direct = false;
    TRY(cuda_enter(cuda_device_of(dev)));
    TRY(cuda_check(cudaDeviceCanAccessPeer(&can, dev->index, other->index),
                   "check whether GPU %d can access the memory of GPU %d", dev->index,
                   other->index));
    if (!can)
        return STATUS_OK;
    cudaError_t e = cudaDeviceEnablePeerAccess(other->index, 0);
    if (e == cudaErrorPeerAccessAlreadyEnabled) {
        cudaGetLastError(); /* clears the error, which the next launch would report again */
        e = cudaSuccess;
    }
    *direct = e == cudaSuccess;
    return cuda_check(e, "let GPU %d access the memory of GPU %d", dev->index, other->index);
}
