/* The repeats of one configuration, read from run folders. */
#pragma once

#include "base/words.h"
#include "compare/metric.h"

enum { REPEATS_MAX = 1000, REPEATS_CELLS_MAX = 4096, REPEATS_PATH_SIZE = 4096 };

/* How a run ended. The accuracy of runs is compared only if they ended alike. */
struct run_end {
    char by[32]; /* the reason: "epochs", "steps", "desired accuracy"; "": not recorded */
    int64_t steps, epochs;
};

struct repeat {
    char *dir;           /* NULL if the repeat is from a history */
    uint64_t disk, node; /* device and inode of the folder; 0 if the repeat is from a history */
    json_t *fingerprint; /* fingerprint.h */
    struct run_end end;
    double started_s;      /* seconds since 1970; NAN: not recorded */
    bool disturbed;        /* other work disturbed the run, according to its summary
                            * (results/noise.h) */
    char commit[64];       /* commit of the program, cleaned for display; "": not recorded */
    char host[64];         /* likewise */
    double value[METRICS]; /* NAN: not known */
};

/* Completed runs, and the numbers of runs that are incomplete or whose record is damaged. */
struct repeats {
    int64_t n;
    struct repeat *repeat;
    int64_t unfinished;
    char example[256]; /* name of an incomplete run, cleaned for display */
    int64_t damaged;
    char damage[256]; /* error of the first damaged run, cleaned for display */
};

/* Appends the names of a study's cells in ascending order. STATUS_DATA if there are no cells, or
 * too many. */
MUST_CHECK enum status repeats_cells(const char *study, struct words *cells);

/* Adds the run in `dir`. If `dir` is a folder of runs, such as a cell of a study, adds each run in
 * it; a folder without runs is not an error. A failed run that left only "<run>.failed" counts as
 * unfinished. STATUS_DATA if `dir` does not exist, or if there are too many runs. */
MUST_CHECK enum status repeats_add(const char *dir, struct repeats *r);

/* Whether both are the same run. They are if they have the same folder, or if start time and
 * fingerprint are equal, because two runs of a configuration do not start in the same
 * nanosecond. */
bool repeat_same(const struct repeat *a, const struct repeat *b);

/* Adds a copy of a repeat. The repeat may lack a folder. */
MUST_CHECK enum status repeats_copy(const struct repeat *from, struct repeats *r);
void repeats_free(struct repeats *r); /* does nothing for a zeroed struct */

/* Whether the two sides took turns. They did if both have the same number of runs and if, in the
 * order of start time, runs 1 and 2 belong to different sides, and so do runs 3 and 4, and so on.
 * Sorts both sides by start time, so that the i-th runs of both sides are neighbours in time. */
bool repeats_take_turns(struct repeats *a, struct repeats *b);
