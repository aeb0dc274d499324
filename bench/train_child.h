/* Runs trainings as child processes, within a time budget.
 *
 * A crash or a hang of a run ends only that run. If a run on a GPU fails or crashes, it is repeated
 * on the next lower rung (engine/ladder.h), that is, with flags that disable fusion or graphs.
 * `train` itself continues on a lower rung after a failure that it detects; the rung of such a run,
 * and its falls (moves to a lower rung), are read from its summary.json.
 *
 * A run that exceeds its limit says nothing about its rung: the first run of a row searches for
 * plans, which may take minutes. The row's next run is on the same rung, and finds the plans that
 * the late one has saved.
 *
 * A device that does not work makes every rung of every row fail in the same way. After a row whose
 * rungs all failed with one message, a row whose first run fails with that message tries no lower
 * rung, so that other rows get the time. `train` has tried the lower rungs in that run, too. */
#pragma once

#include "base/file.h"
#include "base/process.h"
#include "base/words.h"
#include "bench/options.h"
#include "engine/ladder.h"
#include "results/run.h"

#include <jansson.h>

/* --- time --- */

struct time_budget {
    double seconds; /* 0: unlimited */
    uint64_t begun_ns;
    int after;     /* number of later turns of the benchmark for which time is reserved */
    bool measured; /* whether the benchmark has a result */
};
struct time_budget time_budget_begin(double seconds);

/* Returns the seconds until the last child must end, or INFINITY without a limit. The reserve for
 * killing a child that does not react is already subtracted. */
double time_budget_left(const struct time_budget *b);

#define TURN_SECONDS 20.0 /* estimate: the time of a turn whose plans are cached on disk */

/* Returns the time limit, in whole seconds and at most `most`, of a child that starts now; 0 if no
 * time is left. The limit is the time left minus TURN_SECONDS for each later turn, and once more if
 * a late child will have another turn, `again`. So the last turn has all the time that is left. The
 * limit is at least 2/5 of the time left; 7/10 until the benchmark has a result. time_budget_share
 * is the same if `left` seconds are left. */
int64_t time_budget_limit(const struct time_budget *b, bool again, int64_t most);
int64_t time_budget_share(const struct time_budget *b, double left, bool again, int64_t most);

/* --- the ladder of a row --- */

enum { TRAIN_WHY_SIZE = 400 };

struct train_fall {
    int rung; /* rung that failed */
    char why[TRAIN_WHY_SIZE];
};

/* The ladder of a row's runs. The caller initialises the struct with {0}, and sets `fixed` if the
 * arguments choose fusion and graphs: the runs then stay on this choice. */
struct train_ladder {
    bool fixed;
    bool proven; /* whether a run has succeeded on `rung`; later runs then use only that rung */
    bool cut;    /* whether the last run exceeded its limit */
    int rung;    /* rung of the next run; RUNG_COUNT: no rung is left */
    int n_falls;
    struct train_fall fall[RUNG_COUNT];
    char why[TRAIN_WHY_SIZE]; /* why the last run gave no result; "" if it gave one */
    bool reported;            /* the run's summary had values for `graphs` and `fuse` */
    bool graphs;
    char fuse[16];
    json_t *fusions; /* the fusions in the record of the last run that gave a result; owned; NULL:
                      * none */
    struct host_noise noise; /* of the last run that gave a result */
};

void train_ladder_close(struct train_ladder *l);

/* Sets a new ladder to the one of a row of a record, which may have any contents: "rung", "falls",
 * "fuse", "graphs", "fusions". A row without a rung leaves it as it is. */
void train_ladder_resume(struct train_ladder *l, const json_t *row);

/* train_falls_json returns a new array of {"rung", "why"}. train_falls_print prints a line for each
 * fall, but skips a fall whose reason equals `printed`, a text that the caller has already
 * printed. */
json_t *train_falls_json(const struct train_ladder *l);
void train_falls_print(const struct train_ladder *l, const char *printed, FILE *out);

/* --- runs --- */

enum { TRAIN_PATH_SIZE = 4096, TRAIN_DEVICE_SIZE = 256 };

/* The state that runs share. */
struct train_work {
    /* Set by the caller. */
    const char *program; /* NULL: this program */
    int64_t limit_s;     /* time limit of a run on one rung, seconds; the budget may allow less */

    /* Set by train_work_open. */
    char own[TRAIN_PATH_SIZE]; /* this program's file */
    const char *devices;
    struct time_budget budget;
    struct process_signals signals;
    const char *out; /* the caller's folder; NULL: nothing is saved */
    const char *dir; /* folder of the runs: `out`, or the scratch folder */
    struct temporary_dir scratch;

    bool photos_made;               /* set by train_work_photos */
    char broken[TRAIN_WHY_SIZE];    /* the message with which all rungs of a row failed; "" before
                                     * such a row, and after a run that succeeded */
    int lock;                       /* on `dir` */
    char device[TRAIN_DEVICE_SIZE]; /* description of the device from the first successful run; ""
                                     * before that run */
};

/* Starts the time budget, blocks signals, and makes the folders: o->dir, and a temporary one in
 * TMPDIR (else /var/tmp). */
MUST_CHECK enum status train_work_open(struct train_work *w, const struct bench_options *o);

/* Removes the temporary folder. Returns `st` or, if that is STATUS_OK, the status of the
 * removal. */
MUST_CHECK enum status train_work_close(struct train_work *w, enum status st);

/* If `out` is not NULL, writes the record to the file "<out>/FILE", which it replaces. Takes over
 * the record. */
MUST_CHECK enum status train_work_keep(const struct train_work *w, const char *file,
                                       json_t *record);

/* Returns the device's description or, until a run has recorded one, the name of the requested
 * device. */
const char *train_work_device(const struct train_work *w);

/* Returns the name of the rung that a row's runs use. NULL if the device has no rungs, or if the
 * ladder is fixed. */
const char *train_work_rung(const struct train_work *w, const struct train_ladder *l);

/* Runs `ampscale train ARGS`. The run replaces the folder `dir`. It writes no weights. Each process
 * has a log of its own, which names the rung: "<dir>-auto.log", "<dir>-no-graph.log"; or
 * "<dir>.log" if there are no rungs to choose from. Sets *run to the record of the run, which the
 * caller frees. If there is no record, sets *run to NULL and ladder->why to the reason.
 * STATUS_INTERRUPTED after a signal. Any other failure status means that this process failed, not
 * the run. */
MUST_CHECK enum status train_child_run(struct train_work *w, const struct words *args,
                                       const char *dir, struct train_ladder *ladder,
                                       struct run **run);

/* A synthetic data set of JPEG files, made by `ampscale data synth`. */
struct train_photos {
    int classes, train, val; /* number of classes; training images and validation images per
                              * class */
    int size;                /* pixels of a typical side */
};

/* Makes the data set in "<scratch>/photos" unless it exists. The output is in "<dir>/photos.log".
 * If that fails, w->photos_made stays false and `why` has the reason. */
MUST_CHECK enum status train_work_photos(struct train_work *w, const struct train_photos *photos,
                                         char why[TRAIN_WHY_SIZE]);

/* Runs a training as train_child_run does, in the folder of `name`, and reads a number from its
 * summary: member `key` of the object `group`. If there is no number, *value is NAN and `why` has
 * the reason. */
MUST_CHECK enum status train_work_measure(struct train_work *w, const struct words *args,
                                          const char *name, const char *group, const char *key,
                                          struct train_ladder *ladder, double *value,
                                          char why[TRAIN_WHY_SIZE]);
