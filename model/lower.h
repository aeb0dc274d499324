/* The working state of lowering, which its forward and backward halves share. For use inside model/
 * only. */
#pragma once

#include "model/program.h"

/* PyTorch's defaults, used by every network here. */
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

/* A node, or a group of fused nodes. lower_forward emits a layer's operations; lower_backward reads
 * the layer. */
struct layer {
    enum layer_kind kind;
    const char *name;
    const struct node *node;
    int x; /* the layer's input value before it is converted to a TF32 operand */
    /* The values of the layer's operations by role; -1: none. X is the operand: `x` itself or its
     * TF32 form. W and B are the weight and the bias, cast to a type of the device. If they are -1,
     * the passes read the stored parameters.
     *
     * The following roles belong to fused convolutions and batch norms (lower_fuse.c,
     * lower_block.c). SUMS are the sums of a convolution's result. If another operation applies a
     * batch norm, the batch norm computes AFFINE for it. If the batch norm's Y is not stored, the
     * next convolution reads the batch norm's X and AFFINE instead. MASK belongs to a batch norm's
     * ReLU. A data gradient that also computes a batch norm's backward sums writes EQ. */
    int value[ROLE_COUNT];
    const struct node *pool; /* batch norm: the fused max pooling, which writes Y; NULL: none */
    int dropout;             /* number of the dropout layer */
    bool relu;
    /* Batch norm: the operation that computes the last data gradient of Y also computes the
     * backward sums. */
    bool joined;
    /* Batch norm of a shortcut: Y is not stored. The block's last batch norm applies this batch
     * norm too, and reads its AFFINE. */
    bool added;
    /* Last batch norm of a block: the node of the shortcut's batch norm, if that batch norm is
     * `added`. Z is then the input of the shortcut's batch norm, and Z_AFFINE, Z_MEAN and Z_INVSTD
     * are the values of that batch norm. NULL: Z is the residual itself. */
    const struct node *z_bn;
    /* Last batch norm of a block: the convolution that applies it and stores Y; NULL: none. */
    const struct node *ender;
    int users; /* batch norm: number of users of Y */
};

/* The gradients of a value. There are at most two, because a third is immediately added to the
 * first. */
struct arriving {
    int n;
    int value[2];
    bool shared[2]; /* another operation reads the gradient too, so it must not be overwritten */
};

struct lowering {
    struct program *p;
    struct network *net;
    const struct graph *g;
    int *n_users;  /* number of users of each node's result */
    int *user;     /* for each node, the index of its last user */
    bool *done;    /* for each node, whether it was fused into an earlier node */
    int *value_of; /* for each node, the index of the value that is its result */
    int n_layers;
    struct layer *layer;
    struct arriving *grad; /* for each value of the forward pass, its gradients */
    int n_casts;
    struct cast *cast; /* casts of weights and biases that are planned at the end */
    int n_dropouts;
    int n_order; /* elements of `order`: the trained parameters so far, in forward order */
    int *order;
};

/* A parameter's cast to a type that the device computes in, and the slot reserved for it in the
 * forward pass. The cast is planned last, because the operations that read it choose its layout,
 * and the operations that write the gradient choose the layout of the flat buffer. */
struct cast {
    const char *layer;
    int param, value, slot;
};

/* A draft: an operation that is being described, with its tensors and their places. */
struct draft {
    struct op_desc desc;
    struct ref ref[ROLE_COUNT];
};

/* Adds a value and returns its index. If storage >= 0, the value shares the memory of value
 * `storage`. */
int lower_value(struct lowering *l, struct tensor_desc desc, int storage);

/* Adds a view of value `of` in another shape and returns its index. If the values of `of` are not
 * rounded (tensor_desc.raw), the view is marked as not rounded too. */
int lower_view(struct lowering *l, struct tensor_desc desc, int of);

/* Returns `t` with values of `type`: stored in that type if the device supports it natively, else
 * as fp32 rounded to that type. */
struct tensor_desc lower_typed(const struct lowering *l, struct tensor_desc t, enum dtype type);

/* The sole user of node i if that user is of `kind`, else -1. */
int lower_sole_user(const struct lowering *l, int i, enum node_kind kind);

/* `param` is a weight or bias of a convolution or linear layer. lower_weight_desc describes the
 * parameter as the passes read it, and lower_gradient_desc describes its gradient. */
struct tensor_desc lower_weight_desc(const struct lowering *l, int param);
struct tensor_desc lower_gradient_desc(const struct lowering *l, int param);

/* The description of node n's result, as an activation. */
struct tensor_desc lower_result_desc(const struct lowering *l, const struct node *n,
                                     enum layout layout);

/* The attributes of the convolution or max pooling of node n. */
struct conv_attr lower_conv_attr(const struct node *n);
struct pool_attr lower_pool_attr(const struct node *n);

/* Describes the tensor INDEX of a max pooling whose result is `y`. */
struct tensor_desc lower_index_desc(struct tensor_desc y);

/* The layer whose result is `value`; NULL for the input. */
struct layer *lower_producer(const struct lowering *l, int value);

/* The functions fuse_* choose fusions for a `layer` whose operations are not emitted yet. Each
 * checks whether the device supports the fused operations. Under FUSE_AUTO it also times them and
 * adds a struct fusion to the program.
 *
 * fuse_stats: sets *yes to whether convolution `layer` (node i) also computes the sums of its
 * result. */
