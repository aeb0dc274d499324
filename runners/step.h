/* Inside runners/: one optimizer step of a run, from the loader to what is recorded of it. */
#ifndef RUNNERS_STEP_H
#define RUNNERS_STEP_H

#include "results/schema.h"
#include "runners/session.h"

/* Sums over an optimizer step's images, on all ranks. Doubles throughout, so that they travel as
 * one array; they hold whole numbers exactly. */
enum step_sum {
    SUM_LOSS,
    SUM_COUNT,
    SUM_TOP1,
    SUM_TOP5,
    SUM_IMAGES,
    SUM_FILES,
    SUM_BYTES,
    SUM_BAD,
    SUM_DECODE_NS,
    SUM_STOP, /* ranks that were asked to stop */
    SUM_MAX
};

struct step_sums {
    double v[SUM_MAX];
};

void step_sums_add(struct step_sums *sums, const struct batch *b, const struct loss_metrics *m);

/* Over all ranks. */
MUST_CHECK enum status step_sums_share(struct session *s, struct step_sums *sums);

/* Trains on the next batch, or on the next few with accumulation, and moves the state on. `begun`
 * is when the step before ended; rec->total_s is left to the caller, who knows when this one does.
 */
MUST_CHECK enum status step_run(struct session *s, double begun, struct step_record *rec);

/* Seconds of the monotonic clock. */
double step_now(void);

#endif
