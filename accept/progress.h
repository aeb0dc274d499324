/* Inside accept/: telling how far a battery is. */
#ifndef ACCEPT_PROGRESS_H
#define ACCEPT_PROGRESS_H

#include "accept/result.h"

struct accept_progress {
    FILE *out; /* NULL: silent */
    bool terminal;
    int done, total; /* checks */
};

struct accept_progress accept_progress_begin(FILE *out, int total);
void accept_progress_start(const struct accept_progress *p, const struct accept_check *check,
                           int repeat);
void accept_progress_end(struct accept_progress *p, const struct accept_result *r);

#endif
