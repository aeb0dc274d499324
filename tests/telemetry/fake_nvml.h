/* A stand-in for NVML with two GPUs whose sensors a test sets. It is compiled as libnvidia-ml.so.1.
 * With FAKE_NVML_OLD, it is an old version with few functions. If the environment variable
 * FAKE_NVML_MILLIJOULES is set, each reading of an energy counter first adds the variable's value
 * to it. A shell test uses this variable, because it cannot set the sensors. */
#pragma once

enum { FAKE_GPUS = 2 };

struct fake_gpu {
    int code;        /* NVML code that every call for this GPU returns; 0: success */
    int energy_code; /* NVML code that reading the energy counter returns */
    unsigned clock, memory_clock, milliwatts, celsius;
    unsigned long long millijoules, throttle, corrected, uncorrected;
    const char *bus;
};

struct fake_nvml {
    int init_code;
    int running; /* number of calls of nvmlInit minus those of nvmlShutdown */
    struct fake_gpu gpu[FAKE_GPUS];
};

/* The library exports this variable under this name. */
extern struct fake_nvml fake_nvml;
