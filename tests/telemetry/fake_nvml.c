/* See fake_nvml.h. The declarations repeat the names and types of nvml.h. */
#include "fake_nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The functions have no prototypes, because callers find them by name. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

struct fake_nvml fake_nvml = {.gpu = {{.bus = "0000:01:00.0"}, {.bus = "0000:02:00.0"}}};

static struct fake_gpu *gpu_of(void *handle)
{
    fake_nvml.calls++;
    return handle;
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

int nvmlDeviceGetPowerUsage(void *gpu, unsigned *milliwatts)
{
    *milliwatts = gpu_of(gpu)->milliwatts;
    return gpu_of(gpu)->code;
}

/* In drivers before 535, nvmlDeviceGetCurrentClocksEventReasons had this name. */
int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, unsigned long long *reasons)
{
    *reasons = gpu_of(gpu)->throttle;
    return gpu_of(gpu)->code;
}

#ifndef FAKE_NVML_OLD

int nvmlDeviceGetCurrentClocksEventReasons(void *gpu, unsigned long long *reasons)
{
    return nvmlDeviceGetCurrentClocksThrottleReasons(gpu, reasons);
}

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

int nvmlDeviceGetName(void *gpu, char *text, unsigned size)
{
    snprintf(text, size, "Fake GPU");
    return gpu_of(gpu)->code;
}

int nvmlDeviceGetUUID(void *gpu, char *text, unsigned size)
{
    snprintf(text, size, "GPU-secret-%d", (int)(gpu_of(gpu) - fake_nvml.gpu));
    return gpu_of(gpu)->code;
}

int nvmlDeviceGetClockInfo(void *gpu, int which, unsigned *mhz)
{
    *mhz = which == 1 ? gpu_of(gpu)->clock : which == 2 ? gpu_of(gpu)->memory_clock : 0;
    return gpu_of(gpu)->code;
}

int nvmlDeviceGetMaxClockInfo(void *gpu, int which, unsigned *mhz)
{
    *mhz = which == 1 ? 1980 : 3201;
    return gpu_of(gpu)->code;
}

int nvmlDeviceGetTemperature(void *gpu, int sensor, unsigned *celsius)
{
    *celsius = gpu_of(gpu)->celsius;
    return sensor == 0 ? gpu_of(gpu)->code : 2;
}

int nvmlDeviceGetPcieThroughput(void *gpu, int counter, unsigned *kilobytes)
{
    *kilobytes = counter == 0 ? 10 : 20;
    return gpu_of(gpu)->code;
}

int nvmlDeviceGetEnforcedPowerLimit(void *gpu, unsigned *milliwatts)
{
    *milliwatts = 700000;
    return gpu_of(gpu)->code;
}

/* Not supported, as on some GPUs. */
int nvmlDeviceGetCurrPcieLinkGeneration(void *gpu, unsigned *generation)
{
    (void)gpu;
    (void)generation;
    return 3;
}

int nvmlDeviceGetCurrPcieLinkWidth(void *gpu, unsigned *width)
{
    *width = 16;
    return gpu_of(gpu)->code;
}

int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *millijoules)
{
    struct fake_gpu *g = gpu_of(gpu);
    const char *more = getenv("FAKE_NVML_MILLIJOULES");
    if (more)
        g->millijoules += strtoull(more, NULL, 10);
    *millijoules = g->millijoules;
    return g->code ? g->code : g->energy_code;
}

int nvmlDeviceGetTotalEccErrors(void *gpu, int kind, int counter, unsigned long long *count)
{
    *count = kind == 0 ? gpu_of(gpu)->corrected : gpu_of(gpu)->uncorrected;
    return counter == 0 ? gpu_of(gpu)->code : 2;
}

int nvmlDeviceGetMemoryInfo(void *gpu, unsigned long long memory[3])
{
    memory[0] = 1000; /* total */
    memory[1] = 700;  /* free */
    memory[2] = 300;  /* used */
    return gpu_of(gpu)->code;
}

int nvmlDeviceGetUtilizationRates(void *gpu, unsigned busy[2])
{
    busy[0] = 97;
    busy[1] = 45;
    return gpu_of(gpu)->code;
}

#endif
