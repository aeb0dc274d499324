/* Inside runners/: what a run says of itself before it trains, and when it has ended in order. */
#ifndef RUNNERS_ANNOUNCE_H
#define RUNNERS_ANNOUNCE_H

#include "results/run.h"
#include "runners/session.h"

/* Network, devices, ranks, memory, injected faults, and where the record goes; to s->out. */
void announce_run(const struct session *s);

/* What the run came to: throughput, by its summary, and accuracy. */
void announce_end(const struct session *s, const json_t *summary);

/* Of several ranks: which is slow, by its record, and why that counts; or that none is. */
MUST_CHECK enum status announce_slow_rank(const struct session *s, const struct run *run);

#endif
