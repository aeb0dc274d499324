/* Change points in the history of a configuration: when its speed changed permanently, and by how
 * much.
 *
 * A series is cut at the point with the largest standardised Mann-Whitney statistic: the values
 * before and after that point differ most by their ranks. The method is from Pettitt, "A
 * non-parametric approach to the change-point problem", 1979, except that the statistic of each
 * point is standardised by the variance of that statistic. p is the fraction of shuffled series
 * whose largest statistic is at least as large as the largest statistic of the series itself. If p
 * is below alpha, both parts are then searched in the same way, as Matteson and James do in "A
 * nonparametric approach for multiple change point analysis of multivariate data", 2014. */
#pragma once

#include "compare/history.h"

#include <stdio.h>

enum {
    TREND_SHUFFLES = 999,
    TREND_LEAST = 5, /* least number of points before and after a step */
    TREND_NAME_SIZE = 160,
};

struct trend_step {
    int64_t at;       /* index of the first point after the step */
    double ratio;     /* median of the points from this step to the next step, divided by the
                       * median of the points from the previous step to this step; infinite if the
                       * divisor is 0 */
    double low, high; /* 95 % bootstrap interval of the ratio; NAN if a value before the step is not
                       * above 0 */
    double p;
};

/* Finds the steps in x[0..n) whose relative change is larger than `threshold`, and writes them to
 * `step` (n) in ascending order. The result depends only on the arguments. */
MUST_CHECK enum status trend_find(const double *x, int64_t n, double alpha, double threshold,
                                  struct trend_step *step, int64_t *n_steps);

/* A point of a series. Runs that were recorded together are one point. */
struct trend_point {
    double value;  /* median of the runs */
    double time_s; /* seconds since 1970: the start of the first run, or the time of its recording
                    * if the start is not known */
    int64_t runs;
    bool accepted;
    const char *commit; /* belongs to the history; "": not known */
};

struct trend_series {
    char name[TREND_NAME_SIZE]; /* name of the configuration, with the fields that distinguish it:
                                 * "resnet18 fp32 nd (batch_size 32)" */
    enum metric_id metric;
    int64_t n;
    struct trend_point *point; /* (n) in the order of recording */
    int64_t n_steps;
    struct trend_step *step; /* (n_steps) */
};

struct trend {
    double alpha, threshold;
    int64_t n;
    struct trend_series *series; /* (n) sorted by configuration, then by metric */
};

/* Makes a series for each configuration and hardware of the history, and for each metric that is
 * `wanted` and recorded. The caller frees the result with trend_free before it frees the
 * history. */
MUST_CHECK enum status trend_of(const struct history *h, const bool wanted[METRICS], double alpha,
                                double threshold, struct trend *out);
void trend_free(struct trend *t); /* does nothing for a zeroed struct */

/* Prints a line for each series and each step. */
void trend_print(const struct trend *t, FILE *out);

/* Writes a file, completely or not at all: {"record": "trend", "schema": 1, "alpha", "threshold",
 * "series": [{"name", "metric", "unit", "better": "higher" or "lower", "points": [{"time_s",
 * "commit", "value", "runs", "accepted"}], "steps": [{"point", "time_s", "commit", "ratio", "low",
 * "high", "p", "worse"}]}]}. Points are counted from 0. A number that is infinite or not known is
 * null. */
enum { TREND_SCHEMA = 1 };
MUST_CHECK enum status trend_write(const struct trend *t, const char *path);
MUST_CHECK enum status trend_print_json(const struct trend *t, FILE *out);
