/* Inside runners/: everything that computes a step, in every mode.
 *
 *   nd    one device
 *   dp    several devices of one process, as torch.nn.DataParallel: each step copies the weights
 *         and running statistics of device 0 to the others, splits the batch, gathers the logits on
 *         device 0, which computes the loss, hands its gradient back, sums the gradients onto
 *         device 0, and lets that alone take the optimizer's step. With dp_reduce "all" every
 *         device keeps its weights, computes the loss of its part and steps; the gradients are
 *         summed over the devices.
 *   ddp   a process per device, as torch's DistributedDataParallel: gradients are averaged over
 *         the ranks in buckets while the backward pass goes on (reducer.h)
 *   ddp2  dp within a process, ddp between processes
 *
 * A step is engine_batch() for each of its micro-batches, then engine_update(). On devices whose
 * streams go on beside the host these only put work on the streams; what a step came to is read by
 * engine_result(), in the order of the steps, and up to engine_lag() + 1 steps may be begun before
 * the first of them is read. Elsewhere a step is over when engine_update() returns, and
 * engine_lag() is 0. */
#ifndef RUNNERS_ENGINE_H
#define RUNNERS_ENGINE_H

#include "comm/comm.h"
#include "input/loader.h"
#include "kernels/device_list.h"
#include "runners/config.h"
#include "runners/ladder.h"
#include "runners/replica.h"
#include "runners/scaler.h"

struct engine_config {
    const struct train_config *train;
    const struct graph *graph;
    const struct policy *policy;
    bool scaled; /* the loss is scaled, and gradients that overflow skip their step */
    const struct device_list *devices;
    int threads;                 /* of each device */
    int rows[USE_COUNT];         /* of this process's batches; 0: there are none of that use */
    struct comm *ranks;          /* all processes; not owned */
    const struct inject *inject; /* faults of this run, settled; NULL: none. Not owned */
    struct device *first; /* device 0, which the caller has opened and closes after the engine;
                           * NULL: it is the engine's, as the others are */
    /* The rung to compute on; planning that fails takes it down, on all ranks alike. NULL: `train`
     * says what is fused and whether graphs are replayed, and failures are final. Not owned. */
    struct ladder *ladder;
    /* What links these devices; NULL: nothing does. Not owned. */
    const struct nccl_port *nccl;
};

/* Seconds of one step by this process's clock, or by device 0's where that goes on beside it. */
struct step_times {
    double input_s;   /* pixels to the devices */
    double forward_s; /* with the loss */
    double backward_s;
    double exposed_s;   /* communication that nothing hid: copies between devices, and what was
                         * left of the reduction when the backward pass was over */
    double optimizer_s; /* finite check and update */
    double busy_s;      /* during which gradients were on their way, hidden or not */
    double total_s;     /* from the end of the step before; 0 where only the host's clock knows */
};

/* What a step came to, or a validation batch, which has no overflow and no times. */
struct step_result {
    struct loss_metrics metrics; /* over its micro-batches */
    bool found_inf; /* gradients overflowed and the weights stayed: only where the loss is scaled */
    struct scaler_state scaler; /* after the step, where the devices keep the loss scale */
    struct step_times times;
};

struct engine;

MUST_CHECK enum status engine_open(const struct engine_config *config, struct engine **out);
void engine_close(struct engine *e); /* NULL is fine */

/* Device 0's network holds the truth: weights are loaded into it and saved from it. */
struct network *engine_network(struct engine *e);
struct device *engine_device(struct engine *e);
int engine_devices(const struct engine *e);
int engine_buckets(const struct engine *e);

/* What gradients travel by: "mpi", "local, staged through host memory"; NULL: nowhere. */
const char *engine_comm_name(const struct engine *e);
/* Why GPUs share them by way of the host, in one line; "" where they do not or were asked to. */
const char *engine_comm_why(const struct engine *e);

/* Bytes of memory on all devices: parameters with gradients and momentum, and what a step needs. */
size_t engine_param_bytes(const struct engine *e);
size_t engine_arena_bytes(const struct engine *e);

