/* Change points in the history of a configuration: when its speed changed permanently, and by how
 * much.
 *
 * A series is cut at one point, or at two points at once, so that the values of the cut part differ
 * most from the other values. Two cuts find a change that was taken back, which moves no single cut
 * far enough. The method is circular binary segmentation (Olshen and others, "Circular binary
 * segmentation for the analysis of array-based DNA copy number data", 2004), with limited values
 * and a coarser grid for long parts. p is the fraction of shuffled series whose statistic is at
 * least as large. If p is below alpha, all parts are then searched in the same way. If neighbouring
 * points are correlated, the statistic must be larger by the variance that this adds. */
#pragma once

#include "compare/history.h"

#include <stdio.h>

enum {
    TREND_SHUFFLES = 999,
    TREND_SURE = 5,  /* number of points before and after a step that every step may need */
    TREND_LEAST = 3, /* the same for a step that is large compared with the noise */
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
    bool taken_back; /* the level after the last step does not differ from the level before this
                      * step in the same direction by more than the threshold */
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
    struct trend_point *point; /* (n) in the order of time_s */
    int64_t n_steps;
    struct trend_step *step; /* (n_steps) */
};

enum { TREND_POINTS_MAX = 5000 }; /* more points would take more than some seconds */

struct trend_config {
    bool wanted[METRICS];
    double alpha, threshold;
    const char *const *allowed; /* (n_allowed) fields that may differ within a series */
    int n_allowed;
    int64_t last; /* number of points of each series that are examined, at most TREND_POINTS_MAX */
};

struct trend {
    double alpha, threshold;
    bool worse; /* a series has a step for the worse that was not taken back */
    int64_t n;
    struct trend_series *series; /* (n) sorted by configuration, then by metric */
};

/* Makes a series for each configuration and hardware of the history, and for each metric that is
 * wanted and recorded. The caller frees the result with trend_free before it frees the history. */
MUST_CHECK enum status trend_of(const struct history *h, const struct trend_config *c,
                                struct trend *out);
void trend_free(struct trend *t); /* does nothing for a zeroed struct */

/* Prints a line for each series and each step. */
void trend_print(const struct trend *t, FILE *out);

/* Returns a new object, to print or write as JSON_EXACT: {"record":
 * "trend", "schema": 1, "alpha", "threshold", "series": [{"name", "metric", "unit", "better":
 * "higher" or "lower", "points": [{"time_s", "commit", "value", "runs", "accepted"}], "steps":
 * [{"point", "time_s", "commit", "ratio", "low", "high", "p", "worse", "taken_back"}]}]}. Points
 * are counted from 0. A number that is infinite or not known is null. */
enum { TREND_SCHEMA = 1 };
json_t *trend_json(const struct trend *t);
