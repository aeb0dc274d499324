/* Smooths, thins and scales the values of curves. */
#include "plots/series.h"

#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

void series_ema(double *x, int64_t n, double past)
{
    double sum = 0, weight = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            continue;
        sum = past * sum + (1 - past) * x[i];
        weight = past * weight + (1 - past);
        x[i] = sum / weight;
    }
}

static int64_t window_begin(int64_t i, int64_t half)
{
    return i > half ? i - half : 0;
}

static int64_t window_end(int64_t n, int64_t i, int64_t half)
{
    return i + half < n ? i + half + 1 : n;
}

double series_mean_around(const double *x, int64_t n, int64_t i, int64_t half)
{
    int64_t begin = window_begin(i, half);
    return stats_mean_finite(x + begin, window_end(n, i, half) - begin);
}

double series_median_around(const double *x, int64_t n, int64_t i, int64_t half, double *scratch)
{
    int64_t count = 0;
    for (int64_t k = window_begin(i, half); k < window_end(n, i, half); k++)
        if (isfinite(x[k]))
            scratch[count++] = x[k];
    return count > 0 ? stats_median(scratch, count) : NAN;
}

int64_t series_stride(int64_t n, int64_t most)
{
    return n > most ? (n + most - 1) / most : 1;
}

double series_ceiling(double x)
{
    static const double steps[] = {1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10};
    if (!isfinite(x) || x <= 0)
        return 1;
    double decade = pow(10, floor(log10(x)));
    int i = 0;
    while (i < 10 && steps[i] * decade < x)
        i++;
    return steps[i] * decade;
}

enum status series_quantile(const double *x, int64_t n, double q, double *out)
{
    double *finite;
    TRY(array_new(&finite, n));
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(x[i]))
            finite[count++] = x[i];
    stats_sort(finite, count);
    *out = count ? stats_quantile(finite, count, q) : NAN;
    free(finite);
    return STATUS_OK;
}

bool series_gap(const struct step_record *before, const struct step_record *after, double gap_s)
{
    return after->elapsed - before->elapsed - after->total_s > gap_s;
}
