/* The engine: computes steps, in every mode.
 *
 *   nd    one device
 *   dp    several devices of one process, as in torch.nn.DataParallel: each step copies the
 *         weights and running statistics of device 0 to the other devices and splits the batch.
 *         Device 0 gathers the logits, computes the loss, sends the gradient of the logits to the
 *         other devices and sums the gradients of the weights. Only device 0 updates weights.
 *         With dp_reduce "all", every device keeps its own weights, computes the loss of its part
 *         of the batch and updates its weights; the gradients are summed over the devices.
 *   ddp   one process per device, as in torch's DistributedDataParallel: gradients are averaged
 *         over the ranks in buckets, overlapped with the backward pass (reducer.h)
 *   ddp2  dp within a process, ddp between processes
 *
 * To compute a step, call engine_batch() for each of its micro-batches and then engine_update(). On
 * asynchronous devices these calls only put work on the streams. engine_result() reads the results
 * of the steps in order. The caller may begin up to engine_lag() + 1 steps before it reads the
 * results of the first of these steps. On synchronous devices a step is complete when
 * engine_update() returns, and engine_lag() is 0. */
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
    /* Settings that all programs share: precision, fusion, optimizer, normalisation of images. The
     * engine sets their batch sizes and the settings that depend on devices, ranks and the loss
     * scale. */
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
    enum conv_algorithm conv_algorithm;
    int plans;     /* see struct device in kernels/backend.h */
    bool no_graph; /* launch operations one by one instead of as graphs */
    enum option
        wgrad_stream;    /* weight gradients on a stream of their own, on asynchronous devices */
    enum option pdl;     /* programmatic dependent launch (struct stream in kernels/backend.h) */
    struct comm *ranks;  /* all processes; not owned */
    double comm_timeout; /* seconds to wait for another rank; 0: no limit */
    enum comm_via via;   /* transport between GPUs */
    enum dp_reduce dp_reduce;
    double bucket_mb;            /* size of a gradient bucket in MiB */
    enum dtype grad_compress;    /* type in which gradients are sent: F32, F16 or BF16 */
    const struct inject *inject; /* faults to inject, after inject_settle; NULL: none. Not owned */
    struct device *first; /* device 0, if the caller has opened it; the caller then closes it after
                           * the engine. NULL: the engine opens device 0, like the other devices */
    /* The ladder chooses the fusion and whether graphs are used; if planning fails on a rank, all
     * ranks go to a lower rung. NULL: `program` and `no_graph` choose instead, and a failure is not
     * retried. Not owned. */
    struct ladder *ladder;
    /* The NCCL library that connects the devices; NULL: NCCL is not used. Not owned. */
    const struct nccl_port *nccl;
};

/* Times of the parts of one step in seconds, measured by the clock of device 0 if it is
 * asynchronous, else by the host's clock. */
struct step_times {
    double input_s;   /* copying pixels to the devices */
    double forward_s; /* includes the loss */
    double backward_s;
    double exposed_s;   /* communication that is not overlapped: copies between devices, and the
                           reduction after the end of the backward pass */
    double optimizer_s; /* finite check and update */
    double busy_s;      /* time in which gradients were being reduced, overlapped or not */
    double total_s;     /* time since the end of the previous step; 0: the device does not measure
                         * it */
};

/* The results of a step or of a validation batch. For a validation batch only `metrics` is set. */
struct step_result {
    struct loss_metrics metrics; /* sums over the step's micro-batches */
    bool found_inf;              /* whether gradients overflowed, so that the update was skipped;
                                  * false if the loss is not scaled */
    bool blank;                  /* no rank's images were valid, so that the step changed nothing */
    struct scaler_state scaler;  /* state after the step, if the devices keep the loss scale */
    struct step_times times;
};

struct engine;

MUST_CHECK enum status engine_open(const struct engine_config *config, struct engine **out);
void engine_close(struct engine *e); /* NULL is fine */

/* Device 0's network: weights are loaded into it and saved from it. */
struct network *engine_network(struct engine *e);
struct device *engine_device(struct engine *e);
int engine_buckets(const struct engine *e);

/* The transport of gradients, for example "mpi" or "local, staged through host memory"; NULL:
 * none. */
const char *engine_comm_name(const struct engine *e);
/* Returns one line that says why GPUs exchange gradients through the host; "" if they exchange them
 * in another way, or if the user requested the host. */
const char *engine_comm_why(const struct engine *e);

/* Sets the bytes of memory on all devices: *params for parameters, gradients and momentum, *arena
 * for the arenas that steps use. */
void engine_bytes(const struct engine *e, size_t *params, size_t *arena);

/* Copies rank 0's first replica, with the optimizer's state, to the replicas of all ranks and
 * devices. Call it after loading the weights. */
MUST_CHECK enum status engine_share(struct engine *e);

/* engine_lag() is the number of steps whose results the host may leave unread while it begins
 * another step. */
enum { ENGINE_LAG_MAX = 2 };
int engine_lag(const struct engine *e);

