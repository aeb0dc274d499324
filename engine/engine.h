/* The engine: computes steps, in every mode.
 *
 *   nd    one device
 *   dp    several devices of one process, as torch.nn.DataParallel: each step copies the weights
 *         and running statistics of device 0 to the others and splits the batch; device 0 gathers
 *         the logits, computes the loss, sends the loss's gradient back, sums the weights'
 *         gradients and alone updates the weights. With dp_reduce "all" every device keeps its
 *         weights, computes the loss of its part and updates; the gradients are summed over the
 *         devices.
 *   ddp   a process per device, as torch's DistributedDataParallel: gradients are averaged over
 *         the ranks in buckets, overlapped with the backward pass (reducer.h)
 *   ddp2  dp within a process, ddp between processes
 *
 * A step is engine_batch() for each of its micro-batches, then engine_update(). On asynchronous
 * devices these calls only put work on the streams; engine_result() reads the results of the steps,
 * in order, and up to engine_lag() + 1 steps may be begun before the first of them is read. On
 * other devices a step is over when engine_update() returns, and engine_lag() is 0. */
#pragma once

#include "comm/comm.h"
#include "engine/gpu_group.h"
#include "engine/inject.h"
#include "engine/ladder.h"
#include "engine/mode.h"
#include "engine/replica.h"
#include "engine/scaler.h"
#include "input/loader.h"
#include "kernels/device_list.h"

struct engine_config {
    /* What the programs share: precision, fusion, optimizer, normalisation of images. The engine
     * sets their batch sizes and the settings that depend on devices, ranks and the loss scale. */
    struct program_config program;
    const struct graph *graph;
    bool scaled; /* the loss is scaled, and a step whose gradients overflow is skipped */
    struct scaler_rule scaler;
    const struct device_list *devices;
    int threads;         /* host threads of each device */
    int rows[USE_COUNT]; /* number of rows of this process's batches for each use; 0: no batches for
                          * that use */
    int accumulate;      /* micro-batches per optimizer step */
    bool sync_bn;        /* batch norm computes its statistics over all devices and ranks */
    bool deterministic;  /* plan only operations that give the same bits in every run */
    bool no_graph;       /* launch operations one by one instead of as graphs */
    struct comm *ranks;  /* all processes; not owned */
    double comm_timeout; /* seconds to wait for another rank; 0: no limit */
    enum comm_via via;   /* transport between GPUs */
    enum dp_reduce dp_reduce;
    double bucket_mb;            /* size of a gradient bucket in MiB */
    enum dtype grad_compress;    /* type in which gradients are sent: F32, F16 or BF16 */
    const struct inject *inject; /* the run's faults, after inject_settle; NULL: none. Not owned */
    struct device *first; /* device 0, if the caller opened it and closes it after the engine; NULL:
                           * the engine opens it, like the other devices */
    /* Chooses fusion and graphs; if planning fails on a rank, all ranks go to a lower rung. NULL:
     * `program` and `no_graph` choose them, and a failure is not retried. Not owned. */
    struct ladder *ladder;
    /* NCCL, to connect these devices; NULL: not used. Not owned. */
    const struct nccl_port *nccl;
};

/* Seconds of one step by the host's clock, or by the clock of device 0 if it is asynchronous. */
struct step_times {
    double input_s;   /* pixels to the devices */
    double forward_s; /* includes the loss */
    double backward_s;
    double exposed_s;   /* communication that is not overlapped: copies between devices, and the
                           reduction after the end of the backward pass */
    double optimizer_s; /* finite check and update */
    double busy_s;      /* time in which gradients were being reduced, exposed or not */
    double total_s;     /* since the end of the previous step; 0: the device does not measure it */
};

/* The results of a step or of a validation batch. A validation batch has no overflow and no
 * times. */
struct step_result {
    struct loss_metrics metrics; /* sums over its micro-batches */
    bool found_inf;             /* gradients overflowed and the update was skipped; only if the loss
                                 * is scaled */
    struct scaler_state scaler; /* state after the step, if the devices keep the loss scale */
    struct step_times times;
};

struct engine;

MUST_CHECK enum status engine_open(const struct engine_config *config, struct engine **out);
void engine_close(struct engine *e); /* NULL is fine */

/* Device 0's network: weights are loaded into it and saved from it. */
struct network *engine_network(struct engine *e);
struct device *engine_device(struct engine *e);
int engine_buckets(const struct engine *e);

/* The transport of gradients: "mpi", "local, staged through host memory"; NULL: none. */
const char *engine_comm_name(const struct engine *e);
/* Why GPUs exchange gradients through the host, in one line; "" if they do not, or if the user
 * requested it. */
