/* The cells of a study's matrix, their runs, and the command of each run.
 *
 * Each round runs one repeat of every cell, in a newly shuffled order, so that drift of the machine
 * affects all cells alike. */
#pragma once

#include "base/words.h"
#include "launch/hosts.h"
#include "results/analysis.h"
#include "study/study_spec.h"

#include <regex.h>
#include <stdio.h>

struct study_cell {
    char name[ANALYSIS_NAME_SIZE]; /* "nd-fp32-resnet8-jpeg-1x64", "ddp-...-weak-2x64"; the end is
                                    * "<devices>x<images per device>" */
    enum study_mode mode;
    const char *precision, *arch; /* point into the spec */
    const struct study_data *data;
    enum analysis_scaling scaling; /* the first scaling that has this cell; it is in the name unless
                                    * the cell has one device */
    bool in[2]; /* (enum analysis_scaling) the scalings that have this cell. With equal batches,
                 * weak and strong scaling are the same training, which runs once */
    int64_t devices, ranks;
    int64_t batch; /* images per step, over all devices */
};

struct study_run {
    int64_t cell;
    int repeat; /* from 1 */
};

struct study_plan {
    const struct study_spec *spec;
    const struct launch_hosts *hosts; /* hosts on which `ampscale launch` starts all runs; NULL or
                                       * no hosts: this machine, or the hosts of the batch system */
    int64_t n_cells;
    struct study_cell *cell; /* (n_cells) in the order of the spec */
    int64_t n_runs;
    struct study_run *run; /* (n_runs) in the order of execution */
};

/* Makes the plan of `spec`, which must outlive the plan. Sets `hosts` to NULL. STATUS_USAGE for a
 * matrix beyond ANALYSIS_MAX_CELLS. The caller frees with study_plan_free. */
MUST_CHECK enum status study_plan_make(const struct study_spec *spec, struct study_plan *plan);
void study_plan_free(struct study_plan *plan);

enum { STUDY_PATH_SIZE = 4096 };

/* Writes "<dir>/cells/<cell>/r<repeat><suffix>", the path of a run's folder or, with a suffix, of a
 * file next to it. */
MUST_CHECK enum status study_run_path(const struct study_plan *plan, const struct study_run *run,
                                      const char *dir, const char *suffix,
                                      char out[STUDY_PATH_SIZE]);

/* Appends the command of a run in the study's folder `dir`. With `resume` the run continues from
 * the checkpoint in its folder. */
MUST_CHECK enum status study_run_command(const struct study_plan *plan, const struct study_run *run,
                                         const char *program, const char *dir, bool resume,
                                         struct words *w);

/* Appends the words after "train" of that command, without --out and --resume. */
MUST_CHECK enum status study_train_words(const struct study_plan *plan, const struct study_run *run,
                                         const char *dir, struct words *w);

/* Makes the command that generates a data set in "<dir>/data/<name>". */
MUST_CHECK enum status study_data_command(const struct study_data *data, const char *program,
                                          const char *dir, struct words *w);

/* Makes the contents of plan.json: {"schema", "study": the spec, "cells": [{...}], "runs":
 * [{"cell", "repeat", "command"}]}. */
MUST_CHECK enum status study_plan_json(const struct study_plan *plan, const char *dir,
                                       json_t **out);

/* Returns whether `only` matches "<cell>/r<repeat>", or is NULL. */
bool study_run_matches(const struct study_plan *plan, const struct study_run *run,
                       const regex_t *only);

/* Prints the command of each run with wanted[i], in the order of execution. */
MUST_CHECK enum status study_plan_print(const struct study_plan *plan, const char *dir,
                                        const bool *wanted, FILE *out);