/* Returns whether devices of this backend can record phases as graphs and the flags allow it.
 * Synchronised batch norm calls the host to sum over ranks, and a graph cannot contain such calls.
 */
bool engine_may_replay(const struct backend *b, bool no_graph, bool sync_bn);

/* Returns whether phases are recorded as graphs and replayed. */
bool engine_replays_graphs(const struct engine *e);

/* Returns whether the replicas compute weight gradients on a stream of their own. */
bool engine_uses_wgrad_stream(const struct engine *e);

/* Returns whether a device launches its kernels early (network_use_pdl). */
bool engine_uses_pdl(const struct engine *e);

/* engine_graphs_lost returns why a device stopped using graphs (network_graphs_lost); NULL: no
 * device stopped. engine_drop_graphs makes all devices of this process stop using graphs; call it
 * between steps only. */
const char *engine_graphs_lost(const struct engine *e);
void engine_drop_graphs(struct engine *e, const char *why);

/* Runs every program of the engine on a batch of zeros until each graph has been launched, and
 * waits for the work, so that failures of the devices occur before the run's first step. Leaves
 * weights, momentum and running statistics undefined: load them afterwards. All ranks call it
 * together. */
MUST_CHECK enum status engine_rehearse(struct engine *e);

/* Moves the ladder to the next rung after failure `st`, which this thread's status message
 * describes. Returns STATUS_OK if the caller should try that rung. Otherwise returns `st`: no rung
 * is left, or a device no longer works in this process. */
MUST_CHECK enum status engine_fall(struct engine *e, enum ladder_failure kind, enum status st);

/* Returns whether the devices keep and update the loss scale. If so, they start with the scale that
 * engine_set_scale sets, and ignore the scale in micro_batch.state. */
bool engine_keeps_scale(const struct engine *e);
MUST_CHECK enum status engine_set_scale(struct engine *e, const struct scaler_state *s);

/* If all images of a process's micro-batch are bad, the process computes neither its forward nor
 * its backward pass. Its running statistics do not change, and its gradients are 0; as for every
 * bad image, the means over images, micro-batches and ranks are divided by the same numbers as
 * otherwise. With synchronised batch norm, the process computes the passes if another process has a
 * valid image, but adds nothing to batch norm's sums. If no process has a valid image in any
 * micro-batch of a step, the step changes nothing: neither weights nor momentum, statistics or loss
 * scale.
 *
 * The input of forward pass, loss and backward pass of a batch. `state` contains the seed, the
 * step, the learning rate and the loss scale; the engine adds the values that depend on how the
 * batch is divided. */
struct micro_batch {
    enum program_use use;
    const struct batch *batch;
    const struct step_state *state;
    int number, of; /* index in the step, from 0; number of micro-batches in the step */
    bool poison;    /* make a gradient of the last device infinite (for tests) */
};
MUST_CHECK enum status engine_batch(struct engine *e, const struct micro_batch *b);

/* Call it after the last micro-batch. It reduces the gradients, sums the numbers of valid images
 * over the ranks, checks that the gradients are finite and updates the weights. */
MUST_CHECK enum status engine_update(struct engine *e);

/* Computes the forward pass and the loss of this process's validation batch. */
MUST_CHECK enum status engine_evaluate(struct engine *e, const struct batch *b);

/* Waits for the oldest step or validation batch whose result has not been read, and reads that
 * result. */
MUST_CHECK enum status engine_result(struct engine *e, struct step_result *r);

/* Asynchronous devices read a batch's memory after engine_batch() has returned, so the memory must
 * stay valid until engine_batch_read() has returned for this batch. If the caller waits only for
 * the batch that it passed ENGINE_HOLDS calls earlier, the device still has queued work during the
 * wait. Synchronous devices have read the batch when engine_batch() returns. */
enum { ENGINE_HOLDS = 2 };

/* Waits until the devices have read the batch that was passed `ago` calls before the last call; 0
 * is the batch of the last call; ago <= ENGINE_HOLDS. */
MUST_CHECK enum status engine_batch_read(struct engine *e, int ago);

/* Waits until the streams are idle, even if work on them fails. NULL is fine. */
void engine_idle(struct engine *e);

/* Copies rank 0's running statistics to all ranks, as DistributedDataParallel does. Call it before
 * validation and before a checkpoint. */
MUST_CHECK enum status engine_share_buffers(struct engine *e);

/* A hash over the bits of the first replica's weights, momentum and running statistics in its
 * device's layout. No step may be in flight. */
MUST_CHECK enum status engine_state_bits(struct engine *e, uint64_t *bits);

/* Compares the bits of weights, momentum and reduced gradients of all replicas that keep weights,
 * over devices and ranks. If `statistics` is set, also compares running statistics;
 * engine_share_buffers must then have run since the last step. No step may be in flight. If bits
 * differ, all ranks return STATUS_MISMATCH, and the message names the replica that differs from
 * most others (with two replicas, the second) and a tensor that differs. */
MUST_CHECK enum status engine_check_replicas(struct engine *e, bool statistics);
