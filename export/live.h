/* Writes the records of a run in other programs' formats while the run trains. For this, it
 * observes what is written to the run's record.
 *
 *   TensorBoard  a new event file in DIR/<run> for each attempt of the run
 *   Prometheus   a textfile, replaced every few seconds
 *
 * If a file of one of the two formats cannot be written, one warning goes to `warnings`, and
 * that format is not written any more. `ampscale export` can write it later from the record. */
#pragma once

#include "base/status.h"
#include "results/record.h"

#include <stdio.h>

struct live_config {
    const char *tensorboard; /* folder; NULL: no event files. Must outlive the run */
    const char *prometheus;  /* file; NULL: no textfile. Must outlive the run */
    const char *run_name;    /* name of the run in both; NULL: for the textfile the folder as given,
                              * for event files its last part. Must outlive the run */
    FILE *warnings;
};

struct live;

/* Makes an observer. The observer writes nothing before the record begins. The caller frees it with
 * live_free after closing the record. */
MUST_CHECK enum status live_create(const struct live_config *c, struct live **out);
const struct record_observer *live_observer(const struct live *l);
void live_free(struct live *l); /* NULL is fine */
