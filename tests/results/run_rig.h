/* Writes the records of runs, for tests. The test fails if a function fails. */
#pragma once

#include "results/record.h"
#include "results/run.h"
#include "scratch.h"

/* A folder, and what record_create needs to begin a run of one rank in it. */
struct run_rig {
    char dir[SCRATCH_MAX];
    json_t *config; /* "arch": "resnet18", "batch_size": 32 */
    struct run_info info;
};

/* cmocka's set-up and tear-down. *state points to a struct run_rig. */
int run_rig_set_up(void **state);
int run_rig_tear_down(void **state);
#define RUN_RIG_TEST(test) cmocka_unit_test_setup_teardown(test, run_rig_set_up, run_rig_tear_down)

/* Begins to record a run of n ranks, two on each of the hosts <host>0, <host>1, ... If `epoch` > 0,
 * resumes the run at this epoch and at step 10 * epoch instead. */
struct record *run_rig_open(const struct run_rig *f, int n, const char *host, int64_t epoch);

/* Returns a record of 10 steps of 32 images. The parts of the time sum to 3.75 s. */
struct rank_record run_rig_rank(int64_t epoch, int64_t rank);

/* Records an epoch: for each of n ranks, the record that run_rig_rank returns. */
void run_rig_add_epoch(struct record *r, int64_t epoch, int n);

/* Appends a line to the file of the schema's records in the folder of a run. */
void run_rig_append(const char *dir, const struct schema *schema, const void *record);

/* Loads the run that is in a folder; the caller frees it. */
struct run *run_rig_load(const char *dir);

/* Writes a whole run into `dir`, which must exist. The run began at 2024-01-31T12:00:00Z. It has
 * two epochs of two steps, and a loss scale. Each step has 32 images and takes 0.5 s. Step 1
 * overflows. The loss of step 2 is not finite. Validation after the second epoch has 78 % top-1. */
void run_rig_write(const char *dir);

/* Fails unless a number is within a relative error of 1e-12 of the expected number. */
void assert_close(double got, double want);
