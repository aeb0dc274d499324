/* The analysis of a study's samples: pure functions, which open no file.
 *
 * They compute medians over the repeats with a 95 % percentile bootstrap interval. A series has the
 * cells that differ only in the number of devices; speed-up and efficiency are relative to its
 * first cell. Each cell gets a verdict with its evidence. */
#pragma once

#include "study/study_plan.h"
#include "study/study_sample.h"

/* The results of the runs of one cell. */
struct study_result {
    int64_t n;                                        /* number of complete repeats */
    struct study_sample sample[ANALYSIS_MAX_REPEATS]; /* (n) */
    int64_t failed;                                   /* number of failed repeats */
    char reason[ANALYSIS_TEXT_SIZE];                  /* reason of the last failure, if any */
};

/* Bottleneck thresholds, as fractions. */
struct study_thresholds {
    double loader_loss;   /* throughput lost by real data, relative to synthetic data */
    double data_share;    /* fraction of a step spent waiting for the loader */
    double comm_loss;     /* throughput per device lost, relative to a single device */
    double behind;        /* excess of a rank's own time over the median of the other ranks'
                           * times */
    double compute_share; /* fraction of a step spent in forward pass, backward pass and
                           * optimizer */
    double noise; /* width of the interval of images/s, divided by the median. From this threshold
                   * on, the evidence of a cell has a warning; the verdict does not change */
};
extern const struct study_thresholds study_thresholds;

/* Analyses the results of all cells: result[i] belongs to cell i of the plan. Fills in all of *a
 * except `command` and `machine`, which are left empty. The caller frees with analysis_free. */
MUST_CHECK enum status study_analyse(const struct study_plan *plan,
                                     const struct study_result *result, struct analysis *a);

/* Inside study/: fills in the verdict and the evidence of every cell. The caller has set the
 * numbers of the cells. */
MUST_CHECK enum status study_judge(const struct study_result *result,
                                   const struct study_thresholds *t, struct analysis *a);
