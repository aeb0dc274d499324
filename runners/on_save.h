/* A command of the user's (--on-save) that rank 0 has run after it has saved something: a
 * checkpoint, an epoch, or steps that have reached the operating system.
 *
 * A helper process, started once, runs the command: no step waits, and no step forks. Commands run
 * one at a time; one more run of the command then serves all saves that happened meanwhile. A
 * command that fails or exceeds its time limit is repeated, after growing pauses. Failures never
 * fail the training run: they are warnings, events in steps.jsonl, and "on_save" in summary.json.
 */
#pragma once

#include "base/status.h"
#include "results/record.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct on_save;

struct on_save_config {
    const char *command; /* for a shell; {} becomes the run's folder */
    const char *dir;     /* the run's folder */
    double limit_s;      /* of a run of the command, and of the wait at the end; 1 or more */
};

/* Starts the helper. All strings must outlive it. */
MUST_CHECK enum status on_save_open(const struct on_save_config *c, struct on_save **out);

/* Asks for a run of the command. `checkpoint`: a checkpoint was written; otherwise only records
 * were written, and the command runs at most every 10 seconds unless `now`. Does not wait. Also
 * writes the events of commands that have failed since the last call. NULL: no effect. */
MUST_CHECK enum status on_save_request(struct on_save *o, struct record *record, int64_t step,
                                       bool checkpoint, bool now);

/* Asks for a last run of the command, waits until it has ended, `wait_s` seconds at most, and ends
 * the helper. A second call has no effect. NULL: no effect. */
MUST_CHECK enum status on_save_end(struct on_save *o, struct record *record, int64_t step,
                                   double wait_s);

/* Number of saves so far for which the command failed in every try. */
int64_t on_save_failures(const struct on_save *o);

/* {"failures": N, "message": the last failure's, or null}; NULL: no memory. */
json_t *on_save_json(const struct on_save *o);

/* Ends the helper, within two seconds, and frees. NULL: no effect. */
void on_save_close(struct on_save *o);

/* The helper's work, in a process of its own whose standard input is a socket to rank 0: runs the
 * command on request until rank 0 has ended or has asked for the last run. */
MUST_CHECK enum status on_save_serve(const struct on_save_config *c);
