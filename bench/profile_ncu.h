/* NVIDIA's profiler, ncu: finding it, running a command under it, and reading its CSV. */
#ifndef BENCH_PROFILE_NCU_H
#define BENCH_PROFILE_NCU_H

#include "base/process.h"
#include "base/words.h"

enum { NCU_NAME_SIZE = 160, NCU_KERNELS_MAX = 100000 };

/* A kernel in the order of launches. NaN, or -1, where ncu says "n/a" or nothing. */
struct ncu_kernel {
    char name[NCU_NAME_SIZE]; /* without its parameters: "bn_apply<__half, (bool)1>" */
    double seconds, bytes;    /* bytes: between DRAM and the L2 cache */
    double tensor, dram;      /* share of the peak, 0 to 1 */
    int registers;            /* of a thread */
};

/* On PATH, else where NVIDIA's installers put it. STATUS_DATA where there is none. */
MUST_CHECK enum status ncu_find(char *path, size_t size);

struct ncu_config {
    const char *ncu;
    const struct words *command; /* what is profiled: kernels between cudaProfilerStart and Stop */
    const char *dir;             /* for ncu.csv, ncu.log and step.json, the command's stdout */
    const struct process_signals *signals;
    int64_t limit_s; /* 0: none */
};

/* "ncu 2025.3.0.0". */
MUST_CHECK enum status ncu_version(const struct ncu_config *c, char *out, size_t size);

/* Runs the command under ncu and reads what it found, in malloc'ed memory. Metrics that this
 * version does not have are left out. STATUS_DATA, with the way out, where counters cannot be read,
 * and STATUS_INTERRUPTED after a signal. */
MUST_CHECK enum status ncu_run(const struct ncu_config *c, struct ncu_kernel **kernel, int *n);

/* Reads `ncu --csv --page raw` output, whatever its bytes; `text` is changed. STATUS_DATA where it
 * has no kernel. */
MUST_CHECK enum status ncu_parse(char *text, struct ncu_kernel **kernel, int *n);
#endif
