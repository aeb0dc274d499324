/* The measurements on which a prediction is based: runs of ampscale, or published results. The time
 * of a step may also be predicted instead of measured. */
#pragma once

#include "predict/fit.h"
#include "results/analysis.h"
#include "results/published.h"
#include "results/run.h"

enum { SOURCE_POINTS_MAX = 64, SOURCE_LABEL_MAX = 256 };

#define SOURCE_SHARE        0.76
#define SOURCE_SHARE_SPREAD 0.15

struct source {
    char label[SOURCE_LABEL_MAX]; /* one line */
    char mode[8];                 /* of training, as in a record; "": not known */
    bool predicted;               /* the only point is a predicted step */
    struct workload work;
    int64_t ranks_per_node; /* 1 if not known */
    double image_bytes;     /* mean size of an image on disk; if it is not known, the mean over
                             * ImageNet */
    double sigma;           /* sigma of the step times of one rank (straggler.h); 0: not known */
    int n;
    struct measured point[SOURCE_POINTS_MAX]; /* (n >= 1) ascending by ranks, all different */
};

/* Takes the points from one run, or from several runs with different numbers of ranks. Each device
 * counts as a rank. The fractions of a step come from the first run, and sigma comes from rank 0 of
 * this run. STATUS_DATA if a run has no step, if the networks differ, or if two runs have the same
 * number of ranks. */
MUST_CHECK enum status source_of_runs(const struct run *const *run, int n, struct source *out);

/* Takes those points of a published series that have both a throughput and a batch. */
MUST_CHECK enum status source_of_published(const struct published_series *s, struct source *out);

/* Writes the name of series i (from 0) of a study, such as "ddp fp32 resnet50 synthetic weak". */
void source_series_name(const struct analysis *a, int64_t i, char name[SOURCE_LABEL_MAX]);

/* Takes the points from those cells of series i (from 0) of a study that have a result. */
MUST_CHECK enum status source_of_analysis(const struct analysis *a, int64_t i, struct source *out);

/* Takes one point of one rank from the record of `ampscale bench step --predict GPU --json`: the
 * predicted throughput times the share of it that published results of the GPU reach. If none are
 * known, the share is SOURCE_SHARE, between those of the two GPUs that have some, 0.818 (H100) and
 * 0.708 (H200). These differ by the factor e^0.145; so the point's spread is SOURCE_SHARE_SPREAD.
 */
MUST_CHECK enum status source_of_step(const json_t *record, struct source *out);
