/* The structures of a program and its network, which lowering, planning and replay share. For use
 * inside model/ only. */
#pragma once

#include "model/network.h"

/* The memory that holds an argument of a step. */
enum space {
    SPACE_NONE,
    SPACE_VALUE,       /* index: a value of the program, in the arena */
    SPACE_WEIGHT,      /* index: a parameter or running statistic of the graph */
    SPACE_COPY,        /* index: a trained parameter, as the passes read it */
    SPACE_GRADIENT,    /* index: a trained parameter */
    SPACE_FLAT_WEIGHT, /* the whole flat buffer */
    SPACE_FLAT_GRADIENT,
    SPACE_FLAT_HALF_GRADIENT,
    SPACE_FLAT_MOMENTUM,
    SPACE_FLAT_COPY,
    SPACE_IMAGES, /* the input buffer */
    SPACE_LABELS,
    SPACE_PARTNERS,
    SPACE_STATE,
    SPACE_METRICS,
    SPACE_SCALER,
    SPACE_WORKSPACE,
    SPACE_WGRAD_WORKSPACE, /* workspace of operations on the stream of weight gradients */
};

struct ref {
    enum space space;
    int index;
};

/* A tensor that exists only during a step. Two values may share storage if one operation turns the
 * first into the second in place. */
struct value {
    struct tensor_desc desc;
    int storage; /* index of the value that owns the memory: this value or another one */
    /* The first and the last operation that use the value. If the value owns its memory: the first
     * and the last operation that use any value in this memory. */
    int first;
    int last;
    size_t offset; /* offset in the arena; valid for the value that owns the memory */
};

struct step {
    enum phase phase;
    const char *layer;
    struct op_plan *plan;
    struct ref ref[ROLE_COUNT];
    void *arg[ROLE_COUNT]; /* address of each argument, set when all memory is allocated */
    int64_t grad_begin, grad_end;
    int join; /* above 0: may run on the weight-gradient stream; step `join` waits for it */
};

/* Operations [first, end), which run without interruption. */
struct graph_segment {
    enum phase phase;
    int first, end;
    bool end_here;                /* the segment ends before its phase ends */
    int64_t grad_begin, grad_end; /* gradients complete after the segment; begin = end: none */
    /* [with early launches][with the stream of weight gradients] */
    bool warm[2][2];                /* has been executed once without a graph */
    struct graph_exec *graph[2][2]; /* NULL: not recorded */
};

struct program {
    struct network *net;
    struct program_config config;
    int n_steps;
    struct step *step;
    int n_graph_segments;
    struct graph_segment *graph_segment; /* (n_steps) */
    bool announces;                      /* program_announce was called */
    int n_fusions;
    struct fusion *fusion;
    int n_values;
    struct value *value;
    int logits;         /* value */
    size_t arena_bytes; /* values */
    size_t workspace_bytes, wgrad_workspace_bytes;
    size_t image_bytes; /* bytes of the input buffer */
};

/* A parameter's type, layout and offset. */
struct placement {
    struct tensor_desc desc; /* its layout is ANY until the first plan that uses the parameter has
                              * chosen one */
    struct param_types types;
    bool cast;          /* the passes read the native type types.copy, from a cast or `copies` */
    bool half_gradient; /* the gradient is in `half_gradients` */
    size_t offset;      /* offset in bytes in the flat buffer or in the statistics */
};

/* Memory for a batch that is being copied to an asynchronous device; all NULL for a synchronous
 * device. */
struct input_staging {
    struct stream *stream;
    struct event *arrived; /* the batch has been copied to `images` and `labels` */
    struct event *taken;   /* the batch has been copied from staging memory to the input buffer */
    char *images;
    char *labels;
};

/* The stream of weight gradients; all NULL if no program was planned for this stream. */
struct wgrad_stream {
    struct stream *stream;
    struct event *fork; /* the operands of the weight gradient are complete */
    struct event *join; /* the weight gradient is complete */
    bool used;
};

