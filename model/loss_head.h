/* A loss that stands by itself: OP_SOFTMAX_XENT over logits that came from elsewhere.
 *
 * A program computes the loss of its own rows (PHASE_LOSS). Where the rows of a batch are spread
 * over devices and the loss is wanted over all of them in one place, as torch.nn.DataParallel does
 * it, their logits are gathered here and the gradient's rows go back to where they came from. */
#ifndef MODEL_LOSS_HEAD_H
#define MODEL_LOSS_HEAD_H

#include "model/exchange.h"

struct loss_head_config {
    int64_t rows; /* of the whole batch */
    /* What the rows are like: those of a program that they come from. Its own number of rows does
     * not matter. Without a gradient there, none is computed. */
    struct program_loss_ends like;
    float label_smoothing;
};

struct loss_head {
    struct tensor_desc logits, grad; /* (rows, classes); grad.ndim is 0 where there is none */
    void *logits_at, *grad_at;       /* device memory: the caller fills the one, reads the other */
    struct stream *stream;           /* of the caller's; it runs in order with what else is there */
    struct op_plan *plan;
    struct step_state given;                    /* what is on its way to `state` */
    void *labels, *state, *metrics, *workspace; /* device memory */
};

/* Plans the loss on the device of `stream`, which must outlive it. */
MUST_CHECK enum status loss_head_open(struct stream *stream, const struct loss_head_config *config,
                                      struct loss_head **head);
void loss_head_close(struct loss_head *h); /* NULL is fine */

/* The labels of the rows (negative: left out), to stay in memory until the stream has passed. */
MUST_CHECK enum status loss_head_labels(struct loss_head *h, const int32_t *label);

/* Computes metrics and gradient from the logits; loss_scale as in struct step_state. */
MUST_CHECK enum status loss_head_run(struct loss_head *h, float loss_scale);

/* What the last run came to. Synchronous. */
MUST_CHECK enum status loss_head_metrics(struct loss_head *h, struct loss_metrics *m);
#endif
