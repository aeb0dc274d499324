/* Writes a run of several ranks to a temporary folder, for tests. The test fails if a function
 * fails. */
#pragma once

#include "results/record.h"
#include "results/run.h"
#include "scratch.h"

struct rank_run {
    char dir[SCRATCH_MAX];
    json_t *config;
};

/* cmocka's set-up and tear-down. *state points to a struct rank_run. */
int rank_run_begin(void **state);
int rank_run_end(void **state);

/* Begins to record a run of n ranks, two on each of the hosts <host>0, <host>1, ... If `from` > 0,
 * resumes the run at epoch `from` instead. */
struct record *rank_run_open(const struct rank_run *f, int n, const char *host, int64_t from);

/* Returns a record of 10 steps of 32 images. The parts of the time sum to 3.75 s. */
struct rank_record rank_run_row(int64_t epoch, int64_t rank);

/* Records an epoch: for each of n ranks, the record that rank_run_row returns. */
void rank_run_add_epoch(struct record *r, int64_t epoch, int n);

struct run *rank_run_load(const struct rank_run *f);
