/* The four loops of the STREAM benchmark, compiled as a user would compile them, for
 * bench_peers.py.
 *
 * usage: stream MIB TIMES THREADS
 *
 * Each array has MIB mebibytes. Executes copy, scale, add and triad TIMES times; the first time is
 * a warm-up. Prints a line for each loop: its name, and its bytes per second in the fastest
 * execution. The loops, their order and the numbers of bytes are those of McCalpin's definition. */
#include "base/clock.h"

#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { COPY, SCALE, ADD, TRIAD, KERNELS };

#define LOOP(statement) _Pragma("omp parallel for") for (int64_t j = 0; j < n; j++) statement

static double seconds_of(int kernel, int64_t n, double *restrict a, double *restrict b,
                         double *restrict c)
{
    const double scalar = 3.0;
    uint64_t begun = clock_ns();
    if (kernel == COPY)
        LOOP(c[j] = a[j]);
    else if (kernel == SCALE)
        LOOP(b[j] = scalar * c[j]);
    else if (kernel == ADD)
        LOOP(c[j] = a[j] + b[j]);
    else
        LOOP(a[j] = b[j] + scalar * c[j]);
    return (double)(clock_ns() - begun) * 1e-9;
}

int main(int argc, char **argv)
{
    static const char *const names[KERNELS] = {"copy", "scale", "add", "triad"};
    static const double arrays[KERNELS] = {2, 2, 3, 3};
    if (argc != 4) {
        fputs("usage: stream MIB TIMES THREADS\n", stderr);
        return 2;
    }
    size_t bytes = (size_t)atoi(argv[1]) << 20;
    int times = atoi(argv[2]);
    int64_t n = (int64_t)(bytes / sizeof(double));
    double *a = aligned_alloc(64, bytes), *b = aligned_alloc(64, bytes);
    double *c = aligned_alloc(64, bytes), best[KERNELS] = {0};
    if (!a || !b || !c) {
        fputs("stream: no memory\n", stderr);
        return 1;
    }
    omp_set_num_threads(atoi(argv[3]));
    LOOP((a[j] = 1, b[j] = 2, c[j] = 0));
    for (int i = 0; i < times; i++) {
        for (int k = 0; k < KERNELS; k++) {
            double s = seconds_of(k, n, a, b, c);
            if (i > 0 && (best[k] == 0 || s < best[k]))
                best[k] = s;
        }
    }
    for (int k = 0; k < KERNELS; k++)
        printf("%s %.6g\n", names[k], arrays[k] * (double)bytes / best[k]);
    free(a);
    free(b);
    free(c);
    return 0;
}
