/* Inside model/: the working state of lowering, shared by its forward and backward halves. */
#ifndef MODEL_LOWER_H
#define MODEL_LOWER_H

#include "model/program.h"

/* PyTorch's defaults, which every network here keeps. */
#define BN_EPS      1e-5f
#define BN_MOMENTUM 0.1f

enum layer_kind {
    LAYER_CONV,
    LAYER_LINEAR,
    LAYER_BN,
    LAYER_RELU,
    LAYER_ADD,
    LAYER_MAXPOOL,
    LAYER_AVGPOOL,
    LAYER_DROPOUT,
    LAYER_FLATTEN,
    LAYER_REORDER,
};

/* One fused group of nodes, as the forward pass emitted it and the backward pass will undo it. */
struct layer {
    enum layer_kind kind;
    const char *name;
    const struct node *node;
    int x, y;         /* values */
    int z;            /* the residual's value; -1 */
    int operand;      /* x as multiplied: x itself, or its TF32 form */
    int weight;       /* the weights cast to a type of the device; -1: they are read as kept */
    int mean, invstd; /* batch norm's saved values; -1 */
    int index;        /* max pooling's; -1 */
    int dropout;      /* number of the dropout layer */
    bool relu;
    /* What is fused of convolution and batch norm (lower_fuse.c); values are -1 where nothing is.
     */
    int sums;    /* convolution: of its result */
    int affine;  /* batch norm: y is not stored, and its reader takes x and this; such a reader */
    int mask;    /* batch norm: of its ReLU */
    bool joined; /* batch norm: the data gradient that arrives last at y brings its sums ... */
    int users;   /* ... after those of the other users of y */
    int eq;      /* batch norm: what it brought */
};

/* The gradients that reach a value: at most two, since a third is added to the first at once. */
struct arriving {
    int n;
    int value[2];
    bool shared[2]; /* another operation reads it too: not to be overwritten */
};

struct lowering {
    struct program *p;
    struct network *net;
    const struct graph *g;
    int *n_users;  /* per node */
    int *user;     /* per node: the last user's index */
    bool *done;    /* per node: absorbed into an earlier one */
    int *value_of; /* per node: the value of its result */
    int n_layers;
    struct layer *layer;
    struct arriving *grad; /* per value of the forward pass, by index */
    int n_forward_values;
    int n_casts;
    struct cast *cast; /* of weights and biases, to be planned */
    int n_dropouts;
    int n_order; /* params met, in forward order */
    int *order;
};

/* A parameter cast to a type that the device computes in, at the place in the forward pass that was
 * left free for it. What becomes of it is decided last: first the operations that read the cast and
 * write the gradient choose the layouts of both. */
struct cast {
    const char *layer;
    int param, value, slot;
};

/* An operation being described: its tensors and where each lies. */
struct draft {
    struct op_desc desc;
    struct ref ref[ROLE_COUNT];
};

/* A new value; with storage >= 0 it takes the memory of that value. Returns -1 without memory. */
int lower_value(struct lowering *l, struct tensor_desc desc, int storage);

/* The content of value `of`, rounded or raw as it is, seen in another shape. Returns -1 without
 * memory. */
int lower_view(struct lowering *l, struct tensor_desc desc, int of);

/* `t` as a tensor of values of `type`: of that type where it is native, else fp32 that rounds. */
struct tensor_desc lower_typed(const struct lowering *l, struct tensor_desc t, enum dtype type);

/* The sole user of node i if it is of `kind`, else -1. */
int lower_sole_user(const struct lowering *l, int i, enum node_kind kind);

/* A weight or bias of convolution or linear as the passes read it, and a gradient. */
struct tensor_desc lower_weight_desc(const struct lowering *l, int param);
struct tensor_desc lower_gradient_desc(const struct lowering *l, int param);

/* The shape that node n has, as an activation. */
struct tensor_desc lower_result_desc(const struct lowering *l, const struct node *n,
                                     enum layout layout);

