/* Training runs as child processes, within a budget of time.
 *
 * A crash or a hang of a run is the end of that run alone. Where a run on a GPU fails, crashes or
 * exceeds its limit, it is repeated with less that can fail: the rungs of runners/ladder.h, named
 * on the command line. (`train` itself continues on a lower rung after a failure that it notices;
 * its rung and its falls are taken over from the run's summary.json.) */
#ifndef BENCH_TRAIN_CHILD_H
#define BENCH_TRAIN_CHILD_H

#include "base/process.h"
#include "base/words.h"
#include "results/run.h"
#include "runners/ladder.h"

#include <jansson.h>

/* --- time --- */

struct time_budget {
    double seconds; /* 0: without end */
    uint64_t begun_ns;
};
struct time_budget time_budget_begin(double seconds);

/* Seconds until children have to be gone: INFINITY without end; some are kept for the end of a
 * child that does not react. */
double time_budget_left(const struct time_budget *b);

/* Whole seconds for a child that is started now: 2/5 of the time left, so that no single one takes
 * all of it, and at most `most`. 0: none is left. */
int64_t time_budget_limit(const struct time_budget *b, int64_t most);

/* --- the ladder of a row --- */

/* "auto", "fuse none", "no graph", "fuse none, no graph", by the bits of runners/ladder.h */
const char *train_rung_str(int rung);

enum { TRAIN_WHY_SIZE = 400 };

struct train_fall {
    int rung; /* that failed */
    char why[TRAIN_WHY_SIZE];
};

/* Begins as {0}, or with `fixed`: the arguments name what is computed how, and nothing else may be
 * run in its place. */
struct train_ladder {
    bool fixed;
    bool proven; /* a run has ended well on `rung`: later ones start there, and stay */
    int rung;    /* where the next run starts; RUNG_COUNT: no rung gives the run */
    int n_falls;
    struct train_fall fall[RUNG_COUNT];
    char why[TRAIN_WHY_SIZE]; /* the last run gave nothing, and the reason; "": it gave something */
    bool reported;            /* the summary says how it was computed: */
    bool graphs;
    char fuse[16];
};

/* A new array of {"rung", "why"}; NULL without memory. */
json_t *train_falls_json(const struct train_ladder *l);

/* --- runs --- */

enum { TRAIN_PATH_SIZE = 4096, TRAIN_DEVICE_SIZE = 256 };

/* What runs have in common. */
struct train_work {
    /* Set by the caller. */
    const char *program, *devices;
    int64_t limit_s; /* of a run on one rung, whatever the budget */
    struct time_budget budget;

    /* By train_work_open. */
    struct process_signals signals;
    const char *out;               /* the caller's folder; NULL: nothing is kept */
    const char *dir;               /* of runs: `out`, or the scratch folder */
    char scratch[TRAIN_PATH_SIZE]; /* for what is not kept */
    int held;

    char device[TRAIN_DEVICE_SIZE]; /* as the first run that ended well describes it; "" */
};

/* Holds signals back, and makes the folders: `out`, and one for a while where TMPDIR says. */
MUST_CHECK enum status train_work_open(struct train_work *w, const char *out);

/* Removes what is not kept. Returns `st`, or where that is STATUS_OK the failure to remove it. */
MUST_CHECK enum status train_work_close(struct train_work *w, enum status st);

/* The folder of a run: "<dir>/runs/NAME", where other characters than letters and digits of the
 * name become dashes. */
MUST_CHECK enum status train_work_path(const struct train_work *w, const char *name,
                                       char out[TRAIN_PATH_SIZE]);

/* Replaces "<out>/FILE" by the record, where there is such a folder, and drops the record. */
MUST_CHECK enum status train_work_keep(const struct train_work *w, const char *file,
                                       json_t *record);

/* The device, in words; what was asked for as long as no run has told. */
const char *train_work_device(const struct train_work *w);

/* Runs `ampscale train ARGS` into the folder `dir`, which is replaced, with its output in
 * "<dir>.log". *run: what it recorded, without weights, to be freed by the caller; NULL:
 * ladder->why says why there is nothing. STATUS_INTERRUPTED after a signal; other failures are
 * those of this process. */
MUST_CHECK enum status train_child_run(struct train_work *w, const struct words *args,
                                       const char *dir, struct train_ladder *ladder,
                                       struct run **run);

/* A synthetic data set of JPEG files, made by `ampscale data synth`. */
struct train_photos {
    int classes, train, val; /* images per class */
    int size;                /* pixels of a typical side */
};

/* Makes it in the folder `dir`. *made: false where it could not be made, and `why` then says why.
 */
MUST_CHECK enum status train_child_photos(const struct train_work *w,
                                          const struct train_photos *photos, const char *dir,
                                          bool *made, char why[TRAIN_WHY_SIZE]);

/* STATUS_INTERRUPTED where a signal has asked for an end, with its name in the message. */
MUST_CHECK enum status train_child_interrupted(int signal);
#endif
