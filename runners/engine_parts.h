/* Inside the engine: what its files share. */
#ifndef RUNNERS_ENGINE_PARTS_H
#define RUNNERS_ENGINE_PARTS_H

#include "base/thread_pool.h"
#include "model/exchange.h"
#include "model/loss_head.h"
#include "runners/engine.h"
#include "runners/flat_op.h"
#include "runners/gpu_group.h"
#include "runners/reducer.h"

/* Marks in device 0's stream between the parts of a step. */
enum mark {
    MARK_BEGIN,
    MARK_COPIED, /* weights to the other devices */
    MARK_INPUT,
    MARK_FORWARD,
    MARK_BACKWARD,
    MARK_SUMMED, /* gradients onto device 0 */
    MARK_BATCH_COUNT,
    MARK_UPDATE = MARK_BATCH_COUNT, /* begins; this and the following once a step */
    MARK_REDUCED,
    MARK_END,
    MARK_COUNT
};

/* A step on its way: what devices copy from and to, in host memory of theirs, and its marks. */
struct in_flight {
    enum program_use use;
    int of;                                    /* micro-batches that were begun */
    struct step_state *given[DEVICES_MAX];     /* per micro-batch */
    struct loss_metrics *metrics[DEVICES_MAX]; /* per micro-batch */
    struct step_outcome *outcome;              /* of device 0 */
    struct event **mark;                       /* see in_flight_mark */
    struct event *done[DEVICES_MAX];           /* all of it has been written */
    double drag_s;                             /* for how long an injected fault held it up */
};

enum {
    FLIGHTS_MAX = ENGINE_LAG_MAX + 2
}; /* one more, since a step's time begins at another's end */

struct engine {
    struct engine_config config;
    int n;        /* replicas */
    bool central; /* DataParallel: device 0 keeps the weights, computes the loss and steps */
    struct replica replica[DEVICES_MAX];
    struct thread_pool *pool;
    struct comm *local[DEVICES_MAX]; /* between the replicas; NULL where there is one */
    struct comm *joint[DEVICES_MAX]; /* between all replicas of all ranks, where both are many */
    /* On devices beside the host: between all replicas, where each shares its gradients; and what
     * `lead` is. */
    struct comm *device[DEVICES_MAX], *device_lead;
    struct gpu_group group; /* what they are */
    struct comm *lead;      /* between the ranks, in memory of their first devices; not owned */
    struct reducer *reducer[DEVICES_MAX];
    int lag;
    double drag_owed_s; /* for how long an injected fault has yet to hold steps up */
    bool keeps_scale;
    struct scaler_rule rule;
    struct in_flight in_flight[FLIGHTS_MAX];
    int64_t begun, ended; /* steps whose work is on the streams, and which have been read */
    int64_t batches;      /* begun */
    struct event *read[DEVICES_MAX][ENGINE_HOLDS + 1]; /* the last batches' memory */
    struct micro_batch current;                        /* what the team is at work on */
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

/* Flights are numbered from 0; number e->begun is the one at hand. */
static inline struct in_flight *engine_in_flight(struct engine *e, int64_t number)
{
    return &e->in_flight[number % (e->lag + 2)];
}

static inline struct event *in_flight_mark(const struct in_flight *f, int micro_batch, enum mark m)
{
    int once = MARK_COUNT - MARK_BATCH_COUNT;
    int at =
        m < MARK_UPDATE ? once + micro_batch * MARK_BATCH_COUNT + (int)m : (int)m - MARK_UPDATE;
    return f->mark[at];
}

static inline enum status engine_mark(struct engine *e, enum mark m)
{
    const struct replica *r = &e->replica[0];
    struct event *mark = in_flight_mark(engine_in_flight(e, e->begun), e->current.number, m);
    return r->dev->backend->event_record(mark, network_stream(r->net));
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

/* Opens and closes the memory of in-flight steps (in_flight.c). */
MUST_CHECK enum status in_flight_open(struct engine *e);
void in_flight_close(struct engine *e);

/* Reads the results of a step whose work is over. */
void in_flight_read(struct engine *e, int64_t number, struct step_result *r);

/* Runs work(e, i) for every replica i, each on its own thread. */
MUST_CHECK enum status engine_run(struct engine *e, enum status (*work)(struct engine *e, int i));

/* The state of a training batch's step, for the whole batch. */
struct step_state engine_state(const struct engine *e, const struct micro_batch *b);

/* Commits the faults that are injected into this step: the bits of replica i's values that flip,
 * and a pause after the first replica's forward pass. */
MUST_CHECK enum status engine_flips(struct engine *e, int i, enum param_value v);
MUST_CHECK enum status engine_drag(struct engine *e);

/* Where replica i's share of the micro-batch at hand leaves what its loss says. */
static inline struct loss_metrics *engine_metrics(struct engine *e, int i)
{
    return &engine_in_flight(e, e->begun)->metrics[i][e->current.number];
}

/* Puts replica i's part of a batch in place: state, pixels, labels. */
MUST_CHECK enum status engine_input(struct engine *e, int i, const struct micro_batch *b,
                                    const struct step_state *state);

/* DataParallel's way through a batch (data_parallel.c). */
MUST_CHECK enum status data_parallel_open(struct engine *e);
void data_parallel_close(struct engine *e);
MUST_CHECK enum status data_parallel_batch(struct engine *e);
MUST_CHECK enum status data_parallel_evaluate(struct engine *e);

#endif
