/* Runs the user's command (--on-save) each time rank 0 has saved something: a checkpoint, the
 * record of an epoch, or records of steps that have reached the operating system.
 *
 * A helper process, started once, runs the command, so no step waits or forks. Only one run of the
 * command is active at a time. If rank 0 saves more during that run, the helper runs the command
 * once more afterwards for all of these saves. The helper repeats a command that fails or exceeds
 * its time limit, after growing pauses. Failures never fail the training run: they are warnings,
 * events in steps.jsonl, and "on_save" in summary.json. */
#pragma once

#include "base/status.h"
#include "results/record.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct on_save;

struct on_save_config {
    const char *command; /* run by a shell; {} becomes the run's folder */
    const char *dir;     /* the run's folder */
    double limit_s;      /* time limit of a run of the command; also of the wait for the last run
                          * when training ends; seconds, at least 1 */
};

/* Starts the helper. All strings must outlive it. */
MUST_CHECK enum status on_save_open(const struct on_save_config *c, struct on_save **out);

/* Asks for a run of the command, and does not wait for it. `checkpoint`: a checkpoint was written.
 * Otherwise only records were written, and the command runs at most every 10 seconds, unless `now`
 * is true. Also records, as events, the runs of the command that have failed since the last call.
 * If `o` is NULL, does nothing. */
MUST_CHECK enum status on_save_request(struct on_save *o, struct record *record, int64_t step,
                                       bool checkpoint, bool now);

/* Asks for a last run of the command, waits at most `wait_s` seconds for its end, and ends the
 * helper. A second call does nothing. If `o` is NULL, does nothing. */
MUST_CHECK enum status on_save_end(struct on_save *o, struct record *record, int64_t step,
                                   double wait_s);

/* Returns the number of saves so far for which the command failed in every try. */
int64_t on_save_failures(const struct on_save *o);

/* Returns {"failures": N, "message": the message of the last failure, or null}. */
json_t *on_save_json(const struct on_save *o);

/* Ends the helper, within two seconds, and frees `o`. NULL: no effect. */
void on_save_close(struct on_save *o);

/* Does the work of the helper, in its own process, whose standard input is a socket to rank 0. Runs
 * the command on request until rank 0 has ended or has asked for the last run. */
MUST_CHECK enum status on_save_serve(const struct on_save_config *c);
