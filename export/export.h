/* Writes records of runs in other programs' formats.
 *
 *   tensorboard  OUT/<run>/events.out.tfevents.*: see tensorboard.h
 *   csv          OUT/steps.csv, epochs.csv, ranks.csv, telemetry.csv (RFC 4180): a column with the
 *                run's name, then the columns of results/schema.h; the cell of a number that is
 *                not finite is empty
 *   prometheus   OUT: a file for node_exporter's textfile collector, see prometheus.h
 *   mlperf       OUT: the ":::MLLOG" lines of one run: see mlperf.c
 *
 * The same records always give the same bytes. A time stamp in a file is the start of the run plus
 * the recorded elapsed time, which does not include pauses between attempts. Files are written
 * atomically. */
#pragma once

#include "base/status.h"
#include "results/run.h"

#include <stdbool.h>
#include <stdio.h>

enum export_format {
    EXPORT_TENSORBOARD,
    EXPORT_MLPERF,
    EXPORT_PROMETHEUS,
    EXPORT_CSV,
    EXPORT_FORMATS
};

struct export_options {
    enum export_format format;
    const char *out;      /* path of a file or of a folder, depending on the format; created if
                           * missing */
    const char *run_name; /* name of the one run in the output; NULL: for prometheus the folder as
                           * given, else its last part */
    bool closed;          /* mlperf: use the closed division instead of the open one */
    FILE *written;        /* receives the names of the files, one per line */
    FILE *warnings;       /* receives a line if a run does not meet the format's rules; NULL: no
                           * warnings */
    /* Called before a file is put in place. If it fails, the export ends. NULL: no function is
     * called. */
    enum status (*proceed)(void);
};

/* Exports n >= 1 runs together. STATUS_USAGE if two runs have the same name and the format
 * identifies runs by name, or if n > 1 and the format or run_name is for one run. STATUS_DATA if a
 * run lacks data. */
MUST_CHECK enum status export_runs(const struct run *const *run, int n,
                                   const struct export_options *o);

/* Returns the time at which a run began, in seconds since 1970, or 0 if run.json does not record
 * it. */
double export_started(const struct run *run);
