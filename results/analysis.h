/* analysis.json: what the runs of a study come to, cell by cell. Written by `ampscale study`, read
 * by figures and reports, which need nothing else of it.
 *
 * A cell is one point of a study's matrix: mode, precision, network, data, devices and batch, run
 * several times. A series is a line of a figure: cells that differ in the number of devices alone,
 * the first of which is what speed-up and efficiency are measured against.
 *
 * In the structs a number that is not known is NAN, in the file null. */
#ifndef RESULTS_ANALYSIS_H
#define RESULTS_ANALYSIS_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Grows when a reader of the previous version would misunderstand. */
enum { ANALYSIS_SCHEMA = 1 };

#define ANALYSIS_FILE "analysis.json"

enum {
    ANALYSIS_MAX_REPEATS = 64,
    ANALYSIS_MAX_CELLS = 4096,
    ANALYSIS_MAX_EVIDENCE = 8,
    ANALYSIS_NAME_SIZE = 160,
    ANALYSIS_TEXT_SIZE = 320,
};

/* One number over the repeats of a cell. */
struct analysis_measure {
    double median;    /* NAN where n is 0 */
    double low, high; /* 95 % bootstrap interval of the median; NAN where n < 2 */
    int64_t n;        /* repeats that have it */
    double values[ANALYSIS_MAX_REPEATS]; /* (n) in the order of the repeats */
};

/* Where a step's time goes: means over the measured steps, so that the parts add up to it. */
enum analysis_part {
    ANALYSIS_DATA,
    ANALYSIS_H2D,
    ANALYSIS_FORWARD,
    ANALYSIS_BACKWARD,
    ANALYSIS_COMM, /* that nothing hid */
    ANALYSIS_OPTIMIZER,
    ANALYSIS_OTHER, /* what no part explains */
    ANALYSIS_PARTS
};

/* Weak scaling keeps the batch of a device, strong scaling that of all devices together. */
enum analysis_scaling { ANALYSIS_WEAK, ANALYSIS_STRONG };

/* What a forecast must know of the runs of a cell beside their times. 0: not known; records of
 * earlier versions lack these. */
struct analysis_system {
    int64_t hosts;
    int64_t ranks_per_host; /* on the host that has most */
    int64_t image_size;     /* pixels of a side */
    int64_t classes;
    int64_t gradient_bytes; /* of an element, on its way between ranks */
};

struct analysis_cell {
    char name[ANALYSIS_NAME_SIZE]; /* unique; the folder under cells/ */
    char mode[8];                  /* "nd", "dp", "ddp", "ddp2" */
    char precision[48];
    char arch[64];
    char data[64]; /* "synthetic", or the name of a data set */
    bool real;     /* images are read and decoded */
    enum analysis_scaling scaling;
    int64_t devices; /* over all ranks */
    int64_t ranks;
    int64_t batch; /* images of a step, over all devices */
    struct analysis_system system;
    struct analysis_measure images_per_s; /* measured steps: images by seconds */
    struct analysis_measure wall;         /* whole run: training images by seconds, with warm-up,
                                           * validation, checkpoints and waiting */
    struct analysis_measure seconds;      /* of the whole run */
    double top1, top5;            /* percent, of the last validation: median over the repeats */
    double speedup, speedup_wall; /* against the first cell of its series */
    double efficiency, efficiency_wall; /* speed-up by the factor in devices; 1 is perfect */
    double split[ANALYSIS_PARTS];       /* seconds a step */
    double comm_busy_s;   /* a step: while gradients were on their way, hidden or not */
    int64_t slowest_rank; /* by its own time; -1: not known, or one rank */
    double behind;        /* its own time over the median of the others, minus 1 */
    char verdict[64];     /* "compute-bound", "loader-bound", ...; "" for a missing cell */
    int n_evidence;
    char evidence[ANALYSIS_MAX_EVIDENCE][ANALYSIS_TEXT_SIZE]; /* a sentence each, with numbers */
    char missing[ANALYSIS_TEXT_SIZE]; /* why the cell has no result; "" when it has one */
};

/* Ascending by devices. Mode, precision and scaling of the series are those of its last cell; the
 * first may be the single device that several series start from. */
struct analysis_series {
    int64_t n;
    int64_t *cell; /* (n) places in struct analysis's cells */
};

struct analysis {
    char study[ANALYSIS_NAME_SIZE];   /* its name */
    char about[ANALYSIS_TEXT_SIZE];   /* what it is for, in a sentence */
    char command[ANALYSIS_TEXT_SIZE]; /* runs it again */
    json_t *machine;    /* object: "device", "host", "libraries", "version", "commit" as run.json
                         * has them; empty where no run says */
    json_t *thresholds; /* object: the numbers that verdicts rest on */
    int64_t n_cells;
    struct analysis_cell *cell; /* (n_cells) */
    int64_t n_series;
    struct analysis_series *series; /* (n_series) */
};

/* A cell of which nothing is known: every number NAN, no rank the slowest. */
struct analysis_cell analysis_cell_unknown(void);

/* Reads "<dir>/analysis.json", or the file itself where `path` is none. The file may be anybody's:
 * what is not as above is STATUS_DATA. On success the caller frees with analysis_free. */
MUST_CHECK enum status analysis_read(const char *path, struct analysis *a);

/* Writes the file `path` whole or not at all; the same analysis gives the same bytes. */
MUST_CHECK enum status analysis_write(const struct analysis *a, const char *path);

void analysis_free(struct analysis *a); /* fine on a zeroed struct */

/* "weak", "strong"; the members of a cell's "split": "data_s", ... */
const char *analysis_scaling_str(enum analysis_scaling s);
const char *analysis_part_str(enum analysis_part p);
#endif
