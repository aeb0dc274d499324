/* Inside runners/: what a run says of itself before it trains. */
#ifndef RUNNERS_ANNOUNCE_H
#define RUNNERS_ANNOUNCE_H

#include "runners/session.h"

/* Network, devices, ranks, memory, injected faults, and where the record goes; to s->out. */
void announce_run(const struct session *s);

#endif
