/* Internal to report/: how far measurements can be trusted. */
#pragma once

#include "base/document.h"
#include "results/analysis.h"
#include "results/run.h"

struct quality {
    struct conditions conditions;
    const json_t *machine; /* `machine` of struct analysis, or a whole run.json */
    const char *unit;      /* "cells" or "runs" */
    int64_t units;
    int64_t missing;  /* units without a result */
    int64_t doubtful; /* units whose numbers are in doubt, missing ones included */
    int64_t single;   /* units without an interval, because they ran only once */
    double widest;    /* widest interval of images/s, divided by its median; NAN: there is none */
    double apart;   /* of runs: how far images/s of equal runs differ, divided by their median; NAN:
                     * no two runs are equal */
    int64_t runs;   /* complete runs */
    int64_t paused; /* runs that were stopped and continued by signals, or whose machine slept */
    int64_t changed; /* runs that were resumed with other settings */
};

/* From this `apart` on, the quality of runs is not good: the speeds of the runs say little. */
#define QUALITY_APART 0.20

/* A cell is in doubt if it is missing, if its interval of images/s is at least as wide as the
 * study's threshold `noise` (a share of the median), or if at least half of its runs were
 * disturbed. */
struct quality quality_of_study(const struct analysis *a);

/* A run is in doubt if it is not complete, or if it was disturbed. The caller sets `apart`. */
struct quality quality_of_runs(struct run *const *runs, int n);

/* Writes a line with date, host, number of runs and disturbances. It begins with a mark:
 *   poor  at least a quarter of the cells or runs are in doubt, or a quarter of the runs were
 *         disturbed
 *   good  no cell is in doubt; no run was disturbed; each run says so; each cell has several
 *         runs; equal runs are less than QUALITY_APART apart
 *   fair  all else, such as records that do not say whether runs were disturbed */
void section_quality(struct writer *w, const struct quality *q);

bool quality_is_poor(const struct quality *q);