const char *engine_comm_why(const struct engine *e);

/* Bytes of memory on all devices: of parameters with their gradients and momentum, and of the
 * arenas that steps use. */
void engine_bytes(const struct engine *e, size_t *params, size_t *arena);

/* Copies rank 0's first replica, with the optimizer's state, to all ranks and devices. Call it
 * after loading the weights. */
MUST_CHECK enum status engine_share(struct engine *e);

/* The number of steps whose results the host may leave unread while it begins another step. */
enum { ENGINE_LAG_MAX = 2 };
int engine_lag(const struct engine *e);

/* Can phases be recorded as graphs on such devices, and do the flags allow it? Synchronised batch
 * norm sums over ranks in calls on the host, which a graph cannot contain. */
bool engine_may_replay(const struct backend *b, bool no_graph, bool sync_bn);

/* Are phases recorded as graphs and replayed? */
bool engine_replays_graphs(const struct engine *e);

/* Why a device stopped using graphs (network_graphs_lost); NULL: no device did. engine_drop_graphs
 * makes all devices of this process stop using them; call it between steps only. */
const char *engine_graphs_lost(const struct engine *e);
void engine_drop_graphs(struct engine *e, const char *why);

/* Runs every program of the engine on a batch of zeros until each graph has been launched, and
 * waits for the work, so that failures of these devices occur before the run's first step. Leaves
 * weights, momentum and running statistics undefined: load them afterwards. All ranks call it
 * together. */
MUST_CHECK enum status engine_rehearse(struct engine *e);

/* Moves the ladder to the next rung after failure `st` (this thread's message). STATUS_OK: try that
 * rung. Else returns `st`; ladder->restart is set if a device no longer works in this process. */
MUST_CHECK enum status engine_fall(struct engine *e, enum ladder_failure kind, enum status st);

/* Do the devices keep the loss scale? If so, they start with the scale of engine_set_scale and
 * ignore that of micro_batch.state. */
bool engine_keeps_scale(const struct engine *e);
MUST_CHECK enum status engine_set_scale(struct engine *e, const struct scaler_state *s);

/* The input of forward pass, loss and backward pass of a batch. `state` has seed, step, learning
 * rate and loss scale; the engine adds the values that depend on how the batch is divided. */
struct micro_batch {
    enum program_use use;
    const struct batch *batch;
    const struct step_state *state;
    int number, of; /* index among the step's `of` micro-batches, from 0 */
    bool poison;    /* make a gradient of the last device infinite (for tests) */
};
MUST_CHECK enum status engine_batch(struct engine *e, const struct micro_batch *b);

/* After the last micro-batch: reduces the gradients, checks them and updates the weights. */
MUST_CHECK enum status engine_update(struct engine *e);

/* Forward and loss of a validation batch of this process. */
MUST_CHECK enum status engine_evaluate(struct engine *e, const struct batch *b);

/* Waits for the oldest step or validation batch that has not been read, and reads its result. */
MUST_CHECK enum status engine_result(struct engine *e, struct step_result *r);

/* Asynchronous devices read a batch's memory later: it must stay valid until engine_batch_read()
 * has returned for this batch. Waiting for the batch of ENGINE_HOLDS calls ago keeps the device
 * busy. Other devices have read the batch when engine_batch() returns. */
enum { ENGINE_HOLDS = 2 };

/* Waits until the batch of `ago` calls before the last call has been read; ago <= ENGINE_HOLDS. */
MUST_CHECK enum status engine_batch_read(struct engine *e, int ago);

/* Waits until the streams are empty, even if their work fails. NULL is fine. */
void engine_idle(struct engine *e);

/* Copies rank 0's running statistics to all ranks, as DistributedDataParallel does; called before
 * validation and before a checkpoint. */
MUST_CHECK enum status engine_share_buffers(struct engine *e);

/* A hash over the bits of the first replica's weights, momentum and running statistics in its
 * device's layout. No step may be in flight. */
MUST_CHECK enum status engine_state_bits(struct engine *e, uint64_t *bits);

/* Compares the bits of weights, momentum and reduced gradients of all replicas that keep weights,
 * over devices and ranks. If `statistics` is set, running statistics too: engine_share_buffers must
 * have run since the last step. No step may be in flight. STATUS_MISMATCH on all ranks names the
 * replica that differs from most others (with two replicas, the second) and a tensor that
 * differs. */
MUST_CHECK enum status engine_check_replicas(struct engine *e, bool statistics);
