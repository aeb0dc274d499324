/* Smoothing, thinning and scaling of curves. NaN means "no value" in all functions. */
#pragma once

#include "base/status.h"
#include "results/schema.h"

#include <stdbool.h>
#include <stdint.h>

/* Replaces the values of `x` by their exponential moving average; `past` (0 <= past < 1) is the
 * weight of the earlier values. A NaN stays NaN and does not enter the average.
 *
 * To remove the bias towards 0, the average of the first t values is divided by 1 - past^t (Kingma
 * and Ba, "Adam", 2015, section 3). */
void series_ema(double *x, int64_t n, double past);

/* Return the mean or the median of the finite values among x[i-half .. i+half]; NaN when no value
 * is finite. `scratch` is working memory for 2 * half + 1 elements. */
double series_mean_around(const double *x, int64_t n, int64_t i, int64_t half);
double series_median_around(const double *x, int64_t n, int64_t i, int64_t half, double *scratch);

/* Returns the stride that reduces n elements to at most `most`: every stride-th element is used.
 * The stride is >= 1. */
int64_t series_stride(int64_t n, int64_t most);

/* Returns a round end of an axis: the smallest number >= x of the form f * 10^k, where f is one of
 * 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8. If x is not finite and positive, returns 1. */
double series_ceiling(double x);

/* Sets *out to the q-quantile of the finite values; NaN when no value is finite. */
MUST_CHECK enum status series_quantile(const double *x, int64_t n, double q, double *out);

/* Returns whether something other than training (validation, a checkpoint, a stop) took more than
 * `gap_s` seconds between two steps. Its duration is the time between the ends of the two steps,
 * minus the duration of the later step. */
bool series_gap(const struct step_record *before, const struct step_record *after, double gap_s);
