/* Steps in what a history tells of a configuration: when its speed changed for good, and by how
 * much.
 *
 * A series is cut where the values before and behind differ most by their ranks: the largest
 * standardised Mann-Whitney statistic over all places (Pettitt, "A non-parametric approach to the
 * change-point problem", 1979, with the variance of each place). How often shuffled values have one
 * as large is its p; where that is below alpha the parts are searched in turn, as Matteson and
 * James do in "A nonparametric approach for multiple change point analysis of multivariate data",
 * 2014. */
#ifndef COMPARE_TREND_H
#define COMPARE_TREND_H

#include "compare/history.h"

#include <stdio.h>

enum {
    TREND_SHUFFLES = 999,
    TREND_LEAST = 5, /* points before a step, and behind it */
    TREND_NAME_SIZE = 160,
};

struct trend_step {
    int64_t at;       /* the first point behind it */
    double ratio;     /* of the medians up to the next steps, behind by before; of none, infinite */
    double low, high; /* its 95 % bootstrap interval; NAN where a value before is not above 0 */
    double p;
};

/* Finds the steps in x[0..n) that are larger than `threshold`, a share, ascending; `step` has room
 * for n. A pure function of its arguments. */
MUST_CHECK enum status trend_find(const double *x, int64_t n, double alpha, double threshold,
                                  struct trend_step *step, int64_t *n_steps);

/* Runs that were recorded together are one point. */
struct trend_point {
    double value;  /* their median */
    double time_s; /* when the first began, since 1970; else when they were recorded */
    int64_t runs;
    bool accepted;
    const char *commit; /* in the history; "": not known */
};

struct trend_series {
    char name[TREND_NAME_SIZE]; /* of the configuration, with what tells it apart from others:
                                 * "resnet18 fp32 nd (batch_size 32)" */
    enum metric_id metric;
    int64_t n;
    struct trend_point *point; /* (n) as recorded */
    int64_t n_steps;
    struct trend_step *step; /* (n_steps) */
};

struct trend {
    double alpha, threshold;
    int64_t n;
    struct trend_series *series; /* (n) by configuration, then by metric */
};

/* Each configuration and hardware of the history is a series for each metric that is `wanted` and
 * known of it. The caller frees with trend_free, before the history. */
MUST_CHECK enum status trend_of(const struct history *h, const bool wanted[METRICS], double alpha,
                                double threshold, struct trend *out);
void trend_free(struct trend *t); /* fine on a zeroed struct */

/* Whether a step is one for the worse. */
bool trend_worse(const struct trend_series *s, const struct trend_step *step);

/* A line a series and step. */
void trend_print(const struct trend *t, FILE *out);

/* {"record": "trend", "schema": 1, "alpha", "threshold", "series": [{"name", "metric", "unit",
 * "better": "higher" or "lower", "points": [{"time_s", "commit", "value", "runs", "accepted"}],
 * "steps": [{"point", "time_s", "commit", "ratio", "low", "high", "p", "worse"}]}]} as a whole
 * file; points are counted from 0; a number that is infinite or not known is null. */
enum { TREND_SCHEMA = 1 };
MUST_CHECK enum status trend_write(const struct trend *t, const char *path);
#endif
