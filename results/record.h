/* Writes a run's folder while the run trains.
 *
 *     TRY(record_create(dir, &info, &record));      or record_resume(...)
 *     ... record_step(record, &step) after each step; after each epoch record_rank(record, &rank)
 *         for each rank if there are several, and record_epoch(record, &epoch)
 *     CHECK(record_finish(record, summary));        only at an orderly end
 *     st = record_close(record);                    always
 *
 * The folder belongs to one process at a time, which locks it. Steps are passed to the operating
 * system at least once a second, so a kill loses at most one second of records. They are on disk at
 * every epoch's end, so a power failure loses at most one epoch. A run without summary.json is
 * incomplete. Only one thread at a time may call these functions. Exception: until record_finish or
 * record_close is called, one other thread may call record_telemetry at the same time. */
#pragma once

#include "base/status.h"
#include "results/schema.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct record;
struct run_info;

/* Functions that are called after each record, on the training thread, between two steps. They must
 * be fast, and cannot make the run fail. */
struct record_observer {
    void *state;
    /* The record in `dir` is open; the run begins or resumes before global step `step`. */
    void (*begin)(void *state, const char *dir, const struct run_info *info, int64_t step);
    void (*step)(void *state, const struct step_record *step);
    void (*epoch)(void *state, const struct epoch_record *epoch);
    /* Receives the last sample of `n` devices, one row per device. Called before the next call of
     * step, epoch or close. NULL: not called. */
    void (*telemetry)(void *state, const struct telemetry_record *row, int n);
    void (*close)(void *state, bool finished); /* `finished`: whether the run is complete */
};

/* The caller's part of run.json; this component adds the rest (schema, program version and commit,
 * start time, host, hardware, allowed environment variables). All of it is copied. */
struct run_info {
    int argc;
    char *const *argv;
    uint64_t seed;
    const char *device;      /* one line of text, from the `describe` function of struct backend */
    const json_t *config;    /* object: every setting, defaults included. Plots label a run by its
                              * "arch", "batch_size" and "precision" */
    const json_t *libraries; /* object of versions: {"oneDNN": "2.6.3"}; NULL: none */
    const json_t *ranks;     /* list of the ranks (schema_is_rank_list); NULL: there is one rank */
    const json_t *hardware;  /* object whose members are added to "host"; NULL: none */
    const json_t *ladder;    /* object: the rung in use, and the rungs that failed; NULL: the device
                              * has no ladder (engine/ladder.h) */
    const json_t *fusions;   /* list: the choices of FUSE_AUTO by form; NULL: there are none */
    const struct record_observer *observer; /* NULL: none. Must outlive the record */
    int lock; /* above 0: that of record_lock, which the record takes over */
};

/* Locks the folder of a run, which a record does by itself; waits some seconds for another process
 * that writes there. For what must be read between waiting and the record's beginning. */
MUST_CHECK enum status record_lock(const char *dir, int *lock);

/* Begins the record of a new run in `dir`, which is created if missing. STATUS_USAGE if the folder
 * already has a run or a checkpoint, or if another process writes to it. Call it after the
 * configuration and the data have been checked, because a run that cannot start must not leave a
 * folder. */
MUST_CHECK enum status record_create(const char *dir, const struct run_info *info,
                                     struct record **record);

/* Resumes the record in `dir` before global step `step` of epoch `epoch`. Removes a partial last
 * line and appends an event line; readers then ignore earlier attempts' records from that step and
 * epoch on. run.json is unchanged; the event line has the content that run.json would have for this
 * attempt. A summary.json is renamed to summary-<step>.json, because the run is no longer complete.
 * If the folder has no run, begins one. */
MUST_CHECK enum status record_resume(const char *dir, const struct run_info *info, int64_t step,
                                     int64_t epoch, struct record **record);

/* Appends a step or an epoch; sets `elapsed`, and writes nulls for a validation that did not take
 * place. STATUS_IO when this or an earlier line could not be written. */
MUST_CHECK enum status record_step(struct record *record, const struct step_record *step);
MUST_CHECK enum status record_epoch(struct record *record, const struct epoch_record *epoch);

/* Appends one rank's record of an epoch. Call it for rank 0 first. The record belongs to the epoch
 * that record_epoch records next, or to the unfinished epoch in which the run ends. Readers ignore
 * an epoch in which a rank is missing. STATUS_INVALID for a rank that run_info's `ranks` does not
 * list. */
MUST_CHECK enum status record_rank(struct record *record, const struct rank_record *rank);

/* Appends one sample of the devices, `n` rows in ascending order of device, and writes it to the
 * operating system. Fills in sample, attempt and elapsed. */
MUST_CHECK enum status record_telemetry(struct record *record, const struct telemetry_record *row,
                                        int n);

/* Waits until all records but telemetry are on disk. Call it before writing a checkpoint, so that a
 * resumed run has all steps of its checkpoint. */
MUST_CHECK enum status record_sync(struct record *record);

/* Appends an event, {"event": KIND, ...}, to the steps' file, and takes ownership of `event`.
 * Readers ignore kinds that they do not know. */
MUST_CHECK enum status record_event(struct record *record, json_t *event);

/* Returns the number of times so far that record_step or record_epoch has written to the operating
 * system. */
int64_t record_flushes(const struct record *record);

/* Records that a checkpoint after `step` steps is in the folder, so that a resumed run can report a
 * missing checkpoint. */
MUST_CHECK enum status record_checkpoint(struct record *record, int64_t step);

/* Waits until all other files are on disk. Then writes summary.json: `summary` with "schema",
 * "finished" and "elapsed" added. Then writes the outcome (results/outcome.h), with the summary's
 * "ended_by" as its message. */
MUST_CHECK enum status record_finish(struct record *record, const json_t *summary);

/* Writes the outcome of an attempt that ends with failure `st`; ignores a failure to write it. */
void record_fail(struct record *record, enum status st, const char *message);

/* Writes pending records, and closes and frees the record. NULL: no effect. */
MUST_CHECK enum status record_close(struct record *record);
