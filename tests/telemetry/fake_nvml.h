/* A stand-in for NVML with two GPUs whose sensors a test sets. It is compiled as libnvidia-ml.so.1,
 * and with FAKE_NVML_OLD as an old version with few functions. For programs that cannot set the
 * sensors, the environment variable FAKE_NVML_MILLIJOULES is added to the energy counters at each
 * reading. */
#pragma once

enum { FAKE_GPUS = 2 };

struct fake_gpu {
    int code;        /* NVML's code that every call returns; 0: success */
    int energy_code; /* code that reading the energy counter returns */
    unsigned clock, memory_clock, milliwatts, celsius;
    unsigned long long millijoules, throttle, corrected, uncorrected;
    const char *bus;
};

struct fake_nvml {
    int init_code;
    int running; /* nvmlInit less nvmlShutdown */
    int calls;   /* of sensors */
    struct fake_gpu gpu[FAKE_GPUS];
};

/* The library exports this variable under this name. */
extern struct fake_nvml fake_nvml;
