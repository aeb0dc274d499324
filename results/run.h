/* Reading a run's folder back: the base of every plot, comparison and report.
 *
 * The folder may be somebody else's, damaged, or still being written. A torn last line and unknown
 * keys are ignored; all else that is not as schema.h says is STATUS_DATA, with the file and the
 * line. A step recorded more than once (a run that was killed and went on from an earlier
 * checkpoint) counts as recorded last, and so do an epoch and a rank's part in it. */
#ifndef RESULTS_RUN_H
#define RESULTS_RUN_H

#include "base/status.h"
#include "results/schema.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct run {
    char *dir;       /* as given */
    char *name;      /* the folder's own name, cleaned for display */
    json_t *info;    /* run.json, an object */
    json_t *summary; /* summary.json, an object; NULL: the run did not end in order */
    int64_t n_steps;
    struct step_record *step; /* ascending by .step */
    int64_t n_epochs;
    struct epoch_record *epoch; /* ascending by .epoch */
    int64_t n_ranks;            /* records of ranks; 0: no epoch was trained by several */
    struct rank_record *rank; /* (n_ranks) ascending by .epoch and .rank; each known to its attempt.
                               * The last epoch may lack ranks, and attempts may differ in them */
    int64_t n_telemetry;
    struct telemetry_record *telemetry; /* ascending by .sample and .device */
    json_t *attempts;    /* array: the list of ranks of each attempt, or null for one rank */
    int64_t resumes;     /* attempts after the first */
    int64_t checkpoints; /* written so far, over all attempts, as far as is recorded */
    double elapsed;      /* seconds over all attempts, up to the last line */
};

/* A folder without run.json, or no folder, is STATUS_DATA. The caller frees with run_free. */
MUST_CHECK enum status run_load(const char *dir, struct run **run);
void run_free(struct run *run); /* NULL is fine */

/* Removes the weights from a run's folder: its record does not need them, and they are large. */
MUST_CHECK enum status run_drop_weights(const char *dir);

/* The number of ranks that an attempt (from 0) had; 0 where it had one or there is no such attempt.
 * The host that one of them ran on, as recorded: clean it before it is shown. */
int64_t run_attempt_ranks(const struct run *run, int64_t attempt);
const char *run_rank_host(const struct run *run, int64_t attempt, int64_t rank);

/* Cores that the ranks of rank 0's host may use together; 0 where nothing is recorded. */
int64_t run_host_cores(const struct run *run, int64_t attempt);

/* How many hosts an attempt's ranks ran on, and the most ranks that one of them had; 1 and 1 where
 * nothing is recorded. */
MUST_CHECK enum status run_hosts(const struct run *run, int64_t attempt, int64_t *hosts,
                                 int64_t *ranks_per_host);

/* Images that could not be decoded and were left out, in training and validation of all epochs; one
 * that several epochs met counts each time. */
int64_t run_left_out(const struct run *run);

/* A setting of run.json's "config"; `otherwise` where it is absent or of another type. */
const char *run_config_text(const struct run *run, const char *key, const char *otherwise);
int64_t run_config_count(const struct run *run, const char *key, int64_t otherwise);
#endif
