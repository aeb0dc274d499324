/* Summarises one metric over the nodes of a fleet, and judges a value. */
#include "accept/fleet.h"
#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIGMAS      3.5 /* distance of an outlier from the median, in units of the spread */
#define MAD_SIGMA   1.4826
#define LEAST_SHARE 0.01 /* lowest bound for WARN that the spread may set */
#define MOST_WIDER  2    /* highest bound for FAIL that the spread may set, in units of `fail` */

/* Median and spread of ascending values. */
static enum status centre_of(const double *sorted, int64_t n, double *median, double *spread)
{
    struct stats s;
    TRY(stats_of(sorted, n, &s));
    *median = s.median;
    *spread = MAD_SIGMA * s.mad;
    return STATUS_OK;
}

static double share_of(double difference, double reference)
{
    if (reference != 0)
        return difference / fabs(reference);
    return difference == 0 ? 0 : copysign(INFINITY, difference);
}

/* The index at which the high part of ascending values begins; 0: the values do not fall into two
 * parts (fleet.h). */
static int64_t split_of(const double *sorted, int64_t n, double gap)
{
    int64_t least = n / 4 > 2 ? n / 4 : 2, at = 0;
    double widest = gap;
    for (int64_t i = least; i <= n - least; i++) {
        double between = share_of(sorted[i] - sorted[i - 1], sorted[i]);
        if (between > widest) {
            widest = between;
            at = i;
        }
    }
    return at;
}

static enum status sample_sorted(const double *x, int64_t n, enum accept_better better,
                                 struct fleet_bounds bounds, struct fleet_sample *out)
{
    double low_spread, high_spread;
    *out = (struct fleet_sample){.n = n};
    TRY(centre_of(x, n, &out->median, &out->spread));
    out->reference = out->median;
    out->scatter = out->spread;
    int64_t at = split_of(x, n, bounds.fail);
    if (at > 0) {
        out->split = true;
        out->n_low = at;
        out->n_high = n - at;
        TRY(centre_of(x, at, &out->low, &low_spread));
        TRY(centre_of(x + at, n - at, &out->high, &high_spread));
        /* If there are two parts, the reference is the median of the better part. For ACCEPT_EVEN
         * it is the median of the larger part, or of the high part if both parts have the same
         * size. */
        bool upper = better == ACCEPT_EVEN ? out->n_high >= out->n_low : better == ACCEPT_HIGHER;
        out->reference = upper ? out->high : out->low;
        out->scatter = upper ? high_spread : low_spread;
    }
    double far = SIGMAS * share_of(out->scatter, out->reference);
    out->bounds = bounds;
    if (out->n < FLEET_SPREAD)
        return STATUS_OK;
    out->bounds.fail = fmax(bounds.fail, fmin(far, MOST_WIDER * bounds.fail));
    out->bounds.warn = fmin(bounds.warn, fmax(far, LEAST_SHARE));
    return STATUS_OK;
}

enum status fleet_sample_of(const double *x, int64_t n, enum accept_better better,
                            struct fleet_bounds bounds, struct fleet_sample *out)
{
    if (n < 1)
        return status_fail(STATUS_INVALID, "a fleet of %lld values", (long long)n);
    double *sorted;
    TRY(array_new(&sorted, n));
    memcpy(sorted, x, (size_t)n * sizeof *sorted);
    stats_sort(sorted, n);
    enum status st = sample_sorted(sorted, n, better, bounds, out);
    free(sorted);
    return st;
}

enum verdict fleet_verdict(const struct fleet_sample *s, enum accept_better better, double value,
                           double *loss)
{
    *loss = share_of(value - s->reference, s->reference);
    if (better == ACCEPT_HIGHER)
        *loss = -*loss;
    else if (better == ACCEPT_EVEN)
        *loss = fabs(*loss);
    if (*loss > s->bounds.fail)
        return VERDICT_FAIL;
    return *loss > s->bounds.warn || *loss < -s->bounds.fail ? VERDICT_WARN : VERDICT_PASS;
}

enum accept_better fleet_better(const char *metric)
{
    /* The first entry whose `part` occurs in the metric's name says which values are better. */
    static const struct {
        const char *part;
        enum accept_better better;
    } parts[] = {
        {"throughput", ACCEPT_HIGHER}, {"bandwidth", ACCEPT_HIGHER}, {"busbw", ACCEPT_HIGHER},
        {"algbw", ACCEPT_HIGHER},      {"flops", ACCEPT_HIGHER},     {"_per_s", ACCEPT_HIGHER},
        {"_bw", ACCEPT_HIGHER},        {"iops", ACCEPT_HIGHER},      {"time", ACCEPT_LOWER},
        {"latency", ACCEPT_LOWER},     {"seconds", ACCEPT_LOWER},    {"_ms", ACCEPT_LOWER},
        {"_us", ACCEPT_LOWER},         {"error", ACCEPT_LOWER},      {"wrong", ACCEPT_LOWER},
    };
    const char *last = strrchr(metric, '/');
    const char *name = last ? last + 1 : metric;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcasestr(name, parts[i].part))
            return parts[i].better;
    return ACCEPT_EVEN;
}
