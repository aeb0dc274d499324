/* A network on a device: parameters in device memory, and programs.
 *
 * A program is the static list of planned operations of one kind of step: training or evaluation,
 * at one batch size. All programs of a network share its parameters. They also share one arena for
 * the tensors that exist only during a step (activations, their gradients, workspace). A step
 * therefore allocates nothing.
 *
 * All trained parameters are in one flat fp32 buffer, in the order in which the backward pass
 * completes their gradients. Gradients and momentum are in buffers of the same order and layout. A
 * gradient bucket is therefore a range, and the optimizer runs in one pass.
 *
 * With config.half_gradients, the gradients of convolutions' weights are in a further flat buffer,
 * in the half precision in which they were computed. Their element numbers are the same as in the
 * fp32 buffer. The elements of the fp32 buffer with these numbers are not used. */
#pragma once

#include "kernels/backend.h"
#include "model/graph.h"
#include "model/policy.h"

enum phase {
    PHASE_INPUT,    /* converts pixels to the first activation */
    PHASE_FORWARD,  /* up to the logits */
    PHASE_LOSS,     /* the loss and, in training, its gradient with respect to the logits */
    PHASE_BACKWARD, /* all gradients */
    PHASE_CHECK,    /* the check that gradients are finite; empty unless config.check_finite */
    PHASE_UPDATE,   /* the optimizer */
    PHASE_COUNT
};
const char *phase_str(enum phase p);

/* The fusions of convolution and batch norm that are used in training (kernels/ops.h, from
 * OP_CONV_STATS_FWD on). From FUSE_NONE on, each level includes the fusions of the levels before
 * it. Evaluation, and devices that do not support a fused operation, use the unfused operations. */
enum fuse {
    FUSE_AUTO, /* as FUSE_ALL, but only fusions that are faster on the device (struct fusion) */
    FUSE_NONE,
    /* The convolution before a batch norm computes the batch norm's sums. ReLUs write one-bit
     * masks. The gradient of a strided projection is computed and added only at the pixels that
     * the projection reads (it is 0 elsewhere). A max pooling is fused with the batch norm and ReLU
     * before it. */
    FUSE_STATS,
    /* Two results are not stored: that of the batch norm and ReLU between two convolutions, and
     * that of a shortcut's batch norm. */
    FUSE_APPLY,
    /* Data gradients also compute the backward sums of the preceding batch norm and ReLU.
     * Convolutions apply the last batch norm of the preceding block. */
    FUSE_ALL,
    FUSE_COUNT
};
const char *fuse_str(enum fuse f); /* "auto", "none", "stats" ... */

struct program_config {
    int batch;
    bool train;
    struct policy policy; /* zeroed: fp32 for all tensors. Must be the same in all programs of a
                           * network */
    /* Emulate narrow types by rounding fp32 values, even if the device supports the types. Must be
     * the same in all programs. */
    bool emulate;
    bool check_finite; /* detect gradients that overflowed, and skip their update */
    bool float_input;  /* input is normalised fp32 (batch,3,S,S); false: u8 pixels */
    /* True: between the backward phase and the check, the caller rounds the gradients of each
     * replica (network_plan_rounding) and then reduces them. The check and the optimizer then do
     * not round the reduced gradients of fp32 master weights, which stay fp32. Must be the same in
     * all programs of a network. */
    bool reduced;
    /* True: only the network's own check and optimizer read the gradients. Gradients of
     * convolutions' weights then stay in the half precision that the policy gives them, if the
     * device's optimizer can read it, and are not converted to fp32. The results have the same
     * bits. Not together with `reduced`; must be the same in all programs of a network. */
    bool half_gradients;
    /* The device keeps the loss scale (network_set_scaler) and updates it after each step; needs
     * check_finite. NULL: the caller sets the scale with program_state. */
    const struct scaler_rule *scaler;
    bool wgrad_stream; /* on an asynchronous device: plan the memory that a separate stream of
                        * weight gradients needs (network_use_wgrad_stream) */
    bool graphs;       /* record phases as graphs and launch the graphs, if the device can; see
                        * network_graphs_lost */
    enum fuse fuse;
    bool no_dropout;            /* disable dropout (for checks against known values) */
    const struct bn_sync *sync; /* batch norm over all ranks (kernels/ops.h); NULL: batch norm over
                                 * this device alone */
    float label_smoothing;
    bool mixes; /* mixup: each image and its label are mixed with another row's (ROLE_PARTNER), by
                 * the weight step_state.mix; needs pixels, not float_input */
    float momentum;
    float weight_decay;
    bool norm_decays;        /* norm_weight_decay is set */
    float norm_weight_decay; /* for biases and batch norm, instead of weight_decay */
    bool nesterov;
    float clip;            /* upper limit of the gradient's norm (OP_SGD); 0: no limit */
    float lars;            /* trust coefficient for conv and linear weights (OP_SGD); 0: none */
    float mean[3], std[3]; /* in units of pixel/255; see OP_NORMALIZE */
};

