/* Trials of chains of operations: lowering uses them to choose what to fuse. A trial plans
 * operations on the device from their descriptions and, under FUSE_AUTO, times them. For use inside
 * model/ only. */
#pragma once

#include "model/lower.h"

enum { CHAIN_MAX = 8 };

/* A sequence of operations as the device would plan them. Begin with {.l = l, .covered = true}. */
struct trial {
    const struct lowering *l;
    bool covered; /* the device can plan all operations of the sequence */
    int n;
    struct op_plan *plan[CHAIN_MAX];
    char why[FUSION_WHY_MAX]; /* under FUSE_AUTO: the first failure of the device's library */
};

void trial_close(struct trial *t);

/* Adds operation `d`. If the device can plan it, each layout of *d that was ANY becomes the layout
 * that the plan chose. */
MUST_CHECK enum status trial_add(struct trial *t, struct op_desc *d);

/* Total seconds of the operations; 0 if one of them cannot be timed. */
MUST_CHECK enum status trial_seconds(struct trial *t, double *seconds);

/* Whether the program's configuration allows fusions of `level`. */
bool trial_allowed(const struct lowering *l, enum fuse level);

/* The description of a chain of operations; each form uses the members that it needs. */
struct chain {
    const struct layer *layer;   /* the layer that the choice is made for */
    const struct node *n;        /* the convolution */
    const struct layer *bn;      /* the batch norm */
    const struct tensor_desc *x; /* input of the chain or of its batch norm */
    int users;                   /* number of users of the batch norm's result */
    enum op_kind forward;        /* the batch norm's forward operation */
};

/* Sets *yes to whether the chain is fused. Plans the unfused parts only under FUSE_AUTO, to compare
 * the times. */
MUST_CHECK enum status
trial_decide(const struct lowering *l, const char *form, const struct chain *chain,
             enum status (*add)(struct trial *t, const struct chain *c, bool fused), bool *yes);

/* Sets c->taken from the times in `c`, and adds `c` to the program's fusions. c->why is dropped if
 * the chain is fused. */
MUST_CHECK enum status trial_choose(struct program *p, struct fusion *c);

/* The following functions describe operations. trial_bn describes a batch norm operation of `kind`
 * on `x`, with all tensors that are not optional. */
struct op_desc trial_conv(const struct lowering *l, const struct node *n, enum op_kind kind);
struct op_desc trial_bn(const struct lowering *l, const struct layer *bn,
                        const struct tensor_desc *x, enum op_kind kind);
struct op_desc trial_data(const struct lowering *l, const struct node *n,
                          const struct tensor_desc *x);
/* Describes the data gradient of the chain's convolution together with the batch norm's sums. The
 * operation's X is c->x. */
struct op_desc trial_data_bn(const struct lowering *l, const struct chain *c);
/* Adds the tensors of the residual's batch norm `z` to a batch norm's operation on X. The result of
 * `z` is not stored. Does nothing if `z` is NULL. */
void trial_residual(const struct lowering *l, struct op_desc *d, const struct node *z);