/* The convolution's attributes. */
struct conv_attr lower_conv_attr(const struct node *n);

/* The layer whose result `value` is; NULL: the input. */
struct layer *lower_producer(const struct lowering *l, int value);

/* Choices of what is fused. Each asks the device with the descriptions that would be planned, and
 * leaves a struct fusion in the program under FUSE_AUTO.
 *
 * Convolution i, of `layer` so far: do its results' sums come with it? */
MUST_CHECK enum status fuse_stats(struct lowering *l, int i, const struct layer *layer, bool *yes);
/* Batch norm of `layer` so far, whose result is that of node `last`: is it left to its reader? */
MUST_CHECK enum status fuse_apply(struct lowering *l, int last, const struct layer *layer,
                                  bool *yes);
/* Likewise: do its sums in the backward pass come with the data gradient that arrives last? */
MUST_CHECK enum status fuse_join(struct lowering *l, int last, const struct layer *layer,
                                 bool *yes);
/* Likewise: does its ReLU leave a mask? */
MUST_CHECK enum status fuse_mask(struct lowering *l, const struct layer *layer, bool *yes);

/* The data gradient of convolution `layer`, where what it reads has another gradient to which that
 * can be added: is it computed where a stride lets it differ from 0, and nowhere else? */
MUST_CHECK enum status fuse_strided(struct lowering *l, const struct layer *layer, bool *yes);

/* The tensors of fused operations. */
struct tensor_desc fuse_sums_desc(int64_t channels);
struct tensor_desc fuse_affine_desc(const struct lowering *l, int64_t channels);
struct tensor_desc fuse_eq_desc(int64_t channels);
struct tensor_desc fuse_mask_desc(const struct tensor_desc *x);

/* Every stride-th row and column of `x`. */
struct tensor_desc fuse_strided_desc(const struct tensor_desc *x, int stride);

/* Name a tensor of the draft. */
void draft_value(struct lowering *l, struct draft *d, enum role role, int value);
void draft_param(struct lowering *l, struct draft *d, enum role role, int param);
/* A weight or bias of convolution or linear as the passes read it; *cast is the value where it is
 * cast, else -1. */
MUST_CHECK enum status draft_weight(struct lowering *l, struct draft *d, const char *layer,
                                    enum role role, int param, int *cast);
void draft_gradient(struct lowering *l, struct draft *d, enum role role, int param);
void draft_fixed(struct draft *d, enum role role, enum space space, struct tensor_desc desc);

/* Plans the draft and puts it at the end of the program, or into a reserved slot (>= 0). Layouts
 * that were ANY become what the plan chose. */
MUST_CHECK enum status lower_emit(struct lowering *l, enum phase phase, const char *layer,
                                  const struct draft *d, int slot);

/* Leaves the next place in the program free, for an operation that is planned later; -1 without
 * memory. */
int lower_reserve(struct lowering *l);

/* Emits a copy of `value` into the new value `out`, which has another layout. */
MUST_CHECK enum status lower_reorder(struct lowering *l, enum phase phase, const char *layer,
                                     int value, int out);

/* Emits an operation of the loss scaler that the device keeps. */
MUST_CHECK enum status lower_scaler(struct lowering *l, enum phase phase, enum op_kind kind);

/* Emits the form of `value` that convolution and linear multiply, where the policy tells it from
 * the stored one (TF32); *out is that form, or `value`. */
MUST_CHECK enum status lower_operand(struct lowering *l, enum phase phase, const char *layer,
                                     int value, int *out);

/* Plans the casts, or has the passes read the copies that the optimizer writes; once all other
 * operations are planned. The first program of a network chooses for those after it. */
MUST_CHECK enum status lower_casts(struct lowering *l);

MUST_CHECK enum status lower_forward(struct lowering *l);
MUST_CHECK enum status lower_backward(struct lowering *l);

#endif