struct network;
struct program;

/* One planned operation, for listings and per-layer timing. */
struct step_info {
    enum phase phase;
    const char *layer; /* module path; for operations without a module, their kind ("add", "sgd") */
    const struct op_plan *plan;
    void *const *arg; /* addresses of the operation's tensors in device memory, by role */
    /* Range of the flat gradient buffer that this operation completes; begin = end: none. */
    int64_t grad_begin, grad_end;
};

enum { FUSION_WHY_MAX = 256 };

/* The choice of FUSE_AUTO for a chain of operations that the device can fuse, or could fuse if its
 * library did not fail. */
struct fusion {
    const char *form; /* "stats", "apply", "shortcut", "join", "output", "strided", "pool" or "mask"
                       * (model/lower.h) */
    const char *layer;        /* the convolution ("stats", "strided") or the batch norm */
    double fused, parts;      /* seconds of the fused and unfused chain; 0: not timed */
    bool taken;               /* the chain is fused, because its parts are over 2 percent slower */
    char why[FUSION_WHY_MAX]; /* the library's failure because of which the chain is not fused;
                               * empty: none */
};

/* Plans `n` programs for `g` on `dev`. The graph must outlive the network. Parameters start as
 * zero: load or initialise them before the first step. */
MUST_CHECK enum status network_open(struct device *dev, const struct graph *g,
                                    const struct program_config *config, int n,
                                    struct network **net);
void network_close(struct network *net); /* NULL is fine */

/* Waits until the network's streams are idle, even if work on them fails. After that, the memory
 * that this work reads and writes may be freed. */
void network_idle(struct network *net);

/* Returns why a phase could not be recorded or launched as a graph; NULL: no phase failed. After
 * such a failure all programs of the network execute their operations one by one, and the results
 * have the same bits. The text stays valid until the network is closed. */
const char *network_graphs_lost(const struct network *net);

/* Makes all programs execute their operations one by one from now on; `why` becomes the reason. */
void network_drop_graphs(struct network *net, const char *why);

/* Removes the reason not to use graphs: the next phases are recorded again. */
void network_restore_graphs(struct network *net);

/* Computes weight gradients on a separate stream, concurrently with the other operations of the
 * backward phase. The results have the same bits. Requires a program that was planned for it; off
 * by default. Call network_use_wgrad_stream between steps. */
bool network_has_wgrad_stream(const struct network *net);
void network_use_wgrad_stream(struct network *net, bool use);

/* Launches a device's own kernels early (struct stream in kernels/backend.h), if the device
 * supports this. The results have the same bits. Off by default. Call network_use_pdl between
 * steps. */
bool network_has_pdl(const struct network *net);
void network_use_pdl(struct network *net, bool use);

struct program *network_program(struct network *net, int i);

/* Returns the fusion choices for a program, in the order in which they were made, and sets *n to
 * their number. *n is 0 unless the program has FUSE_AUTO. */
const struct fusion *program_fusions(const struct program *p, int *n);
struct stream *network_stream(struct network *net);

/* The stream that copies batches to the device: a separate stream if the device is asynchronous,
 * else network_stream. An event recorded on this stream after program_input is complete when the
 * device has read the host's memory. */
struct stream *network_input_stream(struct network *net);

/* Bytes of device memory: for parameters, gradients and momentum, and for the shared arena. */
size_t network_param_bytes(const struct network *net);
size_t network_arena_bytes(const struct network *net);

/* The kinds of values that a parameter has. */
enum param_value { VALUE_WEIGHT, VALUE_GRADIENT, VALUE_MOMENTUM };

/* The flat buffer of all trained parameters, in device memory: fp32 elements in the order in which
 * the backward pass completes gradients, zero where parameters are padded. Gradients stored in half
 * precision (config.half_gradients) are not in it. *bytes is its size.
 * Returns NULL, and sets *bytes to 0, for gradients and momentum of a network without training. */
void *network_flat(struct network *net, enum param_value v, size_t *bytes);

/* The flat buffer of the gradients stored in half precision. It has as many elements as the buffer
 * of network_flat. Returns NULL, and sets *bytes to 0, if there are no such gradients. */
