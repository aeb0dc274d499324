/* Chooses ranges and ticks of the axes in figures of scaling. */
#include "plots/study_axis.h"

#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

static void range_take(struct range *r, double x)
{
    if (!isfinite(x))
        return;
    r->low = fmin(r->low, x);
    r->high = fmax(r->high, x);
}

struct range axis_range(const struct study_lines *l, const bool *drawn, enum quantity q, bool *bars)
{
    struct range r = {.low = INFINITY, .high = -INFINITY};
    for (int i = 0; i < l->n; i++) {
        for (int k = 0; drawn[i] && k < l->line[i].n; k++) {
            const struct study_value *v = &l->line[i].point[k].value[q];
            range_take(&r, v->mid);
            range_take(&r, v->low);
            range_take(&r, v->high);
            *bars = *bars || isfinite(v->high);
            range_take(&r, isfinite(v->mid) ? v->ideal : NAN);
        }
    }
    return r;
}

/* A set of ticks: each power of `base`, multiplied by each of rung[0..n). */
struct ladder {
    double base;
    int n;
    double rung[16];
};

enum { POWERS_OF_2, FIRST_DECIMAL, FEW_TICKS = 3 };

/* The sets of ticks, from coarse to fine, except the last set. It is coarser than all others, and
 * is for axes on which FIRST_DECIMAL has too many ticks. */
static const struct ladder ladders[] = {
    [POWERS_OF_2] = {2, 1, {1}},
    [FIRST_DECIMAL] = {10, 3, {1, 2, 5}},
    {10, 8, {1, 1.5, 2, 3, 4, 5, 6, 8}},
    {10, 16, {1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9}},
    {10, 1, {1}},
};
enum { N_LADDERS = sizeof ladders / sizeof *ladders };

/* Computes a ladder's ticks from low to high. Returns their number; 0 if there are too few or too
 * many. */
static int ladder_ticks(const struct ladder *l, double low, double high,
                        double tick[AXIS_TICKS_MAX])
{
    int n = 0, last = (int)ceil(log(high) / log(l->base));
    for (int e = (int)floor(log(low) / log(l->base)) - 1; e <= last; e++) {
        for (int k = 0; k < l->n; k++) {
            double x = l->rung[k] * pow(l->base, e);
            if (x < low || x > high)
                continue;
            if (n == AXIS_TICKS_MAX)
                return 0;
            tick[n++] = x;
        }
    }
    return n < FEW_TICKS ? 0 : n;
}

int axis_log_ticks(double low, double high, bool powers_of_2, double tick[AXIS_TICKS_MAX])
{
    int n = 0;
    for (int i = powers_of_2 ? POWERS_OF_2 : FIRST_DECIMAL; n == 0 && i < N_LADDERS; i++)
        n = ladder_ticks(&ladders[i], low, high, tick);
    return n;
}

/* Computes ticks at multiples of 1, 2 or 5 times a power of 10. There are at most 7 ticks, because
 * panels are not tall. */
static int linear_ticks(double low, double high, double tick[AXIS_TICKS_MAX])
{
    static const double nice[] = {1, 2, 5, 10};
    const int most = 7;
    double least = (high - low) / most, power = pow(10, floor(log10(least)));
    int n = 0, k = 0;
    while (nice[k] * power < least && nice[k] < 10)
        k++;
    for (double i = ceil(low / (nice[k] * power)); n <= most; i++) {
        if (i * nice[k] * power > high)
            break;
        tick[n++] = i * nice[k] * power;
    }
    return n;
}

/* The smallest range of a percent axis, in percentage points. A finer scale would only enlarge
 * differences that do not matter. */
#define PERCENT_LEAST 5.0

/* Returns the range of the axis: the range of the values and a margin. */
static struct range shown_of(enum axis_scale scale, bool is_log, struct range r)
{
    double margin = fmax(0.08 * (r.high - r.low), 0.02 * r.high);
    if (!isfinite(r.high) || r.high <= 0)
        return (struct range){0, 1};
    if (is_log)
        return (struct range){r.low / 1.4, r.high * 1.4};
    double low = fmin(r.low - margin, r.high - PERCENT_LEAST);
    return (struct range){scale == AXIS_FROM_ZERO ? 0 : fmax(0, low), r.high + margin};
}

void axis_set(FILE *vars, const struct axis *a, int number, struct range r)
{
    static const char *const names[2][4] = {{"y_low1", "y_high1", "y_log1", "y_label1"},
                                            {"y_low2", "y_high2", "y_log2", "y_label2"}};
    double tick[AXIS_TICKS_MAX];
    bool is_log = (a->scale == AXIS_LOG || a->scale == AXIS_POWERS) && r.low > 0;
    r = shown_of(a->scale, is_log, r);
    is_log = is_log && r.low > 0;
    int n = is_log
                ? axis_log_ticks(r.low, r.high, a->scale == AXIS_POWERS, tick)
                : linear_ticks(r.low, a->scale == AXIS_PERCENT ? fmin(r.high, 100) : r.high, tick);
    figure_set(vars, names[number][0], r.low);
    figure_set(vars, names[number][1], r.high);
    figure_set(vars, names[number][2], is_log);
    figure_set_text(vars, names[number][3], a->label ? a->label : "");
    fprintf(vars, "y_ticks%d = '", number + 1);
    for (int i = 0; i < n; i++)
        fprintf(vars, "%s%.9g", i > 0 ? ", " : "", tick[i]);
    fputs("'\n", vars);
}

enum status axis_devices_set(FILE *vars, const struct study_lines *l, const bool *drawn,
                             bool narrow)
{
    int n = 0, most = 0, written = 0;
    for (int i = 0; i < l->n; i++)
        most += drawn[i] ? l->line[i].n : 0;
    double *x, last = 0;
    TRY(array_new(&x, most));
    for (int i = 0; i < l->n; i++)
        for (int k = 0; drawn[i] && k < l->line[i].n; k++)
            x[n++] = l->line[i].point[k].x;
    stats_sort(x, n);
    double low = n > 0 ? x[0] / 1.25 : 1, high = n > 0 ? x[n - 1] * 1.25 : 2;
    /* If the ratio of two ticks is below this factor, their numbers overlap. */
    double distance = pow(high / low, narrow ? 0.075 : 0.035);
    fputs("ticks = \"", vars);
    for (int i = 0; i < n; i++) {
        if (x[i] <= last || x[i] < distance * last)
            continue;
        fprintf(vars, "%s'%.0f' %.0f", written++ > 0 ? ", " : "", x[i], x[i]);
        last = x[i];
    }
    fputs("\"\n", vars);
    figure_set(vars, "x_low", low);
    figure_set(vars, "x_high", high);
    free(x);
    return STATUS_OK;
}

void axis_epochs_set(FILE *vars, const struct study_lines *l, const bool *drawn)
{
    double last = 1;
    for (int i = 0; i < l->n; i++)
        if (drawn[i] && l->line[i].n > 0)
            last = fmax(last, l->line[i].point[l->line[i].n - 1].x);
    figure_set(vars, "x_low", 0.5);
    figure_set(vars, "x_high", last + fmax(0.5, 0.02 * last));
    figure_set(vars, "mark_every", 1 + floor(last / 12));
}
