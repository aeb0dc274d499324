/* Reading a run's folder again and again while it is being written.
 *
 * What has been read is not read again: each file is read on from the last whole line. A line
 * without its end is left for the next time. A run that goes on after a pause is followed, and one
 * that replaces another in the same folder is read from its beginning.
 *
 * Of the steps and of the telemetry only the latest FOLLOW_KEEP are kept, and of a long file that
 * is there already only the end and the events are looked at; epochs and ranks are all there. */
#ifndef RESULTS_FOLLOW_H
#define RESULTS_FOLLOW_H

#include "results/run.h"

enum { FOLLOW_KEEP = 2048 };

struct follow;

/* A folder without a run is STATUS_DATA, and so are records that are not as schema.h says. */
MUST_CHECK enum status follow_open(const char *dir, struct follow **out);

/* Reads what has come since. After a failure the next call begins at the beginning. */
MUST_CHECK enum status follow_poll(struct follow *f);

/* The run as it was read last, NULL after a failure; valid until the next call of follow_poll or
 * follow_close. */
const struct run *follow_run(const struct follow *f);

/* Seconds since a record came: by the files' times at first, then by this process's clock. */
double follow_quiet(const struct follow *f);

void follow_close(struct follow *f); /* NULL is fine */
#endif
