/* The inner loops of the CPU backend's own operations, as one table per instruction set.
 *
 * The sources under isa/ are compiled once for each instruction set and know nothing of plans,
 * threads or layouts' names; a device picks its table once, when it is opened. */
#ifndef KERNELS_CPU_KERNELS_H
#define KERNELS_CPU_KERNELS_H

#ifdef __cplusplus
extern "C" {
#endif

struct cpu_kernels {
    const char *isa;  /* "avx512" */
    const char *impl; /* "own:avx512", as plans report it */
};

extern const struct cpu_kernels cpu_kernels_generic;
#if defined(__x86_64__)
extern const struct cpu_kernels cpu_kernels_avx2;
extern const struct cpu_kernels cpu_kernels_avx512;
#endif

#ifdef __cplusplus
}
#endif
#endif
