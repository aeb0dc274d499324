/* Internal to runners/: optimizer steps of a run, from the loader to their record.
 *
 * step_begin puts a step's work on the devices; step_end reads its results. On asynchronous devices
 * up to engine_lag() + 1 steps are in flight, which means begun and not ended. step_end always
 * takes the oldest step, and makes the decisions that depend on that step's result. */
#pragma once

#include "results/schema.h"
#include "runners/session.h"

/* Sums over an optimizer step's images, on all ranks. All sums are doubles, so that the ranks can
 * reduce them as one array. Whole numbers stay exact. */
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
    SUM_STOP, /* number of ranks that were asked to stop */
    SUM_MAX
};

struct step_sums {
    double v[SUM_MAX];
};

/* step_sums_add_batch adds the counts of a batch, step_sums_add_loss the metrics of the loss. */
void step_sums_add_batch(struct step_sums *sums, const struct batch *b);
void step_sums_add_loss(struct step_sums *sums, const struct loss_metrics *m);

/* Sums `sums` over all ranks, and sets s->stopping if a rank was asked to stop. */
MUST_CHECK enum status step_sums_share(struct session *s, struct step_sums *sums);

/* Batches that the engine may still be reading. After it has read the oldest ones, they are
 * returned to the loader. With an asynchronous device, the newest ENGINE_HOLDS batches stay in use
 * instead of waiting until the engine has read them. */
struct batches_in_use {
    struct engine *engine;
    struct loader *loader;
    int n;
    struct batch *batch[ENGINE_HOLDS + 1]; /* the oldest first */
};

/* Adds `b`, the last batch passed to the engine, and releases the batches no longer in use. */
MUST_CHECK enum status batches_in_use_add(struct batches_in_use *h, struct batch *b);

/* Waits until the engine has read all batches, and returns them to the loader. */
MUST_CHECK enum status batches_in_use_release(struct batches_in_use *h);

struct pending_step {
    struct step_record rec; /* fields known so far */
    struct step_sums sums;  /* sums of this rank, without the loss */
    int batches;
    uint64_t seen; /* as in struct batch */
};

/* The steps of an epoch that have begun and not ended. */
struct step_queue {
    struct batches_in_use in_use;
    int64_t batch, step; /* position of the next step to begin, as in the session's state */
    int n;
    struct pending_step pending[ENGINE_LAG_MAX + 1]; /* the oldest first */
    /* The step before pending[0] has ended, and the device began pending[0] directly after that
     * step. */
    bool steady;
};

/* Starts an empty queue at the position of the session's state. */
void step_queue_begin(struct step_queue *q, const struct session *s);

/* Begins a step on the next batch or, with gradient accumulation, on the next few batches. The
 * queue must not be full: q->n <= engine_lag(). `since` is the time at which the host last ended a
 * step. */
MUST_CHECK enum status step_begin(struct session *s, struct step_queue *q, double since);

/* Waits for the oldest step, advances the session's state and describes the step in *rec. Sets
 * rec->total_s to 0 if only the caller knows when the previous step ended; the caller then fills it
 * in. */
MUST_CHECK enum status step_end(struct session *s, struct step_queue *q, struct step_record *rec);

/* step_percent returns part / of in percent, or 0 if `of` is 0. step_mean returns sum / count, or
 * NaN if `count` is 0. */
double step_percent(double part, double of);
double step_mean(double sum, double count);

/* Returns STATUS_OK for a finite loss, else STATUS_DIVERGED. `what` (printf) names the loss in the
 * message. */
MUST_CHECK enum status step_check_loss(double loss, const char *what, ...) PRINTF_LIKE(2, 3);
