/* The results of one run of a cell, from its record. */
#pragma once

#include "results/analysis.h"
#include "results/run.h"

/* Numbers that are not known are NAN. */
struct study_sample {
    double images_per_s;          /* images per second of the steps after the warm-up */
    double wall;                  /* training images per second of the whole run */
    double seconds;               /* duration of the whole run */
    double top1, top5;            /* accuracy of the last validation, percent */
    double split[ANALYSIS_PARTS]; /* mean seconds of each part of a step after warm-up */
    double comm_busy_s;
    int64_t slowest_rank; /* the rank with the longest own time (step time without communication);
                           * -1: there is only one rank */
    double behind;        /* own time of the slowest rank divided by the median own time of the
                           * other ranks, minus 1 */
    double noise;         /* largest value of `behind` that noise alone may cause */
    double waiting_s; /* mean time per step in which ranks wait for the slowest one: its own time
                       * minus the mean own time, at most the exposed communication */
    char part[16];    /* part of the step in which the slowest rank loses most time */
    struct conditions conditions; /* of this run */
    bool shared;                  /* the devices are CPUs of one host, which share its hardware */
    bool emulated;                /* the run's precision was emulated in fp32 */
    bool injected;                /* faults were injected into the run */
    char host[64];                /* host of the slowest rank */
    double threads; /* compute threads on the busiest host; NAN: the run used the default, or its
                     * devices are not CPUs */
    double cores;   /* usable cores of one host */
    struct analysis_system system;
    struct analysis_io io;
    int64_t n_epochs;             /* at most ANALYSIS_MAX_EPOCHS */
    struct analysis_epoch *epoch; /* (n_epochs) only the medians are set; the caller frees it */
};

/* Reads the sample of a run. Leaves out the first `warmup` steps, but at most half of the steps.
 * STATUS_DATA for a run without a step, or with times that are not finite. */
MUST_CHECK enum status study_sample_of(const struct run *run, int64_t warmup,
                                       struct study_sample *s);
