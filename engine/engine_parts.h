/* Declarations that the files of engine/ share; not for other components. */
#pragma once

#include "base/thread_pool.h"
#include "engine/engine.h"
#include "engine/flat_op.h"
#include "engine/gpu_group.h"
#include "engine/reducer.h"
#include "model/exchange.h"
#include "model/loss_head.h"

/* Events in device 0's stream between the parts of a step, from which the times of the parts are
 * computed. */
enum mark {
    MARK_BEGIN,
    MARK_COPIED, /* weights copied to the other devices */
    MARK_INPUT,
    MARK_FORWARD,
    MARK_BACKWARD,
    MARK_SUMMED, /* gradients summed onto device 0 */
    MARK_BATCH_COUNT,
    MARK_UPDATE = MARK_BATCH_COUNT, /* the update begins; this mark and the marks after it occur
                                     * once per step */
    MARK_REDUCED,
    MARK_END,
    MARK_COUNT
};

/* A step whose work is on the streams: its marks, and the host memory from and to which devices
 * copy. */
struct in_flight {
    enum program_use use;
    int of;                                    /* micro-batches begun */
    struct step_state *given[DEVICES_MAX];     /* per micro-batch */
    int32_t *partner[DEVICES_MAX];             /* (micro-batches, replica_rows) mixup partners;
                                                * NULL: no mixup */
    struct loss_metrics *metrics[DEVICES_MAX]; /* per micro-batch */
    struct step_outcome *outcome;              /* of device 0 */
    struct event **mark;                       /* see in_flight_mark */
    struct event *done[DEVICES_MAX];           /* all results have been written */
    double delay_s;                            /* seconds of an injected delay */
    double valid; /* valid images of the step; after engine_update, of all ranks */
};

/* Maximum number of steps in memory: the steps whose results are not read yet, and the step before
 * them. The end mark of that step is the start time of the step after it. */
enum { IN_FLIGHT_MAX = ENGINE_LAG_MAX + 2 };

struct engine {
    struct engine_config config;
    int n;        /* replicas */
    bool central; /* DataParallel: only device 0 keeps weights, computes the loss and updates */
    struct replica replica[DEVICES_MAX];
    struct thread_pool *pool;
    struct comm *local[DEVICES_MAX]; /* connects this process's replicas; NULL if the process has
                                      * one replica */
    struct comm *joint[DEVICES_MAX]; /* connects all replicas of all ranks, if there are several
                                      * ranks and each has several replicas */
    /* On asynchronous devices: device[i] connects replica i with all other replicas, if every
     * replica reduces gradients; device_lead is the communicator to which `lead` points. */
    struct comm *device[DEVICES_MAX], *device_lead;
    struct gpu_group group; /* how the devices are connected */
    struct comm *lead;      /* connects the ranks' first devices, for data in device memory; not
                             * owned */
    struct reducer *reducer[DEVICES_MAX];
    int lag;
    double delay_owed_s; /* part of the injected delay that the rank has not slept yet */
    bool keeps_scale;
    bool wgrad_stream; /* weight gradients are computed on a stream of their own */
    bool pdl;          /* a replica launches kernels early */
    struct in_flight in_flight[IN_FLIGHT_MAX];
    int64_t begun, ended; /* steps begun; steps whose results were read */
    int64_t batches;      /* micro-batches and validation batches begun */
    struct event *read[DEVICES_MAX][ENGINE_HOLDS + 1]; /* for each of the last batches, an event
                                                        * that is complete when the device has read
                                                        * the batch */
    struct micro_batch current; /* the micro-batch that the thread pool works on */
    bool idle;                  /* `current` is computed without forward and backward pass */
    enum status (*work)(struct engine *e, int i);
    /* Used only in DataParallel. */
    struct rounding *rounding[DEVICES_MAX]; /* rounds a replica's gradients before the sum */
    struct flat_op sum;                     /* adds two replicas' gradients, on device 0 */
    float *arrived; /* device 0's copy of another device's gradients; NULL: devices share memory */
    struct loss_head *head[USE_COUNT]; /* loss over the whole batch, on device 0 */
    int32_t *partner;                  /* mixup partners of all rows of a batch; NULL: no
                                        * mixup */
};

