/* A graph made ready to run on a device: parameters in device memory, and programs.
 *
 * A program is the static list of planned operations of one kind of step: training at a batch size,
 * or evaluation at one. All programs of a network share its parameters and one arena for what
 * lives only during a step (activations, their gradients, workspace), so that a step allocates
 * nothing.
 *
 * Trained parameters lie in one flat fp32 buffer, in the order in which the backward pass completes
 * their gradients; gradients and momentum lie in buffers of the same order and layout. A gradient
 * bucket is therefore a range, and the optimizer one pass. */
#ifndef MODEL_NETWORK_H
#define MODEL_NETWORK_H

#include "kernels/backend.h"
#include "model/graph.h"
#include "model/policy.h"

enum phase {
    PHASE_INPUT,    /* pixels to the first activation */
    PHASE_FORWARD,  /* up to the logits */
    PHASE_LOSS,     /* the loss and, in training, its gradient with respect to the logits */
    PHASE_BACKWARD, /* all gradients */
    PHASE_CHECK,    /* are they finite? empty unless config.check_finite */
    PHASE_UPDATE,   /* the optimizer */
    PHASE_COUNT
};
const char *phase_str(enum phase p);

/* How far convolution and batch norm are fused in training (kernels/ops.h, OP_CONV_STATS_FWD and
 * after), where the device covers it: each level has those before it as well. Where it does not,
 * and in evaluation, the plain operations stand. */
enum fuse {
    FUSE_AUTO, /* as `all`, but only what the device's clock says is faster (struct fusion) */
    FUSE_NONE,
    /* Sums come from the convolution before, ReLUs leave masks of a bit, and the gradient of a
     * projection that skips pixels is computed and added where it is not 0. */
    FUSE_STATS,
    FUSE_APPLY, /* what lies between two convolutions alone is not stored */
    FUSE_ALL,   /* data gradients bring the sums of whatever batch norm and ReLU was before */
    FUSE_COUNT
};
const char *fuse_str(enum fuse f); /* "auto", "none", "stats" ... */

struct program_config {
    int batch;
    bool train;
    struct policy policy; /* zeroed: fp32 throughout. The same in all programs of a network */
    bool emulate;         /* round in fp32 although the device has the policy's types; as policy */
    bool check_finite;    /* look for gradients that overflowed, and skip their update */
    bool float_input;     /* input is (batch,3,S,S) fp32 as it should enter, not u8 pixels */
    /* Gradients of fp32 master weights are averaged over ranks in fp32 between the backward phase
     * and the check, each rank having rounded its own before (network_plan_rounding): the check and
     * the optimizer then take them as they are. The same in all programs of a network. */
    bool reduced;
    /* The device keeps the loss scale (network_set_scaler) and moves it on after each update; it
     * needs check_finite. NULL: whoever runs the program writes the scale with its state. */
    const struct scaler_rule *scaler;
    bool graphs; /* record phases and launch the records, where the device can; see also
                  * network_graphs_lost */
    enum fuse fuse;
    bool no_dropout;            /* drop nothing (for checks against known values) */
    const struct bn_sync *sync; /* of batch norm over all ranks (kernels/ops.h); NULL: alone */
    float label_smoothing;
    float momentum;
    float weight_decay;
    bool nesterov;
    float lars;            /* trust coefficient for conv and linear weights (OP_SGD); 0: none */
    float mean[3], std[3]; /* of pixel/255; see OP_NORMALIZE */
};

struct network;
struct program;

/* One planned operation, for listings and per-layer timing. */
struct step_info {
    enum phase phase;
    const char *layer; /* module path, or what it is where there is none */
    const struct op_plan *plan;
    /* Flat range of gradients that are complete once this step is; begin = end for none. */
    int64_t grad_begin, grad_end;
};

/* What FUSE_AUTO decided of a chain of operations that the device could fuse. */
struct fusion {
    const char *form;    /* "stats", "apply", "join", "strided" or "mask" (model/lower.h) */
    const char *layer;   /* of the convolution ("stats", "strided") or batch norm that asks */
    double fused, parts; /* seconds of all operations of the chain; 0: they were not timed */
    bool taken;          /* fused: it is faster than its parts by more than 2 % */
};

/* Plans `n` programs for `g` on `dev`. The graph must outlive the network. Parameters start as
 * zero: load or initialise them before a step. */
MUST_CHECK enum status network_open(struct device *dev, const struct graph *g,
                                    const struct program_config *config, int n,
                                    struct network **net);
void network_close(struct network *net); /* NULL is fine */

/* Returns when nothing of this network is on its way any more, whether it failed or not: then what
 * it reads and writes may go. */
void network_idle(struct network *net);

/* Why a phase could not be recorded as a graph or launched as one, since when all programs of the
 * network execute their operations one by one, with the same bits; NULL: none has failed. The text
 * stays until the network is closed. */
