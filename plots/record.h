/* Drawing a record of which only the file is known. */
#ifndef PLOTS_RECORD_H
#define PLOTS_RECORD_H

#include "plots/plot.h"

/* Draws the record in the file `path` into the folder `out`, as what it says it is: one of `bench
 * overlap` (plots/overlap.h) or of `predict` (plots/forecast.h). STATUS_DATA for any other. */
MUST_CHECK enum status plot_record(const char *path, const char *out,
                                   const struct plot_options *options);
#endif
