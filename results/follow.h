/* Reads a run's folder repeatedly while the run is writing it.
 *
 * Each call of follow_poll reads the lines appended since the last call. A line without its newline
 * is read when it is complete. When the run resumes, reading continues. When another run replaces
 * the run in the same folder, the new run is read from its beginning.
 *
 * Only the latest FOLLOW_KEEP steps and telemetry samples are kept. If a file is already long when
 * it is first read, only its events and its last lines are read. Epochs and ranks are kept
 * completely. */
#pragma once

#include "results/run.h"

enum { FOLLOW_KEEP = 2048 };

struct follow;

/* Opens a run's folder. STATUS_DATA if the folder has no run, or if its records do not have the
 * form of schema.h. */
MUST_CHECK enum status follow_open(const char *dir, struct follow **out);

/* Reads new records. After a failure the next call reads the run from its beginning. */
MUST_CHECK enum status follow_poll(struct follow *f);

/* Returns the run as last read; NULL after a failure. Valid until the next call of follow_poll or
 * follow_close. */
const struct run *follow_run(const struct follow *f);

/* Returns the seconds since the last new record. The time of a record that the first call of
 * follow_poll read is the modification time of its file. The time of a later record is the time at
 * which this process read it. */
double follow_quiet(const struct follow *f);

void follow_close(struct follow *f); /* NULL is fine */
