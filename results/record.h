/* Writing a run's folder while it trains.
 *
 *     TRY(record_create(dir, &info, &record));      or record_resume(...)
 *     ... record_step(record, &step) after each step; after each epoch record_rank(record, &rank)
 *         for each of several ranks, and record_epoch(record, &epoch)
 *     CHECK(record_finish(record, summary));        only at an orderly end
 *     st = record_close(record);                    always
 *
 * The folder belongs to one process at a time (a lock on the folder itself says so). Steps reach
 * the operating system at least once a second and the disk at every epoch's end, so that a kill
 * loses a second of records and a power cut an epoch's; a run without summary.json did not end in
 * order. Not for two threads at once, but for record_telemetry, which one thread of its own may
 * call until record_finish or record_close. */
#ifndef RESULTS_RECORD_H
#define RESULTS_RECORD_H

#include "base/status.h"
#include "results/schema.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct record;
struct run_info;

/* Somebody who is told what is recorded, after it was: by the thread that trains, between two
 * steps, so that whatever is done there must take next to no time. It cannot fail a run. */
struct record_observer {
    void *state;
    /* The record in `dir` is open; the run begins or goes on before global step `step`. */
    void (*begin)(void *state, const char *dir, const struct run_info *info, int64_t step);
    void (*step)(void *state, const struct step_record *step);
    void (*epoch)(void *state, const struct epoch_record *epoch);
    /* What n devices did lately, a row each: told before the step, the epoch or the end that comes
     * next. NULL: not wanted. */
    void (*telemetry)(void *state, const struct telemetry_record *row, int n);
    void (*close)(void *state, bool finished); /* finished: the run ended in order */
};

/* What the caller knows of a run; the rest of run.json (schema, program version and commit, start
 * time, host, hardware, allowed environment variables) is gathered here. All of it is copied. */
struct run_info {
    int argc;
    char *const *argv;
    uint64_t seed;
    const char *device;      /* struct backend's describe: one line */
    const json_t *config;    /* object: every setting, defaults included. Plots name a run by its
                              * "arch", "batch_size" and "precision" */
    const json_t *libraries; /* object of versions: {"oneDNN": "2.6.3"}; NULL: none */
    const json_t *ranks;     /* as schema_is_rank_list says; NULL: there is one */
    const json_t *hardware;  /* object whose members join those of "host"; NULL: none */
    const json_t *ladder;    /* object: how the device computes, and which ways failed before; NULL:
                              * it has one way */
    const struct record_observer *observer; /* NULL: none. Outlives the record */
};

/* Begins the record of a new run in `dir`, which is made if need be. A folder that holds a run
 * already is STATUS_USAGE, one that another process writes to STATUS_IO. Call it once the
 * configuration and the data have been checked: what cannot run should leave no run behind. */
MUST_CHECK enum status record_create(const char *dir, const struct run_info *info,
                                     struct record **record);

/* Goes on with the record in `dir` before global step `step` of epoch `epoch`: an event line says
 * so, a torn last line is cut off, and readers no longer count what an earlier attempt recorded
 * from there on. run.json stays; the event line holds what it would say of this attempt. A
 * summary.json is renamed to summary-<step>.json, for the run is no longer at its end. A folder
 * without a run begins one. */
MUST_CHECK enum status record_resume(const char *dir, const struct run_info *info, int64_t step,
                                     int64_t epoch, struct record **record);

/* Appends a step or an epoch; `elapsed` is filled in here, and so are nulls for an epoch that was
 * not validated. STATUS_IO when this or an earlier line could not be written. */
MUST_CHECK enum status record_step(struct record *record, const struct step_record *step);
MUST_CHECK enum status record_epoch(struct record *record, const struct epoch_record *epoch);

/* Appends what one rank did in the epoch that is about to be recorded, or that the run ends in the
 * midst of: rank 0 first, for an epoch
 * with a rank missing counts for nothing. STATUS_INVALID for a rank that the run's info did not
 * announce. */
MUST_CHECK enum status record_rank(struct record *record, const struct rank_record *rank);

/* Appends what the devices did at one moment, and hands it to the operating system: `n` rows, their
 * devices ascending, of which sample, attempt and elapsed are filled in here. */
MUST_CHECK enum status record_telemetry(struct record *record, const struct telemetry_record *row,
                                        int n);

/* Waits until all of it is on disk, telemetry aside. Call it before writing a checkpoint, lest a
 * resumed run lack steps that its checkpoint has. */
MUST_CHECK enum status record_sync(struct record *record);

/* Notes that a checkpoint of `step` steps stands in the folder: one that is missing later is a loss
 * and no young run. */
MUST_CHECK enum status record_checkpoint(struct record *record, int64_t step);

/* Writes summary.json, an object to which "schema", "finished" and "elapsed" are added, once
 * everything else is safe on disk. */
MUST_CHECK enum status record_finish(struct record *record, const json_t *summary);

/* Writes out what is pending and frees. NULL is fine. */
MUST_CHECK enum status record_close(struct record *record);
#endif
