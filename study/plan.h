/* The cells of a study's matrix, the runs that they need, and the command of each run.
 *
 * Runs go in rounds, a repeat of every cell in an order shuffled anew, so that whatever drifts on a
 * machine touches all cells alike. */
#ifndef STUDY_PLAN_H
#define STUDY_PLAN_H

#include "base/words.h"
#include "results/analysis.h"
#include "study/spec.h"

#include <stdio.h>

struct study_cell {
    char name[ANALYSIS_NAME_SIZE]; /* "nd-fp32-resnet8-jpeg-1x64", "ddp-...-weak-2x64": devices and
                                    * images of each */
    enum study_mode mode;
    const char *precision, *arch; /* the spec's */
    const struct study_data *data;
    enum analysis_scaling scaling; /* one device: the first that has it, and series of both kinds
                                    * may begin with it */
    int64_t devices, ranks;
    int64_t batch; /* images of a step, over all devices */
};

struct study_run {
    int64_t cell;
    int repeat; /* from 1 */
};

struct study_plan {
    const struct study_spec *spec;
    int64_t n_cells;
    struct study_cell *cell; /* (n_cells) in the order of the spec */
    int64_t n_runs;
    struct study_run *run; /* (n_runs) in the order in which they go */
};

/* The plan keeps `spec`, which must outlive it. STATUS_USAGE for a matrix beyond
 * ANALYSIS_MAX_CELLS. The caller frees with study_plan_free. */
MUST_CHECK enum status study_plan_make(const struct study_spec *spec, struct study_plan *plan);
void study_plan_free(struct study_plan *plan);

enum { STUDY_PATH_SIZE = 4096 };

/* "<dir>/cells/<cell>/r<repeat><suffix>": the folder of a run, or with a suffix a file beside it.
 */
MUST_CHECK enum status study_run_path(const struct study_plan *plan, const struct study_run *run,
                                      const char *dir, const char *suffix,
                                      char out[STUDY_PATH_SIZE]);

/* Appends the command of a run in the study's folder `dir`. With `resume` it goes on from the
 * checkpoint that its folder holds. */
MUST_CHECK enum status study_run_command(const struct study_plan *plan, const struct study_run *run,
                                         const char *program, const char *dir, bool resume,
                                         struct words *w);

/* The command that makes a data set that is to be generated, in "<dir>/data/<name>". */
MUST_CHECK enum status study_data_command(const struct study_data *data, const char *program,
                                          const char *dir, struct words *w);

/* What plan.json holds: {"schema", "study": the spec, "cells": [{...}], "runs": [{"cell",
 * "repeat", "command"}]}. */
MUST_CHECK enum status study_plan_json(const struct study_plan *plan, const char *dir,
                                       json_t **out);

/* Prints the command of each run, in its order. */
MUST_CHECK enum status study_plan_print(const struct study_plan *plan, const char *dir, FILE *out);
#endif
