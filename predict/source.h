/* Where a prediction starts: what was measured, by ampscale or by others. */
#ifndef PREDICT_SOURCE_H
#define PREDICT_SOURCE_H

#include "predict/fit.h"
#include "results/analysis.h"
#include "results/published.h"
#include "results/run.h"

enum { SOURCE_POINTS_MAX = 64, SOURCE_LABEL_MAX = 256 };

struct source {
    char label[SOURCE_LABEL_MAX]; /* of one line */
    struct workload work;
    int64_t ranks_per_node; /* 1 where nothing says more */
    double image_bytes;     /* of an image on disk; ImageNet's mean where nothing says more */
    double sigma;           /* of stragglers, from one rank's steps; 0: not known */
    int n;
    struct measured point[SOURCE_POINTS_MAX]; /* (n >= 1) ascending by ranks, all different */
};

/* From one run, or from several that differ in their number of ranks; ranks are devices. How a step
 * is shared out is the first run's split, and how much its own time varies that of its rank 0.
 * STATUS_DATA for runs without a step, and for runs of different networks or of one number of
 * ranks. */
MUST_CHECK enum status source_of_runs(const struct run *const *run, int n, struct source *out);

/* From a published series: those of its points that say throughput and batch. */
MUST_CHECK enum status source_of_published(const struct published_series *s, struct source *out);

/* From series i (from 0) of a study: its cells that have a result. */
MUST_CHECK enum status source_of_analysis(const struct analysis *a, int64_t i, struct source *out);

#endif