struct network {
    struct device *dev;
    struct stream *stream;
    const struct graph *graph;
    bool emulate;
    int n_programs;
    struct program **program;
    struct placement *place; /* per graph param */
    int n_trained;
    int *order; /* trained parameters in the order of the flat buffer */
    size_t flat_bytes;
    size_t stats_bytes;
    char *weights, *gradients, *momentum; /* flat */
    char *half_gradients; /* flat buffer of the gradients that have half_type; NULL: no
                           * gradient has this type */
    enum dtype half_type; /* F32: all gradients are in `gradients` */
    char *copies;         /* flat buffer of weights as the passes read them; NULL: the passes read
                           * `weights` */
    enum dtype copy_type; /* type of `copies`; F32 if the policy's type is emulated */
    bool has_copies;
    bool copies_stale; /* the caller has set weights since the copies were made */
    int n_segments;    /* ranges of the flat buffer that the optimizer treats alike */
    struct sgd_segment *segment;
    struct op_plan **refresh; /* per segment: copies weights to `copies`; NULL: not needed */
    char *stats;
    char *arena; /* values of the running program, then its workspace */
    size_t arena_bytes;
    char *images;
    char *labels;
    char *partners; /* ROLE_PARTNER; NULL: no program mixes images */
    struct step_state *state;
    struct loss_metrics *metrics;
    struct scaler_state *scaler; /* NULL: the device does not keep the loss scale */
    struct input_staging input_staging;
    struct wgrad_stream wgrad;
    bool pdl;                             /* network_use_pdl */
    char graphs_lost[STATUS_MESSAGE_MAX]; /* why graphs are no longer used; "" until then */
};

/* Bytes of `copies` for the elements that have `bytes` bytes in the flat buffer. */
static inline size_t network_copy_bytes(const struct network *net, size_t bytes)
{
    return bytes / sizeof(float) * dtype_size(net->copy_type);
}

/* Bytes of `half_gradients`, if there are any. */
static inline size_t network_half_bytes(const struct network *net)
{
    return net->flat_bytes / sizeof(float) * dtype_size(net->half_type);
}

/* Returns whether the network stores values of this type natively. If not, it stores them as fp32
 * rounded to the type. Always false for TF32, which is not a storage type. */
bool network_native(const struct network *net, enum dtype type);

/* Chooses which gradients are in `half_gradients`. Call it before anything is planned. */
MUST_CHECK enum status network_choose_half_gradients(struct network *net,
                                                     const struct program_config *config);

/* The gradient of trained parameter i: network_gradient_desc describes it in the type in which the
 * operations write it, and network_gradient_at returns its address. */
struct tensor_desc network_gradient_desc(const struct network *net, int i);
char *network_gradient_at(const struct network *net, int i);

/* Cuts the flat buffer into segments and plans the refresh of the copies. Call it when the flat
 * buffer has been laid out. */
MUST_CHECK enum status network_segments(struct network *net, const struct program_config *config);

/* Turns the graph into planned steps. Fills in net->place layouts that are still ANY. */
MUST_CHECK enum status program_lower(struct program *p);

/* Plans the optimizer's step; the flat buffer must have been laid out. */
MUST_CHECK enum status program_lower_update(struct program *p);

/* Gives every value an offset so that values alive at the same time do not overlap; sets
 * arena_bytes. */
MUST_CHECK enum status program_place(struct program *p);

/* Allocates zeroed memory on the network's device. */
MUST_CHECK enum status network_alloc(struct network *net, size_t bytes, char **mem);

/* Opens and closes the buffers, stream and events of input staging; call close even if open has
 * failed. */
MUST_CHECK enum status input_staging_open(struct network *net, size_t image_bytes,
                                          size_t label_bytes);
void input_staging_close(struct network *net);

/* Chooses which steps may run on the stream of weight gradients, and reserves their memory until
 * they are complete. Call it between program_lower and program_place. */
void program_plan_wgrad_stream(struct program *p);

/* Opens and closes the stream of weight gradients; call close even if open has failed. */
MUST_CHECK enum status wgrad_stream_open(struct network *net);
void wgrad_stream_close(struct network *net);

/* Puts step i on the stream of weight gradients, after all work of the network's stream so far. */
MUST_CHECK enum status wgrad_stream_run(struct program *p, int i);

/* Makes the network's stream wait for the last step on the stream of weight gradients. */
MUST_CHECK enum status wgrad_stream_join(struct network *net);

/* Cuts a program into graph segments, once all its operations are planned (replay.c). */
MUST_CHECK enum status program_cut(struct program *p);
void program_free_graph_segments(struct program *p);

void program_free(struct program *p);