/* Spreads rank 0's first replica, optimizer's state included, over all ranks and devices. Call it
 * once the weights have been loaded. */
MUST_CHECK enum status engine_share(struct engine *e);

/* How many steps the host may leave unread while it begins another. */
enum { ENGINE_LAG_MAX = 2 };
int engine_lag(const struct engine *e);

/* Can phases be recorded as graphs on such devices, and are they to be? */
bool engine_may_replay(const struct backend *b, const struct train_config *c);

/* Are phases recorded as graphs and replayed? */
bool engine_replays_graphs(const struct engine *e);

/* Why a device gave up its graphs (network_graphs_lost); NULL: none did. Dropping has all devices
 * of this process give them up. Between steps only. */
const char *engine_graphs_lost(const struct engine *e);
void engine_drop_graphs(struct engine *e, const char *why);

/* Runs every program of the engine on a batch of zeros until each graph has been launched, and
 * waits for it: what fails on these devices fails here, before the first step of the run. Leaves
 * weights, momentum and running statistics undefined: load them afterwards. All ranks call it
 * together. */
MUST_CHECK enum status engine_rehearse(struct engine *e);

/* Takes the failure `st` of this thread's message down the ladder. STATUS_OK: the next rung is to
 * be tried. Else `st`; with ladder->restart where a device answers no more in this process. */
MUST_CHECK enum status engine_fall(struct engine *e, enum ladder_failure kind, enum status st);

/* Do the devices keep the loss scale? They then begin with what they are given here, and the scale
 * of micro_batch.state is not looked at. */
bool engine_keeps_scale(const struct engine *e);
MUST_CHECK enum status engine_set_scale(struct engine *e, const struct scaler_state *s);

/* Forward, loss and backward of a batch. `state` bears seed, step, learning rate and the loss
 * scale; what depends on how the batch is divided is the engine's to add. */
struct micro_batch {
    enum program_use use;
    const struct batch *batch;
    const struct step_state *state;
    int number, of; /* among the micro-batches of its step, from 0 */
    bool poison;    /* make a gradient of the last device infinite (for tests) */
};
MUST_CHECK enum status engine_batch(struct engine *e, const struct micro_batch *b);

/* After the last of them: sums the gradients, checks them and updates. */
MUST_CHECK enum status engine_update(struct engine *e);

/* Forward and loss of a validation batch of this process. */
MUST_CHECK enum status engine_evaluate(struct engine *e, const struct batch *b);

/* Waits for the first step or validation batch that has not been read, and reads it. */
MUST_CHECK enum status engine_result(struct engine *e, struct step_result *r);

/* A batch's memory is read beside the host: it must stay until engine_batch_read() has returned for
 * it. Waiting for the one ENGINE_HOLDS calls ago leaves the device enough to do. Where streams are
 * the calling thread it has been read when the call returns. */
enum { ENGINE_HOLDS = 2 };

/* Returns when the batch that was given `ago` <= ENGINE_HOLDS calls before the last has been read.
 */
MUST_CHECK enum status engine_batch_read(struct engine *e, int ago);

/* Waits until nothing is on its way any more, whether it fails or not. NULL is fine. */
void engine_idle(struct engine *e);

/* Running statistics are rank 0's, as DistributedDataParallel broadcasts them: before validation
 * and before a checkpoint. */
MUST_CHECK enum status engine_share_buffers(struct engine *e);

/* A hash over the bits of the first replica's weights, momentum and running statistics, as its
 * device lays them out. No step may be under way. */
MUST_CHECK enum status engine_state_bits(struct engine *e, uint64_t *bits);

/* Every replica that keeps weights must have the same bits of weights, momentum and summed
 * gradients on all devices and ranks; of running statistics too, if engine_share_buffers was called
 * since the last step. No step may be under way. STATUS_MISMATCH on all ranks alike names the one
 * that differs from most, and a tensor in which it does; of two, the second. */
MUST_CHECK enum status engine_check_replicas(struct engine *e, bool statistics);

#endif
