/* Injects the delays of a real GPU into the fake GPU. */
#include "delays.h"

#include <chrono>
#include <map>
#include <mutex>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <thread>
#include <time.h>
#include <unistd.h>

namespace
{

const double BANDWIDTH = 4.3e12, HOST_BANDWIDTH = 55e9, LAUNCH = 3e-6;
const double FLOPS[] = {790e12, 395e12, 60e12};
const double LARGE_BYTES = 32e6, LARGE_FLOPS = 60e6;
const double MEANT_BYTES = 128e3; /* smaller copies are always executed */
/* Limits on the CPU seconds that a kernel may compute. LONG_MOMENT is the limit until a large
 * convolution or product is skipped, and MOMENT the limit from then on. A small problem takes less
 * than LONG_MOMENT, even under a sanitizer. */
#ifdef __SANITIZE_ADDRESS__
const double LONG_MOMENT = 8, MOMENT = 20e-6;
#else
const double LONG_MOMENT = 0.4, MOMENT = 20e-6;
#endif

std::map<const void *, size_t> known; /* sizes of tensors; guarded by fake_hold */
bool left_out;                        /* a large convolution or product was skipped */
double begun;

double scale()
{
    static const char *const set = getenv("AMPSCALE_FAKE_DELAYS");
    static const double factor = set ? atof(set) : 0;
    return factor;
}

/* CPU time of this thread, which other work on the machine does not change. */
double thread_seconds()
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

} // namespace

bool fake_delayed()
{
    return scale() > 0;
}

void fake_host_takes(double seconds)
{
    if (fake_delayed())
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds * scale()));
}

void fake_context_opens()
{
    const uint32_t MIXED = 2654435761u; /* a multiplier that spreads neighbouring numbers */
    static std::once_flag first;
    std::call_once(first, [] {
        fake_host_takes(0.5 + 2.5 * ((uint32_t)getpid() * MIXED) / UINT32_MAX);
    });
}

double fake_takes(double bytes, double flops, enum fake_rate rate)
{
    double memory = bytes / BANDWIDTH, arithmetic = flops / FLOPS[rate];
    return scale() * (LAUNCH + (memory > arithmetic ? memory : arithmetic));
}

double fake_copy_takes(double bytes, bool from_or_to_host)
{
    /* Copies within the device read and write each byte. */
    return scale() * (LAUNCH + bytes / (from_or_to_host ? HOST_BANDWIDTH : BANDWIDTH / 2));
}

bool fake_too_large(double bytes, double flops)
{
    left_out = left_out || (fake_delayed() && flops > LARGE_FLOPS);
    return fake_delayed() &&
           (bytes > (left_out ? MEANT_BYTES : LARGE_BYTES) || flops > LARGE_FLOPS);
}

void fake_kernel_begins()
{
    begun = fake_delayed() ? thread_seconds() : 0;
}

bool fake_kernel_enough()
{
    return fake_delayed() && thread_seconds() - begun > (left_out ? MOMENT : LONG_MOMENT);
}

void fake_know(const void *mem, size_t bytes)
{
    if (fake_delayed())
        known[mem] = bytes;
}

void fake_forget(const void *mem, size_t bytes)
{
    known.erase(known.lower_bound(mem), known.lower_bound((const char *)mem + bytes));
}

void fake_clear(void *mem, size_t bytes)
{
    static const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t at = (uintptr_t)mem, end = at + bytes;
    uintptr_t first = (at + page - 1) / page * page, last = end / page * page;
    if (first >= last) {
        memset(mem, 0, bytes);
        return;
    }
    memset(mem, 0, first - at);
    memset((void *)last, 0, end - last);
    if (madvise((void *)first, last - first, MADV_DONTNEED) != 0)
        abort();
}

/* The arguments contain addresses at multiples of eight bytes. */
double fake_kernel_bytes(const void *arguments, size_t size)
{
    double bytes = 0;
    for (size_t at = 0; fake_delayed() && at + sizeof(void *) <= size; at += sizeof(void *)) {
        const void *mem;
        memcpy(&mem, (const char *)arguments + at, sizeof mem);
        auto k = known.find(mem);
        bytes += k != known.end() ? (double)k->second : 0;
    }
    return bytes;
}
