/* Figures of single records: a record is one JSON object in a file, drawn as one figure. Internal
 * to plots/. */
#pragma once

#include "plots/figure.h"

/* Maximum number of curves of a trend. The series of the record are sorted by configuration; only
 * the first RECORD_CURVES_MAX series are drawn. */
enum { RECORD_CURVES_MAX = 6 };

struct record_figure {
    struct figure figure;
    const char *key, *kind; /* the figure is for records in which the member named `key` has the
                             * value `kind` */
    /* Sets the labels of the curves and their number d->n, at most RECORD_CURVES_MAX. May also set
     * d->title. */
    enum status (*describe)(struct drawing *d);
};

/* Defines the figure named `n`, for records in which the member named `key_text` has the value
 * `kind_text`. */
#define RECORD_FIGURE(n, title_text, key_text, kind_text)                                          \
    {                                                                                              \
        .figure = {.name = #n, .title = title_text, .script = plot_##n, .prepare = figure_##n},    \
        .key = key_text, .kind = kind_text, .describe = describe_##n                               \
    }

extern const struct record_figure amp_figure, forecast_figure, overlap_figure, trend_figure;

/* Fails with STATUS_DATA; the message names the missing or invalid member `key`. */
MUST_CHECK enum status record_damaged(const char *key);

/* Reads a member whose value is a number; the value must be within min..max. */
MUST_CHECK enum status record_number(const json_t *object, const char *key, double min, double max,
                                     double *out);