MUST_CHECK enum status fuse_stats(struct lowering *l, int i, const struct layer *layer, bool *yes);
/* Sets *yes to whether the convolution that reads the result of batch norm `layer` applies the
 * batch norm. `last` is the last node fused into the layer. */
MUST_CHECK enum status fuse_apply(struct lowering *l, int last, const struct layer *layer,
                                  bool *yes);
/* Sets *yes to whether the operation that computes the last data gradient of the result of batch
 * norm `layer` also computes the batch norm's backward sums. */
MUST_CHECK enum status fuse_join(struct lowering *l, int last, const struct layer *layer,
                                 bool *yes);
/* Batch norm `layer` (node i) is on a block's shortcut. Sets *yes to true if the block's last batch
 * norm applies both batch norms. The result of `layer` is then not stored. */
MUST_CHECK enum status fuse_shortcut(struct lowering *l, int i, const struct layer *layer,
                                     bool *yes);
/* Chooses whether the max pooling that reads the result of batch norm `layer` is fused with it
 * (lower_pool.c). If it is, sets layer->pool, sets *y to the description of the pooled tensor, and
 * sets *last (the last node fused into the layer) to the pooling's node. */
MUST_CHECK enum status fuse_pool(struct lowering *l, struct layer *layer, int *last,
                                 struct tensor_desc *y);
/* `layer` is the last batch norm of a block. Chooses whether the next convolution applies the batch
 * norm and stores the normalized tensor. If so, sets layer->ender to this convolution. */
MUST_CHECK enum status fuse_end(struct lowering *l, int last, struct layer *layer);
/* If convolution `layer` is the `ender` of a batch norm, adds the batch norm's tensors to the
 * convolution's draft: its inputs, which the convolution reads, and its result, which the
 * convolution stores. */
void draft_end(struct lowering *l, struct draft *d, const struct layer *layer);
/* Sets *yes to whether this batch norm's ReLU writes a mask. */
MUST_CHECK enum status fuse_mask(struct lowering *l, const struct layer *layer, bool *yes);

/* Sets *yes to whether the data gradient of convolution `layer` is computed only at the pixels that
 * the strided convolution reads, and added there to the other gradient of the layer's input. (At
 * other pixels the data gradient is 0.) */
MUST_CHECK enum status fuse_strided(struct lowering *l, const struct layer *layer, bool *yes);

/* These functions describe the tensors of fused operations. */
struct tensor_desc fuse_sums_desc(int64_t channels);
struct tensor_desc fuse_affine_desc(const struct lowering *l, int64_t channels);
struct tensor_desc fuse_eq_desc(int64_t channels);
struct tensor_desc fuse_mask_desc(const struct tensor_desc *x);

/* Describes every stride-th row and column of `x`. */
struct tensor_desc fuse_strided_desc(const struct tensor_desc *x, int stride);

/* draft_value adds a value of the program to the draft; draft_fixed adds a tensor in another memory
 * (enum space). */
void draft_value(struct lowering *l, struct draft *d, enum role role, int value);
void draft_fixed(struct draft *d, enum role role, enum space space, struct tensor_desc desc);

/* Adds to the draft those tensors of `layer` that the draft's operation needs: the layer's values,
 * the parameters of its node and their gradients, and STATE. Omits the roles whose bits are set in
 * `without`. */
void draft_layer(struct lowering *l, struct draft *d, const struct layer *layer, uint64_t without);

/* Reserves a place in the program for the cast of `param`, a weight or bias of convolution or
 * linear `layer`. Sets *cast to the cast's value, or to -1 if the passes read the stored parameter.
 */
MUST_CHECK enum status lower_cast(struct lowering *l, const char *layer, int param, int *cast);

/* Plans the draft and puts it at the end of the program, or into a reserved slot (>= 0). Each
 * layout that was ANY becomes the layout that the plan chose. */
MUST_CHECK enum status lower_emit(struct lowering *l, enum phase phase, const char *layer,
                                  const struct draft *d, int slot);

/* Reserves the next place in the program for an operation that is planned later; -1 if out of
 * memory. */
int lower_reserve(struct lowering *l);

/* Emits a copy of `value` into the new value `out`, which has another layout. */
MUST_CHECK enum status lower_reorder(struct lowering *l, enum phase phase, const char *layer,
                                     int value, int out);

/* Emits an operation of the loss scaler, for devices that keep the loss scale. */
MUST_CHECK enum status lower_scaler(struct lowering *l, enum phase phase, enum op_kind kind);

/* Emits the conversion of `value` from its stored type to the operand type of convolutions and
 * linear layers. The two types differ only with TF32. *out is the converted value, or `value` if no
 * conversion is needed. */
MUST_CHECK enum status lower_operand(struct lowering *l, enum phase phase, const char *layer,
                                     int value, int *out);

/* Chooses what the passes read: casts, which this function then plans, or the copies that the
 * optimizer writes. Call it when all other operations are planned. The network's first program
 * makes this choice for all programs of the network. */
MUST_CHECK enum status lower_casts(struct lowering *l);

MUST_CHECK enum status lower_forward(struct lowering *l);
MUST_CHECK enum status lower_backward(struct lowering *l);
