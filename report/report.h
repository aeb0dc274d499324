/* Reports of records: RESULTS.md and an HTML page.
 *
 * All numbers and findings come from the records; the same records give the same bytes. */
#pragma once

#include "base/status.h"
#include "plots/plot.h"

#include <stdbool.h>
#include <stdio.h>

struct report_config {
    int n;
    const char *const *dir; /* (n) folders with records. The document's links to files below its own
                             * folder are relative to that folder; other links begin with `dir` as
                             * given */
    const char *markdown;   /* file to write; NULL: none */
    const char *html;       /* file to write, with the pictures in it; NULL: none */
    bool draw;              /* first draw the figures of each record as PNG, SVG and PDF, into a
                             * folder next to the record */
    struct plot_size size;  /* size of the figures that `draw` requests */
    FILE *said; /* stream for a line per failed figure and per damaged record; NULL: none */
};

/* Writes each document completely or not at all. STATUS_DATA if the folders have no record. Also
 * STATUS_DATA if some records are damaged: the documents then list the damaged records, and contain
 * all other records. */
MUST_CHECK enum status report_make(const struct report_config *c);
