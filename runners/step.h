/* Inside runners/: optimizer steps of a run, from the loader to what is recorded of them.
 *
 * A step is begun, which puts it on the devices, and ended, which reads what it came to. Devices
 * that go on beside the host have up to engine_lag() + 1 steps begun and not ended; what is decided
 * by a step's result is decided when it is ended, in order. */
#ifndef RUNNERS_STEP_H
#define RUNNERS_STEP_H

#include "results/schema.h"
#include "runners/batches_in_use.h"
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

/* What the loader and the loss say. */
void step_sums_add_batch(struct step_sums *sums, const struct batch *b);
void step_sums_add_loss(struct step_sums *sums, const struct loss_metrics *m);

/* Over all ranks. */
MUST_CHECK enum status step_sums_share(struct session *s, struct step_sums *sums);

struct pending_step {
    struct step_record rec; /* what is known so far */
    struct step_sums sums;  /* this rank's, without what its loss says */
    int batches;
    uint64_t seen; /* as in struct batch */
};

/* Steps of an epoch that were begun and not ended. */
struct step_queue {
    struct batches_in_use in_use;
    int64_t batch, step; /* as in the session's state, of the next to begin */
    int n;
    struct pending_step pending[ENGINE_LAG_MAX + 1]; /* the oldest first */
    bool steady; /* the device came to the oldest from one that has been ended */
};

/* No step is under way: the queue begins where the session's state stands. */
void step_queue_begin(struct step_queue *q, const struct session *s);

/* Begins to train on the next batch, or on the next few with accumulation. There must be room:
 * q->n <= engine_lag(). `since` is when the host ended a step last. */
MUST_CHECK enum status step_begin(struct session *s, struct step_queue *q, double since);

/* Waits for the oldest step, moves the session's state on and describes the step. rec->total_s is 0
 * where only the caller knows when the step before ended. */
MUST_CHECK enum status step_end(struct session *s, struct step_queue *q, struct step_record *rec);

/* In percent, and the mean of a loss; over nothing they are 0 and not a number. */
double step_percent(double part, double of);
double step_mean(double sum, double count);

/* Seconds of the monotonic clock. */
double step_now(void);

#endif
