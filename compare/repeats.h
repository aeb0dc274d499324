/* The repeats of one configuration, read from run folders. */
#ifndef COMPARE_REPEATS_H
#define COMPARE_REPEATS_H

#include "compare/metric.h"

enum { REPEATS_MAX = 1000, REPEATS_CELLS_MAX = 4096, REPEATS_PATH_SIZE = 4096 };

/* How a run ended. Accuracies of runs that ended otherwise say nothing of each other. */
struct run_end {
    char by[32]; /* "epochs", "steps", "desired accuracy"; "" where the record does not say */
    int64_t steps, epochs;
};

struct repeat {
    char *dir;           /* NULL: of a history */
    json_t *fingerprint; /* fingerprint.h */
    struct run_end end;
    double started_s;      /* since 1970; NAN: the record does not say */
    char commit[64];       /* of the program, fit to be shown; "": the record does not say */
    double value[METRICS]; /* NAN: not known */
};

/* Runs that ended in order, and how many there are that did not, or whose record is damaged. */
struct repeats {
    int64_t n, capacity;
    struct repeat *repeat;
    int64_t unfinished;
    char example[256]; /* one of those, fit to be shown */
    int64_t damaged;
    char damage[256]; /* what is wrong with the first of those, fit to be shown */
};

/* Names of folders, ascending. */
struct cell_names {
    int n;
    char **name;
};

/* Whether `dir` is the folder of a study: it has cells. */
bool repeats_is_study(const char *dir);

/* The cells of a study; STATUS_DATA when there is none, or too many. */
MUST_CHECK enum status repeats_cells(const char *study, struct cell_names *cells);
void cell_names_free(struct cell_names *names); /* fine on a zeroed struct */

/* Adds the run in `dir`, or each run in a folder of runs (a study's cell is one). A run that has
 * failed without a folder left ("<run>.failed") is unfinished too. Where there is none, none is
 * added. STATUS_DATA for a folder that is not there, and for too many. */
MUST_CHECK enum status repeats_add(const char *dir, struct repeats *r);

/* Whether they are one run, recorded or read again: two of a configuration do not begin in the same
 * nanosecond. */
bool repeat_same(const struct repeat *a, const struct repeat *b);

/* Adds a copy of a repeat, which needs no folder. */
MUST_CHECK enum status repeats_copy(const struct repeat *from, struct repeats *r);
void repeats_free(struct repeats *r); /* fine on a zeroed struct */

/* Whether the two sides took turns: they have as many runs, and of all runs in the order in which
 * they began, each two, from the first on, are one of either side. Such runs are sorted by their
 * beginnings, so that the i-th of one side is the neighbour in time of the i-th of the other. */
bool repeats_take_turns(struct repeats *a, struct repeats *b);
#endif
