/* Inside model/: what lowering produces, memory planning arranges and the network runs. */
#ifndef MODEL_PROGRAM_H
#define MODEL_PROGRAM_H

#include "model/network.h"

/* Where an argument of a step lies. */
enum space {
    SPACE_NONE,
    SPACE_VALUE,       /* index: a value of the program, in the arena */
    SPACE_WEIGHT,      /* index: a parameter or running statistic of the graph */
    SPACE_COPY,        /* index: a trained parameter, as the passes read it */
    SPACE_GRADIENT,    /* index: a trained parameter */
    SPACE_FLAT_WEIGHT, /* the whole flat buffer */
    SPACE_FLAT_GRADIENT,
    SPACE_FLAT_MOMENTUM,
    SPACE_FLAT_COPY,
    SPACE_IMAGES, /* the input buffer */
    SPACE_LABELS,
    SPACE_STATE,
    SPACE_METRICS,
    SPACE_SCALER,
    SPACE_WORKSPACE,
};

struct ref {
    enum space space;
    int index;
};

/* A tensor that lives only during a step. Two values may share storage when one operation turns
 * the first into the second in place. */
struct value {
    struct tensor_desc desc;
    int storage; /* index of the value that owns the memory: itself, or another */
    int first;   /* first and last operation that touch it; the owner's span covers its sharers' */
    int last;
    size_t offset; /* in the arena; the owner's */
};

struct step {
    enum phase phase;
    const char *layer;
    struct op_plan *plan;
    struct ref ref[ROLE_COUNT];
    void *arg[ROLE_COUNT]; /* resolved by program_bind */
    int64_t grad_begin, grad_end;
};

/* Operations [first, end), which run without anything in between. */
struct graph_segment {
    enum phase phase;
    int first, end;
    bool end_here;                /* although the phase goes on */
    int64_t grad_begin, grad_end; /* gradients to be told of after it; begin = end for none */
    bool warm;                    /* has been executed */
    struct graph_exec *graph;     /* NULL: not recorded */
};

struct program {
    struct network *net;
    struct program_config config;
    int n_steps, cap_steps;
    struct step *step;
    int n_graph_segments;
    struct graph_segment *graph_segment; /* (n_steps + 1) */
    bool announces;                      /* program_announce was called */
    int n_fusions;
    struct fusion *fusion;
    int n_values, cap_values;
    struct value *value;
    int logits;         /* value */
    size_t arena_bytes; /* values */
    size_t workspace_bytes;
    size_t image_bytes; /* of the input buffer */
};

/* A parameter's place. */
struct placement {
    struct tensor_desc desc; /* layout ANY until the first plan that uses it chose one */
    struct param_types types;
    bool cast;     /* the passes read it in types.copy, a type of the device: a cast, or `copies` */
    size_t offset; /* bytes into the flat buffer, or into the statistics */
};

/* On its way to the device, where that is asynchronous; else all NULL. */
struct input_staging {
    struct stream *stream;
    struct event *arrived; /* in this memory */
    struct event *taken;   /* from it */
    char *images;
    char *labels;
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
    int *order; /* trained params in the order of the flat buffer */
    size_t flat_bytes;
    size_t stats_bytes;
    char *weights, *gradients, *momentum; /* flat */
    char *copies; /* flat: weights as the passes read them; NULL when that is as they are kept */
    enum dtype copy_type; /* of `copies`; F32 where the type that they hold is emulated */
    bool has_copies;
    bool copies_stale; /* weights were set from outside since */
    int n_segments;    /* of the flat buffer: ranges of the same treatment */
    struct sgd_segment *segment;
    struct op_plan **refresh; /* per segment: weights to copies; NULL where they are the same */
    char *stats;
    char *arena; /* values of the running program, then its workspace */
    size_t arena_bytes;
    char *images;
    char *labels;
    struct step_state *state;
    struct loss_metrics *metrics;
    struct scaler_state *scaler; /* NULL: the device does not keep the loss scale */
    struct input_staging input_staging;
    char graphs_lost[STATUS_MESSAGE_MAX]; /* why graphs are not used any more; "": they are */
};

/* Bytes of `copies` that stand for `bytes` of the flat buffer. */
static inline size_t network_copy_bytes(const struct network *net, size_t bytes)
{
    return bytes / sizeof(float) * dtype_size(net->copy_type);
}

/* Are values of this type held as they are? Else fp32 stands for it, as it always does for TF32,
 * which is no type to hold values in. */
bool network_native(const struct network *net, enum dtype type);

/* Cuts the flat buffer into segments and plans the refreshing of copies. Call once it is laid
 * out. */
MUST_CHECK enum status network_segments(struct network *net, const struct program_config *config);

/* Turns the graph into planned steps. Fills in net->place layouts that are still ANY. */
MUST_CHECK enum status program_lower(struct program *p);

/* Plans the optimizer's step; the flat buffer must have been laid out. */
MUST_CHECK enum status program_lower_update(struct program *p);

/* Gives every value an offset so that values alive at the same time do not overlap; sets
 * arena_bytes. */
MUST_CHECK enum status program_place(struct program *p);

/* Memory, stream and events for batches on their way; closing takes what was opened. */
MUST_CHECK enum status input_staging_open(struct network *net, size_t image_bytes,
                                          size_t label_bytes);
void input_staging_close(struct network *net);

/* Cuts a program whose operations are complete into segments (replay.c). */
MUST_CHECK enum status program_cut(struct program *p);
void program_free_graph_segments(struct program *p);

void program_free(struct program *p);

#endif