void *network_flat_half_gradients(struct network *net, size_t *bytes);

/* The address and size of value `v` of parameter i (an index of graph->param). The value is in a
 * flat buffer or among the running statistics, in the device's layout and in its stored type. NULL
 * and 0 if the parameter has no such value. */
void *network_place(struct network *net, enum param_value v, int i, size_t *bytes);

/* Copies parameter i (an index of graph->param) from or to a plain host array of param_count()
 * floats. Running statistics have only VALUE_WEIGHT. Synchronous; not to be used in a step. */
MUST_CHECK enum status network_set(struct network *net, enum param_value v, int i,
                                   const float *plain);
MUST_CHECK enum status network_get(struct network *net, enum param_value v, int i, float *plain);

/* Initialises the weights by graph->param[].init, and sets the momentum to zero. */
MUST_CHECK enum status network_init(struct network *net, uint64_t seed);

/* Copies a batch to the device: pixels (batch,S,S,3) u8, or fp32 (batch,3,S,S) with float_input;
 * labels (batch), negative for rows to ignore. The host memory may be reused after program_wait. */
MUST_CHECK enum status program_input(struct program *p, const void *images, const int32_t *label);

/* Sets the loss scaler's state if the device keeps one; else does nothing. Synchronous. */
MUST_CHECK enum status network_set_scaler(struct network *net, const struct scaler_state *s);

/* Sets the values that change from step to step (see struct step_state), in stream order: the host
 * memory must stay valid until the stream has executed the copy. Does not set loss_scale,
 * grad_scale and found_inf if the device keeps the loss scale, because the device then updates
 * them. */
MUST_CHECK enum status program_state(struct program *p, const struct step_state *state);

/* For a program that mixes images: uploads `partner` (batch). partner[k] is the row, 0..batch-1,
 * that is mixed into row k. The copy is in stream order, as in program_state. */
MUST_CHECK enum status program_partners(struct program *p, const int32_t *partner);

/* Runs the operations of one phase, in stream order. */
MUST_CHECK enum status program_run(struct program *p, enum phase phase);

/* Runs the backward phase. Calls `complete` (NULL: no calls) after each operation that completes
 * gradients, with the range [begin, end) of the flat gradient buffer, in elements. The ranges come
 * in ascending order without gaps and cover the buffer. They are complete in stream order: on an
 * asynchronous device a reader on another stream must wait for an event. If `complete` fails, the
 * phase ends with its status. */
MUST_CHECK enum status
program_backward(struct program *p,
                 enum status (*complete)(void *context, int64_t begin, int64_t end), void *context);

/* Makes program_backward call `complete` for `n` ranges. Range i ends at end[i], or later if one
 * operation completes more gradients; the last `end` is the buffer's end. By default, there is one
 * range for each operation that completes gradients. The operations between two calls of `complete`
 * can be replayed as one graph. */
void program_announce(struct program *p, const int64_t *end, int n);

MUST_CHECK enum status program_wait(struct program *p);

/* Makes the first gradient infinite, as an overflow would, in stream order: for tests of the
 * overflow handling. */
MUST_CHECK enum status program_poison(struct program *p);

/* Reads the metrics of the loss, after PHASE_LOSS. Synchronous. */
MUST_CHECK enum status program_metrics(struct program *p, struct loss_metrics *m);

/* program_fetch_metrics copies the metrics of the loss to host memory. program_fetch_outcome copies
 * the state after the update. Both copy in stream order: the host memory must stay valid until the
 * stream has executed the copy. */
struct step_outcome {
    struct step_state state;
    struct scaler_state scaler; /* only if the device keeps the loss scale */
};
MUST_CHECK enum status program_fetch_metrics(struct program *p, struct loss_metrics *m);
MUST_CHECK enum status program_fetch_outcome(struct program *p, struct step_outcome *o);

/* Reads the logits (batch, classes), after PHASE_FORWARD. Synchronous. */
MUST_CHECK enum status program_logits(struct program *p, float *logits);

const struct program_config *program_config(const struct program *p);
int program_steps(const struct program *p);
struct step_info program_step(const struct program *p, int i);

/* Runs operation i alone, for per-layer timing. */
MUST_CHECK enum status program_run_step(struct program *p, int i);

/* Copies the tensor that operation i has in `role`, in its own type, to a plain host array of
 * tensor_count() elements, without padding. Call it before a later operation reuses the tensor's
 * memory. Synchronous; not to be used in a step. */
MUST_CHECK enum status program_step_tensor(struct program *p, int i, enum role role, void *plain);
