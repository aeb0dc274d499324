/* Writing what records come to, for people: RESULTS.md and an HTML page.
 *
 * Everything in it comes from the records; nothing is added but words that the program finds for
 * them. The same records give the same bytes. */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>

struct report_config {
    int n;
    const char *const *dir; /* (n) folders with records. Links name what is below the document's own
                             * folder from there, and others as they are here */
    const char *markdown;   /* file to write; NULL: none */
    const char *html;       /* likewise; pictures are in it */
    bool draw;              /* draw the figures of each record first, into folders beside it */
    FILE *said; /* gets a line for what cannot be drawn, and for what is damaged; NULL: none */
};

/* STATUS_DATA when the folders hold no record, and when some are damaged: these are left out, the
 * documents name them, and all else is written. Files are written whole or not at all. */
MUST_CHECK enum status report_make(const struct report_config *c);
#endif
