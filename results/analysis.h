/* analysis.json: the results of a study, cell by cell. `ampscale study` writes it; figures and
 * reports read it, and need no other file of the study.
 *
 * A cell is one point of a study's matrix: mode, precision, network, data, devices and batch, run
 * several times. A series is a line of a figure: cells that differ only in the number of devices.
 * Speed-up and efficiency are relative to the first cell of the series.
 *
 * An unknown number is NAN in the structs and null in the file. */
#pragma once

#include "base/status.h"
#include "results/run.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* --- Under which conditions runs were made: when, and how many of them other work disturbed --- */

enum { CONDITIONS_TIME_SIZE = 24 };

/* Starts as conditions_none. */
struct conditions {
    char from[CONDITIONS_TIME_SIZE]; /* start of the first run, "2026-11-21T06:25:00Z"; "": no run
                                      * recorded it */
    char to[CONDITIONS_TIME_SIZE];   /* end of the last run, likewise */
    int64_t runs;
    int64_t recorded; /* runs whose record says whether they were disturbed; older records do not */
    int64_t disturbed; /* runs that other work disturbed (noise.h) */
    double others; /* largest share of the processors' time that other processes took in one of the
                    * runs; NAN: not known */
};

extern const struct conditions conditions_none;

/* The conditions of one run. */
struct conditions conditions_of(const struct run *run);

/* Adds the conditions of other runs. */
void conditions_add(struct conditions *all, const struct conditions *other);

/* Returns whether a text has the form of a time in a record. */
bool conditions_is_time(const char *text);

/* Increased when a reader of the previous version would misread the file. */
enum { ANALYSIS_SCHEMA = 1 };

#define ANALYSIS_FILE "analysis.json"

enum {
    ANALYSIS_MAX_REPEATS = 64,
    ANALYSIS_MAX_CELLS = 4096,
    ANALYSIS_MAX_EPOCHS = 100, /* of a cell's curves; of longer runs some epochs are left out */
    ANALYSIS_MAX_EVIDENCE = 16,
    ANALYSIS_NAME_SIZE = 160,
    ANALYSIS_TEXT_SIZE = 320,
};

/* Statistics of one number over the repeats of a cell. */
struct analysis_measure {
    double median;                       /* NAN where n is 0 */
    double low, high;                    /* 95 % bootstrap interval of the median; NAN if n < 2 */
    int64_t n;                           /* number of repeats that have a value */
    double values[ANALYSIS_MAX_REPEATS]; /* (n) in the order of the repeats */
};

/* The parts of a step's time: means over the measured steps. Their sum is the mean time of a
 * step. */
enum analysis_part {
    ANALYSIS_DATA,
    ANALYSIS_H2D,
    ANALYSIS_FORWARD,
    ANALYSIS_BACKWARD,
    ANALYSIS_COMM, /* exposed communication */
    ANALYSIS_OPTIMIZER,
    ANALYSIS_OTHER, /* the rest of the step */
    ANALYSIS_PARTS
};

/* Weak scaling has a fixed batch per device, strong scaling a fixed batch over all devices. */
enum analysis_scaling { ANALYSIS_WEAK, ANALYSIS_STRONG };

/* Properties of a cell's runs that a forecast needs. 0: not known; records of earlier versions lack
 * these properties. */
struct analysis_system {
    int64_t hosts;
    int64_t ranks_per_host; /* number of ranks on the host with the most ranks */
    int64_t image_size;     /* pixels of a side */
    int64_t classes;
    int64_t gradient_bytes; /* bytes per gradient element, as communicated */
    int64_t accumulate;     /* batches of a step, if several */
};

/* The data read while training: medians over the repeats. NaN: not known, or nothing was read;
 * records of earlier versions have only the loaders' rates. */
struct analysis_io {
    double bytes_per_s, files_per_s; /* read by the loaders */
    double storage_bytes_per_s;      /* fetched from storage by the run's processes */
    double device_bytes_per_s;       /* read from the data's block device by all processes */
    double cached_percent; /* percentage of the loaders' bytes that came from page caches */
};

/* Accuracies of an epoch, percent. */
enum analysis_accuracy {
    ANALYSIS_TOP1_TRAIN,
    ANALYSIS_TOP1_VAL,
    ANALYSIS_TOP5_TRAIN,
    ANALYSIS_TOP5_VAL,
    ANALYSIS_ACCURACIES
};

/* A point of the learning curves of a cell, over its repeats. NAN: not measured. */
struct analysis_epoch {
    int64_t epoch; /* from 1 */
    struct {
        double median, low, high; /* low and high: the lowest and the highest repeat */
    } accuracy[ANALYSIS_ACCURACIES];
};

