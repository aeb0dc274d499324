/* A stand-in for the management library: two GPUs whose sensors a test sets. Compiled as
 * libnvidia-ml.so.1, and with FAKE_NVML_OLD as one that has few functions. For programs that cannot
 * set them, the environment's FAKE_NVML_MILLIJOULES is added to an energy counter each time it is
 * read. */
#pragma once

enum { FAKE_GPUS = 2 };

struct fake_gpu {
    int code;        /* that every call returns; 0: it works */
    int energy_code; /* that of the energy counter */
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

/* The library exports it under this name. */
extern struct fake_nvml fake_nvml;
