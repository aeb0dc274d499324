/* A store of results: what became of runs, one JSON line each, in DIR/history.jsonl.
 *
 *   {"record": "history", "schema": 1, "added_s": of the call that recorded it, "started_s",
 *    "commit", "accepted": whether it may be a base, "end": {"by", "steps", "epochs"},
 *    "fingerprint": {...}, "metrics": {name: number or null}}
 *
 * Lines are only ever added, whole ones, by one process at a time. A torn last line is ignored, and
 * cut off by who adds the next; any other line that is not as above is STATUS_DATA with its number:
 * a base with holes that nobody knows of would be none. */
#ifndef COMPARE_HISTORY_H
#define COMPARE_HISTORY_H

#include "compare/repeats.h"

enum { HISTORY_MAX = 100000 }; /* lines */

struct history_entry {
    struct repeat repeat; /* .dir is NULL */
    double added_s;       /* since 1970; the same for runs that were recorded together */
    bool accepted;
};

struct history {
    int64_t n, capacity;
    struct history_entry *entry; /* (n) in the order in which they were added */
};

/* Whether there is a history in `dir`. */
bool history_exists(const char *dir);

/* STATUS_DATA for a folder without a history, and for a damaged one. */
MUST_CHECK enum status history_load(const char *dir, struct history *h);
void history_free(struct history *h); /* fine on a zeroed struct */

/* Adds the runs to the history in `dir`, which is made if need be; not those that it has already,
 * by the time at which they started. */
MUST_CHECK enum status history_append(const char *dir, const struct repeats *runs, bool accepted);

/* Which entries are a base: the last `most` accepted ones that agree with `fingerprint`, but for
 * the fields `allowed` (fingerprint.h), and are none of the runs `without`. */
struct history_choice {
    json_t *fingerprint;
    char *const *allowed; /* (n_allowed) */
    int n_allowed;
    const struct repeats *without; /* (n_without) */
    int n_without;
    int64_t most;
};

/* Adds copies of these to `base`. */
MUST_CHECK enum status history_base(const struct history *h, const struct history_choice *c,
                                    struct repeats *base);
#endif
