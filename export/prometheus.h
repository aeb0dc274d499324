/* Prometheus' text format, version 0.0.4, for node_exporter's textfile collector: how runs stand.
 *
 * Every metric begins with "ampscale_" and bears the label "run"; ampscale_run_info says what the
 * run trains. Samples bear no timestamps, which the collector refuses; when the run was heard of
 * last is a metric of its own. */
#ifndef EXPORT_PROMETHEUS_H
#define EXPORT_PROMETHEUS_H

#include "results/run.h"

#include <stdbool.h>
#include <stdio.h>

/* How one run stands. Texts are valid UTF-8 and outlive the struct. */
struct prometheus_run {
    const char *name, *arch, *precision, *mode, *device;
    bool has_step, has_epoch;
    struct step_record step;   /* the last one */
    struct epoch_record epoch; /* the last one */
    double images_per_s;       /* of the last step */
    double steps;              /* finished since the run began */
    double epochs;             /* finished */
    double skipped;            /* steps whose gradients overflowed, as far as is known */
    double time;               /* of the last record, in seconds since 1970 */
    double finished;           /* 1: the run ended in order */
    int n_devices;
    struct telemetry_record sampled[TELEMETRY_DEVICES_MAX]; /* (n_devices) their last samples */
};

/* Takes a record in. */
void prometheus_step(struct prometheus_run *p, double time, const struct step_record *step);
void prometheus_epoch(struct prometheus_run *p, double time, const struct epoch_record *epoch);

void prometheus_telemetry(struct prometheus_run *p, double time,
                          const struct telemetry_record *row);

/* Writes n runs; what went wrong is found in the stream's error flag. Values that are not finite
 * are left out. */
void prometheus_write(FILE *out, const struct prometheus_run *run, int n);
#endif
