/* A loss that belongs to no program: OP_SOFTMAX_XENT over logits that are copied in.
 *
 * A program computes the loss of its own rows (PHASE_LOSS). torch.nn.DataParallel instead computes
 * one loss over the rows of all devices: the engine gathers their logits in a loss head, and sends
 * the rows of the gradient back to the devices. */
#pragma once

#include "model/exchange.h"

struct loss_head_config {
    int64_t rows; /* rows of the whole batch */
    /* The rows of several programs are gathered; these are the loss tensors of any one of these
     * programs. Only the shape and type of a row are used. If the program has no gradient, the loss
     * computes no gradient. */
    struct program_loss_ends like;
    float label_smoothing;
    bool mixes; /* as in struct program_config */
};

struct loss_head {
    struct tensor_desc logits, grad; /* (rows, classes); grad.ndim is 0 if no gradient is
                                      * computed */
    void *logits_at, *grad_at; /* device memory: the caller writes logits_at and reads grad_at */
    struct stream *stream;     /* the caller's stream, which runs the loss in stream order */
    struct op_plan *plan;
    struct step_state given; /* host memory that is uploaded to `state` */
    void *labels, *partners, *state, *metrics, *workspace; /* device memory */
};

/* Plans the loss on the device of `stream`. The stream must outlive the loss head. */
MUST_CHECK enum status loss_head_open(struct stream *stream, const struct loss_head_config *config,
                                      struct loss_head **head);
void loss_head_close(struct loss_head *h); /* NULL is fine */

/* Uploads the labels in stream order; rows with a negative label are ignored. `label` must stay
 * valid until the upload is complete. */
MUST_CHECK enum status loss_head_labels(struct loss_head *h, const int32_t *label);

/* For a loss head that mixes rows: uploads `partner`, as loss_head_labels uploads the labels.
 * partner[k] is the row of the whole batch that is mixed into row k. */
MUST_CHECK enum status loss_head_partners(struct loss_head *h, const int32_t *partner);

/* Computes metrics and gradient from the logits; uses loss_scale and mix of `state`. */
MUST_CHECK enum status loss_head_run(struct loss_head *h, const struct step_state *state);

/* The metrics of the last run. Synchronous. */
MUST_CHECK enum status loss_head_metrics(struct loss_head *h, struct loss_metrics *m);
