/* Trainings of a fraction of a second, on which compare_experiment measures the verdicts of
 * `ampscale compare`. */
#pragma once

#include "base/words.h"

#include <stdbool.h>
#include <stdint.h>

struct workload {
    const char *name;
    const char *about; /* description of the workload in the report */
    int64_t slice_ms;  /* milliseconds of a turn; 0: a run is a turn */
    int64_t pool; /* rounds that are trained once, and from which each trial draws; 0: each trial
                     trains its own rounds */
    int64_t steps;
    int ranks;             /* number of ranks; if it is above 1, `launch` starts them */
    bool images;           /* trains on JPEG files, else on synthetic tensors */
    const char *precision; /* value of --precision */
};

/* "nd", "ddp", "jpeg", "amp"; the list ends with a workload without a name */
extern const struct workload workloads[];

/* Makes the files that the workload reads, in `scratch`. */
MUST_CHECK enum status workload_prepare(const struct workload *w, const char *program,
                                        const char *scratch);

/* Appends the command of a run to `argv`, which begins as {0}. The run writes to the folder `out`.
 * If `inject` is not NULL, the command has --inject. */
MUST_CHECK enum status workload_command(const struct workload *w, const char *program,
                                        const char *scratch, const char *inject, const char *out,
                                        struct words *argv);
