/* Repeats a measurement until the confidence interval of its median is narrow. */
#include "bench/harness.h"

#include "base/array.h"
#include "base/json.h"
#include "base/stats.h"
#include "comm/world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* --- other work --- */

struct quiet quiet_begin(const struct harness_config *c)
{
    struct quiet q = {.config = c, .left = c->repeats};
    load_open(&q.meter, c->proc, NULL);
    q.begun = load_read(&q.meter);
    return q;
}

static bool share_cores(const struct rank_info *a, const struct rank_info *b)
{
    cpu_set_t both;
    CPU_AND(&both, &a->cores, &b->cores);
    return strcmp(a->host, b->host) == 0 && (CPU_COUNT(&both) > 0 || CPU_COUNT(&a->cores) == 0);
}

/* Adds the processor time of the other processes on this rank's cores. */
static enum status add_own(const struct harness_job *j, double begun_s, double *ended_s)
{
    int n = comm_size(j->comm) / j->threads, me = comm_rank(j->comm) / j->threads;
    double *own;
    TRY(array_new(&own, n));
    own[me] = comm_rank(j->comm) % j->threads == 0 ? *ended_s - begun_s : 0;
    enum status st = comm_sum(j->comm, own, n);
    for (int p = 0; p < n; p++)
        if (p != me && share_cores(&j->process[me], &j->process[p]))
            *ended_s += own[p];
    free(own);
    return st;
}

/* Sets each value to the largest of any rank; NaN if no rank knows it. */
static enum status largest_noise(struct comm *comm, struct host_noise *n)
{
    enum { VALUES = sizeof *n / sizeof(double) };
    double x[VALUES];
    struct comm_op largest = {COMM_ALLREDUCE, COMM_MAX,        DTYPE_F64,      .send = x,
                              .recv = x,      .count = VALUES, .on_host = true};
    memcpy(x, n, sizeof x); /* all members are doubles */
    for (int i = 0; i < VALUES; i++)
        x[i] = isnan(x[i]) ? -1 : x[i];
    TRY(comm_run(comm, &largest));
    for (int i = 0; i < VALUES; i++)
        x[i] = x[i] < 0 ? NAN : x[i];
    memcpy(n, x, sizeof x);
    return STATUS_OK;
}

enum status quiet_end(struct quiet *q, struct host_noise *noise)
{
    const struct harness_job *j = q->config->job;
    struct load ended = load_read(&q->meter);
    char why[NOISE_TEXT_MAX];
    if (j)
        TRY(add_own(j, q->begun.own_s, &ended.own_s));
    *noise = load_between(&q->begun, &ended);
    if (j)
        TRY(largest_noise(j->comm, noise));
    q->again = q->left-- > 0 && host_noise_judge(noise, why);
    q->begun = load_read(&q->meter);
    return STATUS_OK;
}

/* --- samples --- */

enum status harness_run(const struct harness_config *c,
                        enum status (*sample)(void *context, double *seconds), void *context,
                        struct harness_result *r)
{
    enum status st = STATUS_OK;
    struct quiet q = quiet_begin(c);
    double *x;
    TRY(array_new(&x, c->most));
    do {
        double ignored, took = 0;
        int next = 6; /* number of samples at which the interval is computed next; sorting after
                       * every sample would be too slow */
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
        CHECK(quiet_end(&q, &r->noise));
    } while (q.again);
    bar_step(c->bar);
done:
    if (st != STATUS_OK)
        bar_erase(c->bar);
    free(x);
    return st;
}

enum status harness_least(int n, enum status (*sample)(void *context, double *seconds),
                          void *context, double *least)
{
    double stable = INFINITY, stable_s = 0, all_s = 0, seconds;
    *least = INFINITY;
    for (int i = 1, last = 0; i <= n || !(stable_s >= 0.5 || i - last > 10000 || all_s >= 5); i++) {
        TRY(sample(context, &seconds));
        *least = fmin(*least, seconds);
        all_s += seconds;
        stable_s += seconds;
        if (*least < 0.99 * stable) {
            stable = *least;
            stable_s = 0;
            last = i;
        }
    }
    return STATUS_OK;
}

enum status harness_wrong(int64_t n, const char *what)
{
    return n == 0 ? STATUS_OK : status_fail(STATUS_MISMATCH, "%lld %s", (long long)n, what);
}

json_t *harness_json(const struct harness_result *r)
{
    return json_new("{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:b}", "n", (json_int_t)r->n, "min",
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
