/* Measures STREAM's kernels in the host's memory. */
#include "bench/memory.h"

#include "base/clock.h"

#include <stdlib.h>

#define SCALAR 3.0

enum { COPY, SCALE, ADD, TRIAD, KERNELS };

struct arrays {
    int threads;
    int64_t n;
    double *a, *b, *c; /* (n) */
    int kernel;        /* the measured one */
};

static const struct {
    const char *name;
    int arrays; /* number of arrays read or written */
} kernels[KERNELS] = {{"copy", 2}, {"scale", 2}, {"add", 3}, {"triad", 3}};

static void copy(int threads, int64_t n, const double *restrict a, double *restrict c)
{
#pragma omp parallel for simd num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++)
        c[i] = a[i];
}

static void scale(int threads, int64_t n, const double *restrict c, double *restrict b)
{
#pragma omp parallel for simd num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++)
        b[i] = SCALAR * c[i];
}

static void add(int threads, int64_t n, const double *restrict a, const double *restrict b,
                double *restrict c)
{
#pragma omp parallel for simd num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++)
        c[i] = a[i] + b[i];
}

static void triad(int threads, int64_t n, const double *restrict b, const double *restrict c,
                  double *restrict a)
{
#pragma omp parallel for simd num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++)
        a[i] = b[i] + SCALAR * c[i];
}

static enum status stream_sample(void *context, double *seconds)
{
    const struct arrays *m = context;
    uint64_t begun = clock_ns();
    switch (m->kernel) {
    case COPY:
        copy(m->threads, m->n, m->a, m->c);
        break;
    case SCALE:
        scale(m->threads, m->n, m->c, m->b);
        break;
    case ADD:
        add(m->threads, m->n, m->a, m->b, m->c);
        break;
    default:
        triad(m->threads, m->n, m->b, m->c, m->a);
    }
    *seconds = (double)(clock_ns() - begun) * 1e-9;
    return STATUS_OK;
}

/* Returns the value of element i of an array: a whole number. It differs from element i of the
 * other arrays, and from the neighbours in its own array. */
static double value_of(int array, int64_t i)
{
    return (double)(4 * (i & 0xfffff) + array + 1);
}

/* Sets the values of the arrays. The array that the kernel writes gets values that the kernel
 * cannot compute. */
static void fill(const struct arrays *m)
{
    const double *target = m->kernel == TRIAD ? m->a : m->kernel == SCALE ? m->b : m->c;
#pragma omp parallel for num_threads(m->threads) schedule(static)
    for (int64_t i = 0; i < m->n; i++) {
        m->a[i] = m->a == target ? -1 : value_of(0, i);
        m->b[i] = m->b == target ? -1 : value_of(1, i);
        m->c[i] = m->c == target ? -1 : value_of(2, i);
    }
}

static int64_t wrong_of(const struct arrays *m)
{
    int64_t wrong = 0;
#pragma omp parallel for num_threads(m->threads) schedule(static) reduction(+ : wrong)
    for (int64_t i = 0; i < m->n; i++) {
        double a = value_of(0, i), b = value_of(1, i), c = value_of(2, i);
        if (m->kernel == COPY)
            c = a;
        else if (m->kernel == SCALE)
            b = SCALAR * c;
        else if (m->kernel == ADD)
            c = a + b;
        else
            a = b + SCALAR * c;
        wrong += !(m->a[i] == a && m->b[i] == b && m->c[i] == c);
    }
    return wrong;
}

enum status memory_measure_host(const struct harness_config *timing, int threads,
                                size_t array_bytes, struct memory_result *r)
{
    struct arrays m = {.threads = threads, .n = (int64_t)(array_bytes / sizeof(double))};
    enum status st = STATUS_OK;
    m.a = aligned_alloc(64, array_bytes);
    m.b = aligned_alloc(64, array_bytes);
    m.c = aligned_alloc(64, array_bytes);
    if (!m.a || !m.b || !m.c)
        CHECK(status_fail(STATUS_OOM,
                          "no memory for three arrays of %zu MiB; give a smaller --max-mib",
                          array_bytes >> 20));
    r->array_bytes = array_bytes;
    bar_begin(timing->bar, KERNELS);
    for (m.kernel = 0; m.kernel < KERNELS; m.kernel++) {
        struct memory_row *row = &r->row[m.kernel];
        *row = (struct memory_row){.name = kernels[m.kernel].name,
                                   .bytes = (double)array_bytes * kernels[m.kernel].arrays};
        fill(&m);
        CHECK(harness_run(timing, stream_sample, &m, &row->time));
        row->wrong = wrong_of(&m);
        r->n = m.kernel + 1;
    }
done:
    free(m.a);
    free(m.b);
    free(m.c);
    return st;
}
