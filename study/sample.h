/* What one run of a cell comes to, out of its record. */
#ifndef STUDY_SAMPLE_H
#define STUDY_SAMPLE_H

#include "results/analysis.h"
#include "results/run.h"

/* NAN: not known. */
struct study_sample {
    double images_per_s;          /* images by seconds of the steps after the warm-up */
    double wall;                  /* training images by seconds of the whole run */
    double seconds;               /* of the whole run */
    double top1, top5;            /* of the last validation, percent */
    double split[ANALYSIS_PARTS]; /* means over the same steps, seconds */
    double comm_busy_s;
    int64_t slowest_rank; /* by its own time; -1: one rank */
    double behind;        /* its own time over the median of the others, minus 1 */
    double noise;         /* by how much it may be behind by chance */
    char part[16];        /* in which it falls behind most */
    bool injected;        /* faults were injected into the run */
    char host[64];        /* it ran on */
    double threads; /* that compute on the busiest host; NAN where the run took what there was,
                     * or does not compute on a CPU */
    double cores;   /* that one host allows */
    struct analysis_system system;
};

/* Leaves out the first `warmup` steps, but never more than half. STATUS_DATA for a run without a
 * step, or with times beyond all measure. */
MUST_CHECK enum status study_sample_of(const struct run *run, int64_t warmup,
                                       struct study_sample *s);
#endif
