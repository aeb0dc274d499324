/* Inside the engine: what its files share. */
#ifndef RUNNERS_ENGINE_PARTS_H
#define RUNNERS_ENGINE_PARTS_H

#include "model/exchange.h"
#include "model/loss_head.h"
#include "runners/engine.h"
#include "runners/flat_op.h"
#include "runners/reducer.h"
#include "runners/team.h"

/* Marks in device 0's stream between the parts of a step. */
enum mark {
    MARK_BEGIN,
    MARK_COPIED, /* weights to the other devices */
    MARK_INPUT,
    MARK_FORWARD,
    MARK_BACKWARD,
    MARK_SUMMED, /* gradients onto device 0 */
    MARK_UPDATE, /* begins */
    MARK_REDUCED,
    MARK_END,
    MARK_COUNT
};

struct engine {
    struct engine_config config;
    int n;        /* replicas */
    bool central; /* DataParallel: device 0 keeps the weights, computes the loss and steps */
    struct replica replica[DEVICES_MAX];
    struct team *team;
    struct comm *local[DEVICES_MAX]; /* between the replicas; NULL where there is one */
    struct comm *joint[DEVICES_MAX]; /* between all replicas of all ranks, where both are many */
    /* On devices beside the host: between all replicas, where each shares its gradients; and what
     * `lead` is. */
    struct comm *device[DEVICES_MAX], *device_lead;
    struct comm *lead; /* between the ranks, in memory of their first devices; not owned */
    struct reducer *reducer[DEVICES_MAX];
    struct event *mark[MARK_COUNT];
    struct step_times times;
    struct micro_batch current; /* what the team is at work on */
    enum status (*work)(struct engine *e, int i);
    /* DataParallel's. */
    struct rounding *rounding[DEVICES_MAX]; /* of a replica's gradients, before they are summed */
    struct flat_op sum;                     /* of two replicas' gradients, on device 0 */
    struct loss_head *head[USE_COUNT];      /* over the whole batch, on device 0 */
};

static inline int engine_ranks(const struct engine *e)
{
    return comm_size(e->config.ranks);
}

static inline enum status engine_mark(struct engine *e, enum mark m)
{
    const struct replica *r = &e->replica[0];
    return r->dev->backend->event_record(e->mark[m], network_stream(r->net));
}

/* Communicators (engine_comm.c): those of the host, and, once replica[].dev are open, those of the
 * devices; closed the other way round, with the devices between. */
MUST_CHECK enum status engine_comm_open(struct engine *e);
MUST_CHECK enum status engine_comm_open_devices(struct engine *e);
void engine_comm_close_devices(struct engine *e);
void engine_comm_close(struct engine *e);

/* What replica i's gradients are summed over, and what its sums of host memory during a step are;
 * NULL: nobody. */
struct comm *engine_gradient_comm(const struct engine *e, int i);
struct comm *engine_sum_comm(const struct engine *e, int i);

/* Runs work(e, i) for every replica i, each on its own thread. */
MUST_CHECK enum status engine_run(struct engine *e, enum status (*work)(struct engine *e, int i));

/* The state of a training batch's step, for the whole batch. */
struct step_state engine_state(const struct engine *e, const struct micro_batch *b);

/* Puts replica i's part of a batch in place: state, pixels, labels. */
MUST_CHECK enum status engine_input(struct engine *e, int i, const struct micro_batch *b,
                                    const struct step_state *state);

/* DataParallel's way through a batch (data_parallel.c). */
MUST_CHECK enum status data_parallel_open(struct engine *e);
void data_parallel_close(struct engine *e);
MUST_CHECK enum status data_parallel_batch(struct engine *e, struct loss_metrics *m);
MUST_CHECK enum status data_parallel_evaluate(struct engine *e, struct loss_metrics *m);

#endif
