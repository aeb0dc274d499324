/* Plans and runs a loss that belongs to no program. */
#include "model/loss_head.h"

#include "base/array.h"

#include <stdlib.h>

static const struct backend *backend_of(const struct loss_head *h)
{
    return h->stream->device->backend;
}

/* Returns `like` with its number of rows replaced by `rows`. */
static struct tensor_desc with_rows(const struct tensor_desc *like, int64_t rows)
{
    struct tensor_desc t = *like;
    t.bytes = t.ndim ? t.bytes / (size_t)t.dim[0] * (size_t)rows : 0;
    t.dim[0] = t.ndim ? rows : 0;
    return t;
}

static enum status plan_loss(struct loss_head *h, const struct loss_head_config *c)
{
    struct op_desc d = {.kind = OP_SOFTMAX_XENT, .attr.xent.label_smoothing = c->label_smoothing};
    d.t[ROLE_X] = with_rows(&c->like.logits, c->rows);
    d.t[ROLE_DX] = with_rows(&c->like.grad, c->rows);
    d.t[ROLE_LABEL] = tensor_1d(DTYPE_I32, c->rows);
    if (c->mixes)
        d.t[ROLE_PARTNER] = tensor_1d(DTYPE_I32, c->rows);
    TRY(op_plan(h->stream->device, &d, &h->plan));
    h->logits = h->plan->desc.t[ROLE_X];
    h->grad = h->plan->desc.t[ROLE_DX];
    return STATUS_OK;
}

static enum status loss_head_allocate(struct loss_head *h)
{
    const struct {
        size_t bytes;
        void **mem;
    } wanted[] = {
        {h->logits.bytes, &h->logits_at},
        {h->grad.bytes, &h->grad_at},
        {h->plan->desc.t[ROLE_LABEL].bytes, &h->labels},
        {h->plan->desc.t[ROLE_PARTNER].bytes, &h->partners},
        {sizeof(struct step_state), &h->state},
        {sizeof(struct loss_metrics), &h->metrics},
        {h->plan->workspace, &h->workspace},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (wanted[i].bytes)
            TRY(backend_of(h)->alloc(h->stream->device, wanted[i].bytes, wanted[i].mem));
    return STATUS_OK;
}

enum status loss_head_open(struct stream *stream, const struct loss_head_config *config,
                           struct loss_head **head)
{
    enum status st;
    struct loss_head *h;
    *head = NULL;
    TRY(array_new(&h, 1));
    h->stream = stream;
    CHECK(plan_loss(h, config));
    CHECK(loss_head_allocate(h));
    *head = h;
    h = NULL;
done:
    loss_head_close(h);
    return st;
}

void loss_head_close(struct loss_head *h)
{
    if (!h)
        return;
    void *const memory[] = {h->logits_at, h->grad_at, h->labels,   h->partners,
                            h->state,     h->metrics, h->workspace};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        backend_of(h)->free(h->stream->device, memory[i]);
    op_plan_free(h->plan);
    free(h);
}

enum status loss_head_labels(struct loss_head *h, const int32_t *label)
{
    return backend_of(h)->upload(h->stream, h->labels, label, h->plan->desc.t[ROLE_LABEL].bytes);
}

enum status loss_head_partners(struct loss_head *h, const int32_t *partner)
{
    return backend_of(h)->upload(h->stream, h->partners, partner,
                                 h->plan->desc.t[ROLE_PARTNER].bytes);
}

enum status loss_head_run(struct loss_head *h, const struct step_state *state)
{
    void *const arg[ROLE_COUNT] = {
        [ROLE_X] = h->logits_at,     [ROLE_DX] = h->grad_at,      [ROLE_LABEL] = h->labels,
        [ROLE_STATE] = h->state,     [ROLE_METRICS] = h->metrics, [ROLE_WORKSPACE] = h->workspace,
        [ROLE_PARTNER] = h->partners};
    h->given = (struct step_state){.loss_scale = state->loss_scale, .mix = state->mix};
    TRY(backend_of(h)->upload(h->stream, h->state, &h->given, sizeof h->given));
    return op_execute(h->plan, arg, h->stream);
}

enum status loss_head_metrics(struct loss_head *h, struct loss_metrics *m)
{
    TRY(backend_of(h)->download(h->stream, m, h->metrics, sizeof *m));
    return backend_of(h)->stream_sync(h->stream);
}
