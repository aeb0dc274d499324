/* Repeating a measurement until its median is known well enough. */
#include "bench/harness.h"

#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool harness_interval(const double *sorted, int64_t n, double *low, double *high)
{
    /* k: heads of n throws of a coin; the logarithm of how likely they are, since 2^-n may be 0. */
    int64_t k = 0;
    double likely = -(double)n * M_LN2, tail = exp(likely);
    while (tail <= 0.025) {
        likely += log((double)(n - k) / (double)(k + 1));
        k++;
        tail += exp(likely);
    }
    int64_t first = k > 0 ? k - 1 : 0;
    *low = sorted[first];
    *high = sorted[n - 1 - first];
    return k > 0;
}

/* `scratch` has room for n. */
static enum status sum_up(const double *x, int64_t n, double within, double *scratch,
                          struct harness_result *r)
{
    struct stats s;
    TRY(stats_of(x, n, &s));
    *r =
        (struct harness_result){.n = n, .min = s.min, .p5 = s.p5, .median = s.median, .p95 = s.p95};
    memcpy(scratch, x, (size_t)n * sizeof *x);
    stats_sort(scratch, n);
    bool known = harness_interval(scratch, n, &r->low, &r->high);
    r->narrow = known && r->high - r->low <= within * r->median;
    return STATUS_OK;
}

enum status harness_run(const struct harness_config *c,
                        enum status (*sample)(void *context, double *seconds), void *context,
                        struct harness_result *r)
{
    enum status st = STATUS_OK;
    double ignored, took = 0;
    int next = 6; /* when to look at the interval again: sorting is not for every sample */
    double *x = malloc(2 * (size_t)c->most * sizeof *x);
    if (!x)
        return status_fail(STATUS_OOM, "no memory for %d samples", c->most);
    for (int i = 0; i < c->warmup; i++)
        CHECK(sample(context, &ignored));
    for (int n = 0;;) {
        CHECK(sample(context, &x[n]));
        took += x[n++];
        bool last = n == c->most || (c->seconds > 0 && took >= c->seconds);
        if (!last && n < next)
            continue;
        CHECK(sum_up(x, n, c->within, x + c->most, r));
        if (last || (c->within > 0 && r->narrow))
            break;
        next = n + n / 8 + 1;
    }
done:
    free(x);
    return st;
}

json_t *harness_json(const struct harness_result *r)
{
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:b}", "n", (json_int_t)r->n, "min",
                     r->min, "p5", r->p5, "median", r->median, "p95", r->p95, "low", r->low, "high",
                     r->high, "narrow", r->narrow);
}