struct analysis_cell {
    char name[ANALYSIS_NAME_SIZE]; /* unique; also the name of the cell's folder in cells/ */
    char mode[8];                  /* "nd", "dp", "ddp", "ddp2" */
    char precision[48];
    char arch[64];
    char data[64]; /* "synthetic", or the name of a data set */
    bool real;     /* true: images are read and decoded; false: synthetic data */
    bool emulated; /* the device computes the precision's type in fp32: the speed is not the type's.
                    * Records of earlier versions lack it: false */
    enum analysis_scaling scaling;
    int64_t devices; /* number of devices of all ranks */
    int64_t ranks;
    int64_t batch; /* images of a step, over all devices */
    struct analysis_system system;
    struct analysis_io io;
    struct conditions conditions; /* of the cell's runs, without times; `others` is the median over
                                   * the repeats */
    struct analysis_measure images_per_s; /* throughput of the measured steps */
    struct analysis_measure wall;         /* throughput of the whole run, with warm-up, validation,
                                           * checkpoints and waiting */
    struct analysis_measure seconds;      /* duration of the whole run */
    struct analysis_measure top1_runs;    /* validation top-1, percent; none in earlier records */
    double top1, top5;                  /* accuracy of the last validation, percent; median over the
                                         * repeats */
    double speedup, speedup_wall;       /* relative to the first cell of its first series */
    double efficiency, efficiency_wall; /* speed-up divided by the ratio of the numbers of devices;
                                         * 1 is perfect */
    double split[ANALYSIS_PARTS];       /* seconds per step */
    double comm_busy_s;                 /* seconds of communication per step, exposed or hidden */
    int64_t slowest_rank; /* the rank whose own time (time per step without communication) is the
                           * longest; -1: not known, or only one rank */
    double behind;    /* relative excess of the slowest rank's own time over the median of the other
                       * ranks: 0.2 means 20 % longer */
    char verdict[64]; /* "compute-bound", "loader-bound", ...; "" for a missing cell */
    int n_evidence;
    char evidence[ANALYSIS_MAX_EVIDENCE][ANALYSIS_TEXT_SIZE]; /* a sentence each, with numbers */
    char missing[ANALYSIS_TEXT_SIZE]; /* why the cell has no result; "": it has a result */
    int64_t n_epochs;
    struct analysis_epoch *epoch; /* (n_epochs) ascending; records of earlier versions have none */
};

/* The cells of one line of a figure, in ascending order of their numbers of devices. The mode and
 * precision of the series are those of its last cell, because the first cell (one device) may
 * belong to several series. Any cell may belong to a series of weak and to one of strong scaling.
 */
struct analysis_series {
    int64_t n;
    int64_t *cell; /* (n) indices in struct analysis's cells */
};

struct analysis {
    char study[ANALYSIS_NAME_SIZE];   /* name of the study */
    char about[ANALYSIS_TEXT_SIZE];   /* purpose of the study, in a sentence */
    char command[ANALYSIS_TEXT_SIZE]; /* the command that repeats the study */
    json_t *machine;    /* object: "device", "host", "libraries", "version", "commit" as in
                         * run.json; empty where no run has them */
    json_t *thresholds; /* object: thresholds of the verdicts */
    struct conditions conditions; /* of all runs; of records of earlier versions conditions_none */
    int64_t n_cells;
    struct analysis_cell *cell; /* (n_cells) */
    int64_t n_series;
    struct analysis_series *series; /* (n_series) */
};

/* Returns a cell without results: every number is NAN, and there is no slowest rank. */
struct analysis_cell analysis_cell_unknown(void);

/* Sets the 95 % bootstrap interval of the ratio of two medians, `of` divided by `to`; NAN if one of
 * them has fewer than two values. */
MUST_CHECK enum status analysis_ratio_interval(const struct analysis_measure *of,
                                               const struct analysis_measure *to, double *low,
                                               double *high);

/* Returns the scaling of series i: strong if its cells share the batch over all devices. */
enum analysis_scaling analysis_series_scaling(const struct analysis *a, int64_t i);

/* Returns the cell that the speed-up of `cell` is relative to: the first cell of its first series.
 * NULL: it is the first cell of its series itself, or belongs to none. */
const struct analysis_cell *analysis_base(const struct analysis *a,
                                          const struct analysis_cell *cell);

/* Returns the same cell with synthetic data; NULL: there is none, or it has no result. */
const struct analysis_cell *analysis_synthetic(const struct analysis *a,
                                               const struct analysis_cell *cell);

/* Returns the mean time of a step, seconds. */
double analysis_step_s(const struct analysis_cell *c);

/* The speed-up of a cell relative to the first of its series, and the efficiency: the speed-up
 * divided by the ratio of devices. Each has its 95 % interval. NAN: not known. */
struct scaling {
    double speedup, low, high;
    double efficiency, efficiency_low, efficiency_high; /* percent */
};

/* Sets the scaling of the measured steps, or with `wall` that of whole runs. */
MUST_CHECK enum status analysis_scaling(const struct analysis *a, const struct analysis_cell *cell,
                                        bool wall, struct scaling *s);

/* Returns whether other work disturbed at least half of a cell's runs. */
bool analysis_disturbed(const struct analysis_cell *c);

/* Write texts that mark a cell's numbers wherever they are shown, and return `out`: the precision,
 * such as "O1 (emulated)", the name, such as "nd-O1-1x32 (emulated, disturbed)", and the verdict,
 * such as "compute-bound, 1 of 5 runs disturbed". */
const char *analysis_precision_label(const struct analysis_cell *c, char out[ANALYSIS_TEXT_SIZE]);
const char *analysis_name_label(const struct analysis_cell *c, char out[ANALYSIS_TEXT_SIZE]);
const char *analysis_verdict_label(const struct analysis *a, const struct analysis_cell *c,
                                   char out[ANALYSIS_TEXT_SIZE]);

/* Reads "<path>/analysis.json" if `path` is a folder, else the file `path`. The file may be
 * untrusted: STATUS_DATA if it is not an analysis. On success the caller frees *a with
 * analysis_free. */
MUST_CHECK enum status analysis_read(const char *path, struct analysis *a);

/* Writes the file `path` atomically; the same analysis gives the same bytes. */
MUST_CHECK enum status analysis_write(const struct analysis *a, const char *path);

void analysis_free(struct analysis *a); /* no effect on a zeroed struct */

/* Returns "weak" or "strong". */
const char *analysis_scaling_str(enum analysis_scaling s);
