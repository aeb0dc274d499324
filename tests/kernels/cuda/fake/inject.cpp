/* Failures on request. */
#include "inject.h"

#include "fake.h"

#include <map>
#include <mutex>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>

namespace
{

/* What was asked for. */
struct request {
    std::string call; /* empty: nothing */
    bool capture = false, sticky = false;
    long n = 0;

    request()
    {
        char name[64] = "", rest[16] = "";
        const char *set = getenv("AMPSCALE_FAKE_FAIL");
        if (!set || !*set)
            return;
        if (sscanf(set, "%63[A-Za-z@]:%ld:%15s", name, &n, rest) < 2 || n < 1 ||
            (*rest && strcmp(rest, "sticky") != 0)) {
            fprintf(stderr, "AMPSCALE_FAKE_FAIL is not CALL[@capture]:N[:sticky]: %s\n", set);
            abort();
        }
        char *at = strchr(name, '@');
        if (at)
            *at = '\0';
        call = name;
        capture = at != NULL;
        sticky = *rest != '\0';
    }
};

struct count {
    long outside = 0, inside = 0;
};

/* Counts the calls of this process. Appends the counts to a file when the process ends. */
struct tally {
    std::mutex lock;
    std::map<std::string, count> calls;
    request wanted;

    ~tally()
    {
        const char *path = getenv("AMPSCALE_FAKE_COUNT");
        FILE *f = path && *path ? fopen(path, "a") : NULL;
        if (!f)
            return;
        for (auto &c : calls)
            fprintf(f, "%s %ld %ld\n", c.first.c_str(), c.second.outside, c.second.inside);
        fclose(f);
    }
};
tally counted;
bool broken;
thread_local cudaError_t last;

/* A plausible error for each call. Calls that are not listed return an unknown error. */
const struct {
    const char *call;
    cudaError_t error;
} errors[] = {
    {"cudaMalloc", cudaErrorMemoryAllocation},
    {"cudaHostAlloc", cudaErrorMemoryAllocation},
    {"cudaGetDeviceCount", cudaErrorNoDevice},
    {"cudaSetDevice", cudaErrorDevicesUnavailable},
    {"cudaGetDeviceProperties", cudaErrorInvalidDevice},
    {"cudaDeviceGetAttribute", cudaErrorInvalidValue},
    {"cudaLaunchKernel", cudaErrorLaunchOutOfResources},
    {"cudaStreamSynchronize", cudaErrorLaunchFailure},
    {"cudaEventSynchronize", cudaErrorLaunchFailure},
    {"cudaEventElapsedTime", cudaErrorNotReady},
    {"cudaStreamBeginCapture", cudaErrorStreamCaptureUnsupported},
    {"cudaStreamEndCapture", cudaErrorStreamCaptureInvalidated},
    {"cudaGraphInstantiate", cudaErrorMemoryAllocation},
};

cudaError_t error_of(const char *call)
{
    if (broken)
        return cudaErrorIllegalAddress;
    if (fake_captures())
        return cudaErrorStreamCaptureUnsupported;
    for (auto &e : errors)
        if (strcmp(e.call, call) == 0)
            return e.error;
    return cudaErrorUnknown;
}

} // namespace

bool fake_broken()
{
    return broken;
}

void fake_break()
{
    broken = true;
}

bool fake_fails(const char *call)
{
    const request &wanted = counted.wanted;
    bool inside = fake_captures();
    std::lock_guard<std::mutex> hold(counted.lock);
    count &c = counted.calls[call];
    ++(inside ? c.inside : c.outside);
    if (wanted.call != call || (wanted.capture && !inside) ||
        wanted.n != (wanted.capture ? c.inside : c.inside + c.outside))
        return false;
    if (wanted.capture)
        fake_end_capture();
    broken = broken || wanted.sticky;
    return true;
}

cudaError_t fake_error(cudaError_t e)
{
    last = e;
    return e;
}

cudaError_t fake_enter(const char *call, bool device)
{
    if (fake_fails(call))
        return fake_error(error_of(call));
    return device && broken ? fake_error(cudaErrorIllegalAddress) : cudaSuccess;
}

/* If a device is broken, every later call reports the error. */
cudaError_t cudaGetLastError(void)
{
    cudaError_t e = broken ? cudaErrorIllegalAddress : last;
    last = cudaSuccess;
    return e;
}
