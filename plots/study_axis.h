/* Axes of figures of scaling: what they span, and their ticks. For plots/ alone. */
#ifndef PLOTS_STUDY_AXIS_H
#define PLOTS_STUDY_AXIS_H

#include "plots/study_line.h"

#include <stdio.h>

enum axis_scale {
    AXIS_PERCENT,   /* linear, a few points at least, and no tick beyond 100 */
    AXIS_FROM_ZERO, /* linear as well */
    AXIS_LOG,
    AXIS_POWERS, /* logarithmic, with ticks at powers of 2 where these suffice */
};

struct axis {
    enum quantity quantity; /* QUANTITY_NONE: there is no such axis */
    const char *label;
    enum axis_scale scale;
};

/* The nearest and the furthest of some numbers; {INFINITY, -INFINITY} of none. */
struct range {
    double low, high;
};

/* Of a quantity of the lines that are drawn, with bars and ideals; *bars becomes true where some
 * value has a bar. */
struct range axis_range(const struct study_lines *l, const bool *drawn, enum quantity q,
                        bool *bars);

enum { AXIS_TICKS_MAX = 20 };

/* Round numbers within low..high (0 < low < high) that are about evenly spaced on a logarithmic
 * axis: 3 or more wherever high is at least 2 * low; 0 when there would be more than
 * AXIS_TICKS_MAX. Ascending; returns how many. */
int axis_log_ticks(double low, double high, bool powers_of_2, double tick[AXIS_TICKS_MAX]);

/* Settings y_low1, y_high1, y_log1, y_ticks1 ('': those that gnuplot chooses) and y_label1, for
 * axis 0; with 2 for axis 1. */
void axis_set(FILE *vars, const struct axis *a, int number, struct range r);

/* Settings x_low, x_high, and ticks = "'1' 1, '2' 2": numbers of devices that were measured, as
 * far as there is room for them; `narrow`: the axis is half as wide as the figure. */
MUST_CHECK enum status axis_devices_set(FILE *vars, const struct study_lines *l, const bool *drawn,
                                        bool narrow);

#endif
