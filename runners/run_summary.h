/* Internal to runners/: the lines printed before training and after a completed run, and the
 * summary of the run. */
#pragma once

#include "runners/session.h"

/* Prints network, devices, ranks, memory, injected faults and the record's folder to s->out. */
void run_summary_begin(const struct session *s);

/* Completes the record of a run, and prints its totals: throughput, accuracy, time, straggler. All
 * ranks call it. */
MUST_CHECK enum status run_summary_finish(struct session *s);
