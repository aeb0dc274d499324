/* A store of the results of runs, one JSON line each, in DIR/history.jsonl.
 *
 *   {"record": "history", "schema": 1, "added_s": time of the command that recorded it,
 *    "started_s", "commit", "accepted": whether it may be a base, "disturbed", "end": {"by",
 * "steps", "epochs"}, "fingerprint": {...}, "metrics": {name: number or null}}
 *
 * Whole lines are appended, by one process at a time. A partial last line is ignored, and removed
 * when the next line is appended. Any other invalid line is an error, STATUS_DATA with the number
 * of the line, because a base must not silently lack runs. */
#pragma once

#include "compare/repeats.h"

enum { HISTORY_MAX = 100000 }; /* lines */

struct history_entry {
    struct repeat repeat; /* .dir is NULL */
    double added_s;       /* seconds since 1970; equal for runs that were recorded together */
    int64_t line;         /* its place in the file */
    bool accepted;
};

struct history {
    int64_t n;
    struct history_entry *entry; /* (n) in the order of recording */
    bool unordered;              /* the lines were not in this order, as after a merge of files */
    int64_t repeated;            /* lines left out, because others have the same run */
};

/* Reads the history in `dir`. STATUS_DATA if it is damaged, or if there is none; but if it `begins`
 * now, none is an empty one. */
MUST_CHECK enum status history_load(const char *dir, bool begins, struct history *h);
void history_free(struct history *h); /* does nothing for a zeroed struct */

/* Appends the runs to the history in `dir`, which is created if missing. Runs that the history
 * already has (repeat_same) are skipped. */
MUST_CHECK enum status history_append(const char *dir, const struct repeats *runs, bool accepted);
