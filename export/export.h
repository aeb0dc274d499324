/* Records of runs in other programs' formats.
 *
 *   tensorboard  OUT/<run>/events.out.tfevents.*: see tensorboard.h
 *   csv          OUT/steps.csv, epochs.csv, ranks.csv, telemetry.csv: the columns of
 *                results/schema.h after one that names the run; RFC 4180, no value where a number
 *                is not finite
 *   prometheus   OUT: a file for node_exporter's textfile collector, see prometheus.h
 *   mlperf       OUT: the ":::MLLOG" lines of one run: see mlperf.c
 *   superbench   OUT: SuperBench's results-summary.jsonl: see superbench.c
 *
 * The same records give the same bytes: times are the run's start plus what it says has elapsed,
 * so that pauses between the attempts of a run do not count. Files are whole or absent. */
#ifndef EXPORT_EXPORT_H
#define EXPORT_EXPORT_H

#include "base/status.h"
#include "results/run.h"

#include <stdbool.h>
#include <stdio.h>

enum export_format {
    EXPORT_TENSORBOARD,
    EXPORT_MLPERF,
    EXPORT_PROMETHEUS,
    EXPORT_CSV,
    EXPORT_SUPERBENCH,
    EXPORT_FORMATS
};

struct export_options {
    enum export_format format;
    const char *out; /* a file or a folder, as the format says; made if need be */
    bool closed;     /* mlperf: name the closed division, not the open one */
    FILE *written;   /* the names of the files go here, one a line */
    /* Asked before a file takes its place, which a failure ends; NULL: nobody is. */
    enum status (*go_on)(void);
};

const char *export_format_str(enum export_format f); /* "tensorboard" ... */

/* Exports n >= 1 runs together. STATUS_USAGE when two have the same name where names tell them
 * apart, or when the format holds one run alone; STATUS_DATA when a run lacks what it needs. */
MUST_CHECK enum status export_runs(const struct run *const *run, int n,
                                   const struct export_options *o);

/* When a run began, in seconds since 1970; 0 where run.json does not say. */
double export_started(const struct run *run);

/* A text of run.json itself, such as "device", or of its "host"; `otherwise` where there is none.
 */
const char *export_info_text(const struct run *run, const char *key, const char *otherwise);
const char *export_host_text(const struct run *run, const char *key, const char *otherwise);
#endif
