/* What figures of single records share: a record is one JSON object in a file, drawn as one figure.
 * For plots/ alone. */
#ifndef PLOTS_REPORT_H
#define PLOTS_REPORT_H

#include "plots/figure.h"

/* Reads the object in the file `path`, which the caller releases. STATUS_DATA unless its `key` is
 * `kind` and its "schema" is `schema`. */
MUST_CHECK enum status report_load(const char *path, const char *key, const char *kind, int schema,
                                   json_t **report);

/* Whether the object in the file `path` has `kind` as its `key`. */
MUST_CHECK enum status report_is(const char *path, const char *key, const char *kind, bool *is);

/* Draws into the folder `out`; fills in d->data. STATUS_DATA when the figure finds nothing in the
 * report, which came from `path`. */
MUST_CHECK enum status report_draw(struct drawing *d, const struct figure *f, const char *path,
                                   const char *out);

#endif
