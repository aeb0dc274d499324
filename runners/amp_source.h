/* Inside runners/: what an AMP report measures, from a run's folder or from the command line. */
#ifndef RUNNERS_AMP_SOURCE_H
#define RUNNERS_AMP_SOURCE_H

#include "results/run.h"
#include "runners/amp_report.h"
#include "runners/checkpoint.h"

struct amp_source {
    const struct amp_report_config *config;
    struct run *run; /* NULL: a network by its name */
    const char *arch;
    const char *data; /* NULL: noise */
    int classes;      /* of noise */
    int image_size, batch;
    uint64_t seed;
    double label_smoothing;
    char weights[4096];       /* safetensors; "": fresh ones */
    struct train_state state; /* where the run stands; zero without one */
    double scale;             /* current */
    const char *scale_from;   /* "flag", "checkpoint", "unscaled run" or "default" */
};

/* Checks everything that the run's folder says. On failure nothing stays open. */
MUST_CHECK enum status amp_source_open(struct amp_source *s, const struct amp_report_config *c);
void amp_source_close(struct amp_source *s);

#endif
