/* A device of a stream_backend whose memory the host cannot access. */
#include "tests/kernels/stream_queue.h"

#include <sys/mman.h>

enum { ALIGN = 256 };

/* Device memory is one reserved range of addresses with two halves. A device address is in the
 * first half, which no code can access. The data is at the same offset in the second half. */
static const size_t HALF = (size_t)1 << 30;

static pthread_once_t made = PTHREAD_ONCE_INIT;
static struct stream_backend moving;
static void (*close_streams)(struct device *dev);

void *stream_device_inside(struct device *dev, const void *mem)
{
    char *reserved = device_of(dev)->reserved;
    const char *at = mem;
    bool ours = reserved && at >= reserved && at < reserved + HALF;
    return (void *)(ours ? at + HALF : at);
}

/* A freed address is never allocated again. */
static enum status take(struct device *dev, size_t bytes, void **mem)
{
    struct queue_device *d = device_of(dev);
    pthread_mutex_lock(&d->lock);
    *mem = d->reserved + d->used;
    d->used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    bool fits = d->used <= HALF;
    pthread_mutex_unlock(&d->lock);
    return fits ? STATUS_OK : status_fail(STATUS_OOM, "the test's device is full");
}

static void leave(struct device *dev, void *mem)
{
    (void)dev, (void)mem;
}

static void close_moving(struct device *dev)
{
    munmap(device_of(dev)->reserved, 2 * HALF);
    close_streams(dev);
}

static void make(void)
{
    stream_backend_make(&moving);
    close_streams = moving.base.close;
    moving.base.n_records = 0;
    moving.base.close = close_moving;
    moving.base.alloc = take;
    moving.base.free = leave;
}

enum status stream_device_open(struct device **dev)
{
    pthread_once(&made, make);
    TRY(moving.base.open(&moving.base, 0, 1, dev));
    int private = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *reserved = mmap(NULL, 2 * HALF, PROT_NONE, private, -1, 0);
    if (reserved == MAP_FAILED || mprotect(reserved + HALF, HALF, PROT_READ | PROT_WRITE) != 0) {
        close_streams(*dev);
        return status_fail(STATUS_OOM, "no address space for a test");
    }
    device_of(*dev)->reserved = reserved;
    return STATUS_OK;
}
