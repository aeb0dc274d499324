/* Finds NVIDIA's profiler, ncu; runs a command under it; reads its CSV. */
#pragma once

#include "base/process.h"
#include "base/words.h"

enum { NCU_NAME_SIZE = 160, NCU_KERNELS_MAX = 100000 };

/* A kernel. Arrays of kernels are in launch order. A number for which ncu reports "n/a" or nothing
 * is NaN, or -1 if it is an integer. */
struct ncu_kernel {
    char name[NCU_NAME_SIZE]; /* name without parameters: "bn_apply<__half, (bool)1>" */
    double seconds, bytes;    /* bytes: between DRAM and the L2 cache */
    double tensor, dram;      /* use of the tensor core pipe and of DRAM, 0 to 1 of the peak */
    int registers;            /* registers per thread */
};

/* Finds ncu on PATH, or else in the folders of NVIDIA's installers. STATUS_DATA if there is no
 * ncu. */
MUST_CHECK enum status ncu_find(char *path, size_t size);

struct ncu_config {
    const char *ncu;
    const struct words *command; /* command to profile: its kernels between cudaProfilerStart and
                                  * cudaProfilerStop are measured */
    const char *dir;             /* folder for ncu.csv, ncu.log, and step.json, which has the
                                  * command's stdout */
    const struct process_signals *signals;
    int64_t limit_s; /* 0: unlimited */
};

/* "ncu 2025.3.0.0". */
MUST_CHECK enum status ncu_version(const struct ncu_config *c, char *out, size_t size);

/* Runs the command under ncu and returns its kernels, which the caller frees. If this version of
 * ncu lacks metrics, ncu runs once more, with other metrics in their place or without them.
 * STATUS_DATA if ncu may not read the counters: the message says how to allow it.
 * STATUS_INTERRUPTED after a signal. */
MUST_CHECK enum status ncu_run(const struct ncu_config *c, struct ncu_kernel **kernel, int *n);

/* Reads the output of `ncu --csv --page raw`. `text` may contain any bytes, and is modified.
 * STATUS_DATA if it has no kernel. */
MUST_CHECK enum status ncu_parse(char *text, struct ncu_kernel **kernel, int *n);
