/* Inside runners/: what a run says of itself before it trains, and when it has ended in order. */
#ifndef RUNNERS_RUN_SUMMARY_H
#define RUNNERS_RUN_SUMMARY_H

#include "results/run.h"
#include "runners/session.h"

/* Network, devices, ranks, memory, injected faults, and where the record goes; to s->out. */
void run_summary_begin(const struct session *s);

/* What the run came to: throughput, by its summary, and accuracy. */
void run_summary_end(const struct session *s, const json_t *summary);

/* Of several ranks: which is slow, by its record, and why that counts; or that none is. */
MUST_CHECK enum status run_summary_straggler(const struct session *s, const struct run *run);

#endif
