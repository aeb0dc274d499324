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

/* What AMPSCALE_FAKE_ENGINE asks for. */
struct engine_request {
    enum engine_fault how = ENGINE_SOUND;
    std::string engine, form; /* form is empty: every form */
    long n = 1, met = 0;

    engine_request()
    {
        const std::pair<const char *, enum engine_fault> faults[] = {{"fails", ENGINE_FAILS},
                                                                     {"sticky", ENGINE_STICKY},
                                                                     {"crash", ENGINE_CRASH},
                                                                     {"hang", ENGINE_HANG},
                                                                     {"wrong", ENGINE_WRONG}};
        char name[64] = "", word[16] = "";
        const char *set = getenv("AMPSCALE_FAKE_ENGINE");
        if (!set || !*set)
            return;
        if (sscanf(set, "%63[0-9a-z@+]:%15[a-z]:%ld", name, word, &n) >= 2 && n >= 1)
            for (auto &f : faults)
                how = strcmp(word, f.first) == 0 ? f.second : how;
        if (how == ENGINE_SOUND) {
            fprintf(stderr, "AMPSCALE_FAKE_ENGINE is not ENGINE[@FORM]:HOW[:N]: %s\n", set);
            abort();
        }
        char *at = strchr(name, '@');
        form = at ? at + 1 : "";
        engine = at ? std::string(name, at) : name;
    }

    bool covers(int64_t index, const std::string &of) const
    {
        bool plain = form == "fwd" || form == "dgrad" || form == "wgrad";
        return (engine == "any" || engine == std::to_string(index)) &&
               (plain ? of == form : of.find(form) != std::string::npos);
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
engine_request engines;
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

enum engine_fault fake_engine_fault(int64_t engine, const std::string &form)
{
    std::lock_guard<std::mutex> hold(counted.lock);
    if (!engines.covers(engine, form))
        return ENGINE_SOUND;
    return ++engines.met >= engines.n ? engines.how : ENGINE_SOUND;
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
