/* Ranges and ticks of the axes in figures of scaling. Internal to plots/. */
#pragma once

#include "plots/study_line.h"

#include <stdio.h>

enum axis_scale {
    AXIS_PERCENT,   /* linear, spans at least 5 percentage points, has no tick beyond 100 */
    AXIS_FROM_ZERO, /* linear, from 0 */
    AXIS_LOG,
    AXIS_POWERS, /* logarithmic, with ticks at powers of 2 if there are enough of these */
};

struct axis {
    enum quantity quantity; /* QUANTITY_NONE: no such axis */
    const char *label;
    enum axis_scale scale;
};

/* The smallest and the largest of some numbers; {INFINITY, -INFINITY} if there are no numbers. */
struct range {
    double low, high;
};

/* Returns the range of a quantity over the lines that are drawn, with their error bars and their
 * ideal values. Sets *bars to true if a value has an error bar; otherwise leaves it unchanged. */
struct range axis_range(const struct study_lines *l, const bool *drawn, enum quantity q,
                        bool *bars);

enum { AXIS_TICKS_MAX = 20 };

/* Sets tick[] to round numbers within low..high, ascending; 0 < low < high. They are about evenly
 * spaced on a logarithmic axis. Returns the number of ticks: at least 3 if high >= 2 * low, but 0
 * if there would be more than AXIS_TICKS_MAX. */
int axis_log_ticks(double low, double high, bool powers_of_2, double tick[AXIS_TICKS_MAX]);

/* Writes the settings y_low1, y_high1, y_log1, y_ticks1 and y_label1 for axis 0; for axis 1 the
 * names end in 2. If y_ticks1 is '', gnuplot chooses the ticks. */
void axis_set(FILE *vars, const struct axis *a, int number, struct range r);

/* Writes the settings x_low, x_high, and ticks = "'1' 1, '2' 2". The ticks are the measured numbers
 * of devices, as many as fit. `narrow`: the axis is half as wide as the figure. */
MUST_CHECK enum status axis_devices_set(FILE *vars, const struct study_lines *l, const bool *drawn,
                                        bool narrow);

/* Writes x_low, x_high and ticks for an axis of epochs, and mark_every: a point of a curve is
 * marked for every so many epochs. */
void axis_epochs_set(FILE *vars, const struct study_lines *l, const bool *drawn);
