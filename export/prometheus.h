/* Writes the states of runs in Prometheus' text format, version 0.0.4, for node_exporter's textfile
 * collector.
 *
 * The name of every metric begins with "ampscale_", and every metric has the label "run", the
 * run's name or, without one, its folder as given: the last part of a path may occur twice.
 * ampscale_run_info has the configuration of the run. Samples have no timestamps, because the
 * collector refuses them; the time of the last record is a separate metric. */
#pragma once

#include "results/run.h"

#include <stdbool.h>
#include <stdio.h>

/* The state of one run. The texts must be valid UTF-8 and must outlive the struct. */
struct prometheus_run {
    const char *name, *arch, *precision, *mode, *device;
    bool has_step, has_epoch;
    struct step_record step;   /* the last one */
    struct epoch_record epoch; /* the last one */
    double images_per_s;       /* of the last step */
    double steps;              /* completed since the run began */
    double epochs;             /* completed */
    double skipped;            /* number of steps whose gradients overflowed, as far as the
                                * added records show */
    double time;               /* time of the last record, in seconds since 1970 */
    double finished;           /* 1: the run is complete */
    int n_devices;
    struct telemetry_record sampled[TELEMETRY_DEVICES_MAX]; /* (n_devices) last sample of each
                                                             * device */
};

/* Add a record to the state. */
void prometheus_step(struct prometheus_run *p, double time, const struct step_record *step);
void prometheus_epoch(struct prometheus_run *p, double time, const struct epoch_record *epoch);

void prometheus_telemetry(struct prometheus_run *p, double time,
                          const struct telemetry_record *row);

/* Writes the states of n runs. The caller checks the stream's error flag. Values that are not
 * finite are left out. */
void prometheus_write(FILE *out, const struct prometheus_run *run, int n);