const char *network_graphs_lost(const struct network *net);

/* Has all programs execute their operations one by one from now on; `why` becomes the reason. */
void network_drop_graphs(struct network *net, const char *why);

struct program *network_program(struct network *net, int i);

/* (n): the choices for a program, in the order in which they were made; none unless FUSE_AUTO. */
const struct fusion *program_fusions(const struct program *p, int *n);
struct stream *network_stream(struct network *net);

/* The stream on which batches reach the device: its own where the device is asynchronous. An event
 * put there after program_input has passed when the host's memory has been read. */
struct stream *network_input_stream(struct network *net);

/* Bytes of device memory: parameters with gradients and momentum, and the shared arena. */
size_t network_param_bytes(const struct network *net);
size_t network_arena_bytes(const struct network *net);

/* What a parameter has a value of. */
enum param_value { VALUE_WEIGHT, VALUE_GRADIENT, VALUE_MOMENTUM };

/* Copies parameter i (an index of graph->param) from or to a plain host array of param_count()
 * floats. Running statistics have only VALUE_WEIGHT. Synchronous; not for steps. */
MUST_CHECK enum status network_set(struct network *net, enum param_value v, int i,
                                   const float *plain);
MUST_CHECK enum status network_get(struct network *net, enum param_value v, int i, float *plain);

/* Fresh weights by graph->param[].init, and zero momentum. */
MUST_CHECK enum status network_init(struct network *net, uint64_t seed);

/* Puts a batch in place: pixels (batch,S,S,3) u8, or fp32 (batch,3,S,S) with float_input; labels
 * (batch), negative for rows to leave out. The host memory may be reused after program_wait. */
MUST_CHECK enum status program_input(struct program *p, const void *images, const int32_t *label);

/* The loss scaler's state, where the device keeps one; else nothing happens. Synchronous. */
MUST_CHECK enum status network_set_scaler(struct network *net, const struct scaler_state *s);

/* Sets what changes from step to step (see struct step_state), in stream order: the host memory
 * must stay until the stream has passed. Where the device keeps the loss scale, loss_scale,
 * grad_scale and found_inf are its own and stay. */
MUST_CHECK enum status program_state(struct program *p, const struct step_state *state);

/* Runs the operations of one phase, in stream order. */
MUST_CHECK enum status program_run(struct program *p, enum phase phase);

/* Runs the backward phase and calls `complete` after each operation that completes gradients (NULL:
 * never), with the range [begin, end) of the flat gradient buffer, in elements. The ranges come in
 * ascending order without gaps and cover the buffer. They are complete in stream order: on a device
 * whose stream is not the calling thread, an event must separate them from who reads them. What
 * `complete` returns other than STATUS_OK ends the phase. */
MUST_CHECK enum status
program_backward(struct program *p,
                 enum status (*complete)(void *context, int64_t begin, int64_t end), void *context);

/* Has program_backward announce gradients in `n` ranges that end at `end`, or where the next
 * operation completes more; the last is the buffer's end. Until this is called there is one for
 * each operation that completes any. Operations between two announcements can be one graph. */
void program_announce(struct program *p, const int64_t *end, int n);

MUST_CHECK enum status program_wait(struct program *p);

/* After the check phase: 1 when a gradient was infinite or NaN. Synchronous. */
MUST_CHECK enum status program_found_inf(struct program *p, bool *found);

/* Makes the first gradient infinite, as an overflow would, in stream order: for tests of what
 * follows one. */
MUST_CHECK enum status program_poison(struct program *p);

/* What the loss says, after its phase. Synchronous. */
MUST_CHECK enum status program_metrics(struct program *p, struct loss_metrics *m);

/* What the loss says, and what the update left, in stream order into host memory that must stay
 * until the stream has passed. */
struct step_outcome {
    struct step_state state;
    struct scaler_state scaler; /* only where the device keeps it */
};
MUST_CHECK enum status program_fetch_metrics(struct program *p, struct loss_metrics *m);
MUST_CHECK enum status program_fetch_outcome(struct program *p, struct step_outcome *o);

/* The logits (batch, classes), after the forward phase. Synchronous. */
MUST_CHECK enum status program_logits(struct program *p, float *logits);

const struct program_config *program_config(const struct program *p);
int program_steps(const struct program *p);
struct step_info program_step(const struct program *p, int i);

/* Runs operation i alone, for per-layer timing. */
MUST_CHECK enum status program_run_step(struct program *p, int i);

/* Copies the tensor that operation i has in `role`, as it is, to a plain host array of
 * tensor_count() elements, padding left out. To be read before a later operation reuses its memory.
 * Synchronous; not for steps. */
MUST_CHECK enum status program_step_tensor(struct program *p, int i, enum role role, void *plain);
#endif
