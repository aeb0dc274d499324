/* Loads a run's folder. Every plot, comparison and report uses this.
 *
 * The folder may be of any origin, damaged, or still being written. The loader ignores a partial
 * last line and unknown keys. If a file differs from schema.h in any other way, loading fails with
 * STATUS_DATA, and the message names the file and the line. If a killed run was resumed from an
 * earlier checkpoint, the files may contain several records of one step, one epoch, or one rank's
 * epoch. The loader uses the last of them. */
#pragma once

#include "base/status.h"
#include "results/schema.h"

#include <jansson.h>
#include <stdint.h>

struct run {
    char *dir;       /* the folder, as the caller gave it */
    char *name;      /* last part of the folder's path, cleaned for display */
    json_t *info;    /* run.json, an object */
    json_t *summary; /* summary.json, an object; NULL: the run is not complete */
    json_t *outcome; /* outcome.json; NULL: there is none. It may be of an earlier attempt
                      * (results/outcome.h) */
    json_t *process; /* "process" of the last attempt; NULL: not recorded */
    int64_t n_steps;
    struct step_record *step; /* ascending by .step */
    int64_t n_epochs;
    struct epoch_record *epoch; /* ascending by .epoch */
    int64_t n_ranks;            /* number of rank records; 0: no epoch ran on several ranks */
    struct rank_record *rank;   /* (n_ranks) ascending by .epoch and .rank; .rank is numbered within
                                 * the record's attempt. The last epoch may lack records of some
                                 * ranks */
    int64_t n_telemetry;
    struct telemetry_record *telemetry; /* ascending by .sample and .device */
    json_t *attempts;    /* array: for each attempt its list of ranks, or null if it had one rank */
    json_t *infos;       /* array: run.json, then each resume event, which has the same members, and
                          * "step", the number of steps before the attempt; without attempts of
                          * which no step is left */
    int64_t resumes;     /* attempts after the first */
    bool strayed;        /* rows of ranks were left out: the event of their attempt is lost */
    int64_t attempt;     /* number of the last attempt of which a step is left */
    int64_t checkpoints; /* number of checkpoints written over all attempts, as far as recorded */
    double elapsed;      /* elapsed seconds over all attempts, up to the last recorded line */
};

/* Loads a run, which the caller frees with run_free. STATUS_DATA if there is no folder, or no
 * run.json in it. */
MUST_CHECK enum status run_load(const char *dir, struct run **run);

/* As run_load; STATUS_DATA also if rows are missing (run_is_whole). For what judges or averages. */
MUST_CHECK enum status run_load_whole(const char *dir, struct run **run);
void run_free(struct run *run); /* NULL is fine */

/* Removes the weights from a run's folder. They are large, and run_load does not need them. */
MUST_CHECK enum status run_drop_weights(const char *dir);

/* run_attempt_ranks returns the number of ranks of an attempt, or 0 if the attempt had one rank or
 * does not exist. Attempts are numbered from 0. run_rank_host returns the recorded host of a rank;
 * clean the text before printing it. */
int64_t run_attempt_ranks(const struct run *run, int64_t attempt);
const char *run_rank_host(const struct run *run, int64_t attempt, int64_t rank);

/* Returns the number of cores that the ranks on rank 0's host may use together; 0: not recorded. */
int64_t run_host_cores(const struct run *run, int64_t attempt);

/* Sets the number of hosts of an attempt's ranks, and the largest number of ranks on one host; both
 * are 1 if nothing is recorded. */
MUST_CHECK enum status run_hosts(const struct run *run, int64_t attempt, int64_t *hosts,
                                 int64_t *ranks_per_host);

/* Whether no row of the run is missing up to these numbers, or up to those of its summary. */
bool run_has_rows(const struct run *run, int64_t steps, int64_t epochs);
bool run_is_whole(const struct run *run);

/* The run with the info of attempt number `attempt`, from 0, in place of the first's; for reading
 * settings only. run_differs returns the first of the settings `keys`, which end with NULL, that
 * two runs recorded differently, and run_changed the first that an attempt recorded otherwise than
 * the first attempt; NULL: none. */
struct run run_attempt(const struct run *run, size_t attempt);
const char *run_differs(const struct run *a, const struct run *b, const char *const *keys);
const char *run_changed(const struct run *run, const char *const *keys);

/* Returns the number of images left out of training and validation because they could not be
 * decoded. An image is counted once for each epoch in which it was left out. */
int64_t run_left_out(const struct run *run);

/* Returns the first epoch whose validation reached --desired-acc, or NULL if there is no such epoch
 * or no such setting. The epoch's `elapsed` is the time to accuracy. */
const struct epoch_record *run_reached(const struct run *run);

/* Returns a setting of run.json's "config", or NULL if it is absent. */
const json_t *run_config(const struct run *run, const char *key);

/* Returns whether `ampscale record` made the run, and writes its metrics, "images_per_s 512.3, loss
 * 0.5"; "" if the run is incomplete. */
bool run_recorded(const struct run *run, char *out, size_t size);

/* Return a setting as text or as a count, or `otherwise` if the setting is absent or has another
 * type. */
const char *run_config_text(const struct run *run, const char *key, const char *otherwise);
int64_t run_config_count(const struct run *run, const char *key, int64_t otherwise);

/* Returns the number of warm-up steps at the start of the run, which statistics of throughput do
 * not count: --warmup-steps (default 10), but at most the number that stats_warmup allows. */
int64_t run_warmup(const struct run *run);

/* Returns the images of all steps after warm-up, divided by the sum of the steps' durations. This
 * includes waiting for data, but neither validation nor checkpoints. NAN if there is no such step.
 */
double run_images_per_s(const struct run *run);

enum { RUN_KEY_SIZE = 1024 };

/* Writes as JSON the settings that affect a run's results, except the seed. Runs with equal keys
 * are repeats of one experiment. If an older record lacks a setting, writes the setting's default.
 * The data set is identified by its number of images, because its folder may have moved. */
void run_key(const struct run *run, char *out, size_t size);
