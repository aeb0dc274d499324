/* Reports of records: RESULTS.md and an HTML page.
 *
 * All numbers and findings come from the records. The same records always give the same bytes. */
#pragma once

#include "base/status.h"
#include "plots/plot.h"

#include <stdbool.h>
#include <stdio.h>

struct report_config {
    int n;
    const char *const *dir; /* (n) folders with records. Links to files in the document's folder or
                             * below it are relative to the document's folder; all other links begin
                             * with `dir` as given */
    const char *markdown;   /* file to write; NULL: none */
    const char *html;       /* file to write, which contains the pictures; NULL: none */
    bool output;            /* the user names the files (output_file_open) */
    bool draw;              /* before writing, draw the figures of each record as PNG, SVG and PDF,
                             * into a folder next to the record, or next to the first document if
                             * the record is not in the document's folder or below it */
    struct plot_size size;  /* size of the figures that `draw` requests */
    FILE *said; /* gets a line for each record whose figures were not drawn, and for each damaged
                 * record; NULL: none */
};

/* Writes each document completely or not at all. STATUS_DATA if the folders contain no record.
 * STATUS_DATA also if some records are damaged; the documents then list the damaged records, and
 * contain all other records. */
MUST_CHECK enum status report_make(const struct report_config *c);
