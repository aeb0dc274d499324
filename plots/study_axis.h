/* Ranges and ticks of the axes in figures of scaling. Internal to plots/. */
#pragma once

#include "plots/study_line.h"

#include <stdio.h>

enum axis_scale {
    AXIS_PERCENT,   /* linear, at least 5 percentage points, no tick beyond 100 */
    AXIS_FROM_ZERO, /* linear, from 0 */
    AXIS_LOG,
    AXIS_POWERS, /* logarithmic, with ticks at powers of 2 where these suffice */
};

struct axis {
    enum quantity quantity; /* QUANTITY_NONE: no such axis */
    const char *label;
    enum axis_scale scale;
};

/* The least and the greatest of some numbers; {INFINITY, -INFINITY} for none. */
struct range {
    double low, high;
};

/* Returns the range of a quantity over the lines that are drawn. The range includes the error bars
 * and the ideal values of those lines. *bars becomes true if a value has an error bar. */
struct range axis_range(const struct study_lines *l, const bool *drawn, enum quantity q,
                        bool *bars);

enum { AXIS_TICKS_MAX = 20 };

/* Sets tick[] to ascending round numbers within low..high (0 < low < high), about evenly spaced on
 * a logarithmic axis. Returns their number: at least 3 if high is at least 2 * low; 0 if there
 * would be more than AXIS_TICKS_MAX. */
int axis_log_ticks(double low, double high, bool powers_of_2, double tick[AXIS_TICKS_MAX]);

/* Writes the settings y_low1, y_high1, y_log1, y_ticks1 ('': gnuplot chooses) and y_label1 for axis
 * 0; for axis 1 the names end in 2. */
void axis_set(FILE *vars, const struct axis *a, int number, struct range r);

/* Writes the settings x_low, x_high, and ticks = "'1' 1, '2' 2": the measured numbers of devices,
 * as many as fit. `narrow` means that the axis is half as wide as the figure. */
MUST_CHECK enum status axis_devices_set(FILE *vars, const struct study_lines *l, const bool *drawn,
                                        bool narrow);
