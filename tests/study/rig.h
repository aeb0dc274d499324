/* A small study and made-up results, for tests. A failure fails the test. */
#pragma once

#include "study/study_analyse.h"

/* One device, two as dp and two as ddp; on tensors and on images; weak at 32, strong at 64. */
extern const char rig_study[];

struct rig {
    struct study_spec spec;
    struct study_plan plan;
    struct study_result *result; /* (plan.n_cells) */
    struct analysis analysis;    /* after rig_analyse */
};

/* cmocka's set-up and tear-down: *state is a struct rig whose cells have no result. */
int rig_begin(void **state);
int rig_end(void **state);

int64_t rig_cell(const struct rig *r, const char *name);

/* Gives a cell three runs of 0.99, 1 and 1.01 times the images per second, whose steps compute all
 * the time but for the shares of data and communication. */
void rig_run(struct rig *r, const char *cell, double images_per_s, double data, double comm);

/* Analyses, and returns a cell of the result. */
void rig_analyse(struct rig *r);
const struct analysis_cell *rig_result(const struct rig *r, const char *cell);
