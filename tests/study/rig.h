/* A small study with invented results, for tests. A failure fails the test. */
#pragma once

#include "study/study_analyse.h"

/* A study in JSON. Modes: nd with one device, dp and ddp with two devices. Data: synthetic tensors
 * and images. Batch: 32 for weak scaling, 64 for strong scaling. */
extern const char rig_study[];

struct rig {
    struct study_spec spec;
    struct study_plan plan;
    struct study_result *result; /* (plan.n_cells) */
    struct analysis analysis;    /* after rig_analyse */
};

/* Set-up and tear-down for cmocka; *state is a struct rig whose cells have no results. */
int rig_begin(void **state);
int rig_make(void **state, const char *study); /* the same for another study */
int rig_end(void **state);

int64_t rig_cell(const struct rig *r, const char *name);

/* Gives a cell three runs with throughputs of 0.99, 1 and 1.01 times `images_per_s`. `data` and
 * `comm` are the fractions of each step spent in waiting for data and in communication. The rest of
 * the step is computation. */
void rig_run(struct rig *r, const char *cell, double images_per_s, double data, double comm);

/* rig_analyse analyses the results; rig_result then returns a cell of the analysis. */
void rig_analyse(struct rig *r);
const struct analysis_cell *rig_result(const struct rig *r, const char *cell);
