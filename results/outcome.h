/* Records how a run ended, in its outcome.json, and finds out whether a run without this file still
 * runs.
 *
 * A run writes the file when it ends by success, a signal, divergence, an error or the loss of a
 * rank. A process that is killed writes no file. A reader then looks for the process whose number
 * run.json contains, and finds that it no longer runs. The file names its attempt; readers ignore
 * the file of an earlier attempt. */
#pragma once

#include "results/run.h"

#include <stdio.h>

enum run_state {
    RUN_UNKNOWN,  /* not recorded, or the process ran on another host */
    RUN_ALIVE,    /* the run's process still runs */
    RUN_GONE,     /* the process has ended without an outcome: it was killed */
    RUN_DONE,     /* it completed all of its epochs or steps */
    RUN_ACCURATE, /* it reached --desired-acc */
    RUN_SIGNAL,   /* a signal asked it to end */
    RUN_DIVERGED,
    RUN_LOST_RANK,
    RUN_ERROR,
    RUN_STATE_MAX,
};

/* Returns a word or two for a table: "done", "diverged", "killed", "running" ... */
const char *run_state_str(enum run_state state);

/* Writes dir/outcome.json: the run's status `st` and its explanation `message`, which for STATUS_OK
 * is "ended_by" of summary.json. May be called from any thread. */
MUST_CHECK enum status outcome_write(const char *dir, int64_t attempt, enum status st,
                                     const char *message);

/* Describes this process for run.json: its number, its start time and its system. Together they
 * distinguish it from another process with the same number. */
json_t *outcome_process(void);

/* Returns the state of the last attempt according to its outcome; RUN_UNKNOWN without an
 * outcome. */
enum run_state outcome_recorded(const struct run *run);

/* If there is an outcome, returns the same as outcome_recorded. Without an outcome, returns
 * RUN_ALIVE or RUN_GONE if the run's process was started on this system, else RUN_UNKNOWN. */
enum run_state outcome_state(const struct run *run);

/* Writes a state of `run` as a sentence without a full stop, cleaned for display: "diverged, exit
 * code 1: training diverged at ...", "killed: process 71 of host a ended and wrote no outcome". */
void outcome_sentence(const struct run *run, enum run_state state, char *out, size_t size);

/* Prints "note: run 'x' is not complete: ..." if the run is not complete; `out` may be NULL. */
void outcome_note(const struct run *run, FILE *out);
