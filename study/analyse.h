/* From the samples of a study to what it says: pure functions, which open no file.
 *
 * Medians over the repeats with a 95 % percentile bootstrap interval; series of cells that differ
 * in devices alone; speed-up and efficiency against the first of each; a verdict for each cell with
 * the evidence that it rests on. */
#ifndef STUDY_ANALYSE_H
#define STUDY_ANALYSE_H

#include "study/plan.h"
#include "study/sample.h"

/* What the runs of one cell came to. */
struct study_result {
    int64_t n;                                        /* repeats that are complete */
    struct study_sample sample[ANALYSIS_MAX_REPEATS]; /* (n) */
    int64_t failed;
    char reason[ANALYSIS_TEXT_SIZE]; /* of the last failure; "" */
};

/* Bottleneck thresholds, as shares. */
struct study_thresholds {
    double loader_loss;   /* real data is slower than synthetic by this share */
    double data_share;    /* of a step, waiting for the loader */
    double comm_loss;     /* a device is slower than a single one by this share */
    double comm_share;    /* of a step, in communication that nothing hid */
    double behind;        /* a rank's own time above the median of the others */
    double compute_share; /* of a step, in forward, backward and optimizer */
    double noise; /* interval of images per second by their median: not a verdict, a warning */
};
extern const struct study_thresholds study_thresholds;

/* `result` has one for each cell of the plan. Fills in all of *a but `command` and `machine`,
 * which are left empty. The caller frees with analysis_free. */
MUST_CHECK enum status study_analyse(const struct study_plan *plan,
                                     const struct study_result *result, struct analysis *a);

/* Inside: fills in verdict and evidence of every cell, whose numbers are there. */
void study_judge(const struct study_result *result, const struct study_thresholds *t,
                 struct analysis *a);
#endif