static inline int engine_ranks(const struct engine *e)
{
    return comm_size(e->config.ranks);
}

/* Whether the engine trains; if not, it only evaluates. */
static inline bool engine_trains(const struct engine *e)
{
    return e->config.rows[USE_TRAIN] > 0;
}

/* Returns in-flight step `number`. Steps are numbered from 0; number e->begun is the step that the
 * engine is beginning. */
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

/* Communicators (engine_comm.c). Open the host communicators first, then the devices, then the
 * device communicators; close in reverse order. */
MUST_CHECK enum status engine_comm_open(struct engine *e);
MUST_CHECK enum status engine_comm_open_devices(struct engine *e);
void engine_comm_close_devices(struct engine *e);
void engine_comm_close(struct engine *e);

/* engine_gradient_comm returns the communicator for the gradients of replica i; engine_sum_comm
 * returns replica i's communicator for sums of host memory during a step. NULL: no communicator. */
struct comm *engine_gradient_comm(const struct engine *e, int i);
struct comm *engine_sum_comm(const struct engine *e, int i);

/* Makes all replicas compute weight gradients on a stream of their own, or on the network's stream
 * if `use` is false. */
void engine_set_wgrad_stream(struct engine *e, bool use);

/* engine_has_pdl returns whether any replica's device can launch kernels early. engine_set_pdl
 * turns early launches on for all devices that can do so, or off for all devices. */
bool engine_has_pdl(const struct engine *e);
void engine_set_pdl(struct engine *e, bool use);

/* Opens and closes the memory of in-flight steps (in_flight.c). */
MUST_CHECK enum status in_flight_open(struct engine *e);
void in_flight_close(struct engine *e);

/* Reads the results of step `number`, whose work must be complete. */
void in_flight_read(struct engine *e, int64_t number, struct step_result *r);

/* Runs work(e, i) for every replica i, each on its own thread. */
MUST_CHECK enum status engine_run(struct engine *e, enum status (*work)(struct engine *e, int i));

/* The step_state of a whole training batch; engine_input adapts it to a replica's part. */
struct step_state engine_state(const struct engine *e, const struct micro_batch *b);

/* Inject this step's faults: engine_flips flips bits of replica i's values; engine_delay delays the
 * host after the first replica's forward pass. */
MUST_CHECK enum status engine_flips(struct engine *e, int i, enum param_value v);
MUST_CHECK enum status engine_delay(struct engine *e);

/* Returns the mixup partners of micro-batch `number`, an array in host memory: for each row of
 * replica i's part, the row that is mixed into it. */
static inline int32_t *engine_partners(struct engine *e, int i, int number)
{
    int32_t *all = engine_in_flight(e, e->begun)->partner[i];
    return all + (size_t)number * (size_t)replica_rows(&e->replica[i]);
}

/* Loss and accuracy of replica i's part of the current micro-batch. */
static inline struct loss_metrics *engine_metrics(struct engine *e, int i)
{
    return &engine_in_flight(e, e->begun)->metrics[i][e->current.number];
}

/* Copies state, pixels and labels of replica i's part of a batch to its device. */
MUST_CHECK enum status engine_input(struct engine *e, int i, const struct micro_batch *b,
                                    const struct step_state *state);

/* The training step and the evaluation in DataParallel (data_parallel.c). */
MUST_CHECK enum status data_parallel_open(struct engine *e);
void data_parallel_close(struct engine *e);
MUST_CHECK enum status data_parallel_batch(struct engine *e);
MUST_CHECK enum status data_parallel_evaluate(struct engine *e);
