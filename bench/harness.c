/* Repeats a measurement until the confidence interval of its median is narrow. */
#include "bench/harness.h"

#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

bool harness_interval(const double *sorted, int64_t n, double *low, double *high)
{
    /* P is the binomial distribution (n, 1/2). `likely` is log P(k): the logarithm cannot
     * underflow, but P(0) = 2^-n can. `tail` is P(<= k). */
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

/* Sorts the samples. */
static enum status sum_up(double *x, int64_t n, double within, struct harness_result *r)
{
    struct stats s;
    TRY(stats_of(x, n, &s));
    *r =
        (struct harness_result){.n = n, .min = s.min, .p5 = s.p5, .median = s.median, .p95 = s.p95};
    stats_sort(x, n);
    bool known = harness_interval(x, n, &r->low, &r->high);
    r->narrow = known && r->high - r->low <= within * r->median;
    return STATUS_OK;
}

enum status harness_run(const struct harness_config *c,
                        enum status (*sample)(void *context, double *seconds), void *context,
                        struct harness_result *r)
{
    enum status st = STATUS_OK;
    double ignored, took = 0;
    int next = 6; /* number of samples at which the interval is computed next; sorting after every
                   * sample would be too slow */
    double *x;
    TRY(array_new(&x, c->most));
    for (int i = 0; i < c->warmup; i++)
        CHECK(sample(context, &ignored));
    for (int n = 0;;) {
        CHECK(sample(context, &x[n]));
        took += x[n++];
        bool last = n == c->most || (c->seconds > 0 && took >= c->seconds);
        if (!last && n < next)
            continue;
        CHECK(sum_up(x, n, c->within, r));
        if (last || (c->within > 0 && r->narrow))
            break;
        next = n + n / 8 + 1;
    }
    bar_step(c->bar);
done:
    if (st != STATUS_OK)
        bar_erase(c->bar);
    free(x);
    return st;
}

enum status harness_wrong(int64_t n, const char *what)
{
    return n == 0 ? STATUS_OK : status_fail(STATUS_MISMATCH, "%lld %s", (long long)n, what);
}

json_t *harness_json(const struct harness_result *r)
{
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:b}", "n", (json_int_t)r->n, "min",
                     r->min, "p5", r->p5, "median", r->median, "p95", r->p95, "low", r->low, "high",
                     r->high, "narrow", r->narrow);
}

void harness_columns(struct bench_table *t, const char *count, const struct harness_result *r)
{
    bool absent = t->absent;
    if (t->format != BENCH_CSV) {
        column_json(t, "seconds", harness_json(r));
        return;
    }
    t->absent = false;
    column_int(t, count, NULL, 0, absent ? 0 : r->n);
    t->absent = absent;
    column_real(t, "median_s", NULL, 0, 0, 1, r->median);
    column_real(t, "p5_s", NULL, 0, 0, 1, r->p5);
    column_real(t, "p95_s", NULL, 0, 0, 1, r->p95);
}
