/* See fake_nvml.h. The declarations repeat the names and types of nvml.h. */
#include "fake_nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The functions have no prototypes, because callers find them by name. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

struct fake_nvml fake_nvml = {.gpu = {{.bus = "0000:01:00.0"}, {.bus = "0000:02:00.0"}}};

/* Defines nvmlDeviceGet<name>, which sets *out and returns the code of GPU `g`. GET_OF defines a
 * function that takes also which of several values is meant. */
#define GET(name, type, value)                                                                     \
    int nvmlDeviceGet##name(void *gpu, type *out)                                                  \
    {                                                                                              \
        const struct fake_gpu *g = gpu;                                                            \
        *out = value;                                                                              \
        return g->code;                                                                            \
    }
#define GET_OF(name, value)                                                                        \
    int nvmlDeviceGet##name(void *gpu, int which, unsigned *out)                                   \
    {                                                                                              \
        const struct fake_gpu *g = gpu;                                                            \
        *out = value;                                                                              \
        return g->code;                                                                            \
    }

int nvmlInit_v2(void)
{
    fake_nvml.running += fake_nvml.init_code == 0;
    return fake_nvml.init_code;
}

int nvmlShutdown(void)
{
    fake_nvml.running--;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu)
{
    if (index >= FAKE_GPUS)
        return 2;
    *gpu = &fake_nvml.gpu[index];
    return 0;
}

GET(PowerUsage, unsigned, g->milliwatts)
/* In drivers before 535, nvmlDeviceGetCurrentClocksEventReasons had this name. */
GET(CurrentClocksThrottleReasons, unsigned long long, g->throttle)

#ifndef FAKE_NVML_OLD

GET(CurrentClocksEventReasons, unsigned long long, g->throttle)
GET(EnforcedPowerLimit, unsigned, 700000)
GET(CurrPcieLinkWidth, unsigned, 16)
GET(MaxPcieLinkWidth, unsigned, 16)
GET(MaxPcieLinkGeneration, unsigned, 5)
GET_OF(ClockInfo, which == 1 ? g->clock : which == 2 ? g->memory_clock : 0)
GET_OF(MaxClockInfo, which == 1 ? 1980 : 3201)
GET_OF(Temperature, which == 0 ? g->celsius : 0)
GET_OF(PcieThroughput, which == 0 ? 10 : 20)

const char *nvmlErrorString(int code)
{
    return code == 15 ? "GPU is lost" : code == 9 ? "Driver Not Loaded" : "another error";
}

int nvmlSystemGetDriverVersion(char *text, unsigned size)
{
    snprintf(text, size, "580.1");
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **gpu)
{
    for (int i = 0; i < FAKE_GPUS; i++) {
        if (fake_nvml.gpu[i].bus && strcmp(fake_nvml.gpu[i].bus, bus) == 0) {
            *gpu = &fake_nvml.gpu[i];
            return 0;
        }
    }
    return 6;
}

int nvmlDeviceGetName(const struct fake_gpu *gpu, char *text, unsigned size)
{
    snprintf(text, size, "Fake GPU");
    return gpu->code;
}

int nvmlDeviceGetUUID(const struct fake_gpu *gpu, char *text, unsigned size)
{
    snprintf(text, size, "GPU-secret-%d", (int)(gpu - fake_nvml.gpu));
    return gpu->code;
}

/* Not supported, as on some GPUs. */
int nvmlDeviceGetCurrPcieLinkGeneration(void *gpu, unsigned *generation)
{
    (void)gpu;
    (void)generation;
    return 3;
}

int nvmlDeviceGetTotalEnergyConsumption(struct fake_gpu *gpu, unsigned long long *millijoules)
{
    const char *more = getenv("FAKE_NVML_MILLIJOULES");
    if (more)
        gpu->millijoules += strtoull(more, NULL, 10);
    *millijoules = gpu->millijoules;
    return gpu->code ? gpu->code : gpu->energy_code;
}

int nvmlDeviceGetTotalEccErrors(const struct fake_gpu *gpu, int kind, int counter,
                                unsigned long long *count)
{
    *count = kind == 0 ? gpu->corrected : gpu->uncorrected;
    return counter == 0 ? gpu->code : 2;
}

int nvmlDeviceGetMemoryInfo(const struct fake_gpu *gpu, unsigned long long memory[3])
{
    memory[0] = 1000; /* total */
    memory[1] = 700;  /* free */
    memory[2] = 300;  /* used */
    return gpu->code;
}

int nvmlDeviceGetRemappedRows(const struct fake_gpu *gpu, unsigned *corrected,
                              unsigned *uncorrected, unsigned *pending, unsigned *failed)
{
    *corrected = 2;
    *uncorrected = 1;
    *pending = 1;
    *failed = 0;
    return gpu->code;
}

int nvmlDeviceGetUtilizationRates(const struct fake_gpu *gpu, unsigned busy[2])
{
    busy[0] = 97;
    busy[1] = 45;
    return gpu->code;
}

#endif
