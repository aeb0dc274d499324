/* Computes a step as torch.nn.DataParallel does. The code is deliberately not optimised, because
 * runs measure the cost of DataParallel. */
#include "engine/engine_parts.h"

#include "base/array.h"

#include <stdlib.h>

static enum status open_head(struct engine *e, enum program_use use)
{
    struct replica *first = &e->replica[0];
    if (e->config.rows[use] == 0)
        return STATUS_OK;
    struct program *p = first->program[use];
    struct loss_head_config head = {.rows = e->config.rows[use],
                                    .like = program_loss_ends(p),
                                    .label_smoothing = program_config(p)->label_smoothing,
                                    .mixes = program_config(p)->mixes};
    return loss_head_open(network_stream(first->net), &head, &e->head[use]);
}

enum status data_parallel_open(struct engine *e)
{
    size_t bytes;
    for (int u = 0; u < USE_COUNT; u++)
        TRY(open_head(e, (enum program_use)u));
    if (!engine_trains(e))
        return STATUS_OK;
    if (e->config.program.mixes)
        TRY(array_new(&e->partner, e->config.rows[USE_TRAIN]));
    network_flat(e->replica[0].net, VALUE_GRADIENT, &bytes);
    int64_t count = (int64_t)(bytes / sizeof(float));
    for (int i = 0; i < e->n; i++)
        TRY(network_plan_rounding(e->replica[i].net, 0, count, &e->rounding[i]));
    struct device *first = e->replica[0].dev;
    void *arrived = NULL;
    if (first->backend->asynchronous)
        TRY(first->backend->alloc(first, bytes, &arrived));
    e->arrived = arrived;
    return flat_sum_open(first, count, &e->sum);
}

void data_parallel_close(struct engine *e)
{
    for (int u = 0; u < USE_COUNT; u++)
        loss_head_close(e->head[u]);
    for (int i = 0; i < e->n; i++)
        rounding_free(e->rounding[i]);
    free(e->partner);
    if (e->arrived)
        e->replica[0].dev->backend->free(e->replica[0].dev, e->arrived);
    flat_op_close(&e->sum);
}

/* Copies weights and running statistics from device 0 to replica i, and waits for the copy, because
 * the next forward pass of device 0 overwrites the statistics. */
static enum status replicate(struct engine *e, int i)
{
    struct replica *r = &e->replica[i];
    if (i == 0)
        return STATUS_OK;
    TRY(replica_copy(r, &e->replica[0], false));
    return r->dev->backend->stream_sync(network_stream(r->net));
}

/* If `gather` is set, copies replica i's logits to the loss head. Otherwise copies replica i's rows
 * of the logits' gradient from the loss head to the replica. */
static enum status copy_rows(struct engine *e, int i, bool gather)
{
    struct replica *r = &e->replica[i];
    enum program_use use = e->current.use;
    const struct loss_head *head = e->head[use];
    struct program_loss_ends ends = program_loss_ends(r->program[use]);
    size_t bytes = gather ? ends.logits.bytes : ends.grad.bytes;
    size_t first = bytes / (size_t)r->part[use].count * (size_t)r->part[use].first;
    enum status (*copy)(struct stream *, void *, const void *, size_t) = r->dev->backend->copy;
    if (gather)
        return copy(network_stream(r->net), (char *)head->logits_at + first, ends.logits_at, bytes);
    return copy(network_stream(r->net), ends.grad_at, (const char *)head->grad_at + first, bytes);
}

static enum status forward_part(struct engine *e, int i)
{
    const struct micro_batch *b = &e->current;
    struct replica *r = &e->replica[i];
    struct program *p = r->program[b->use];
    bool trains = b->use != USE_VAL;
    if (!p)
        return STATUS_OK;
    struct step_state state = trains ? engine_state(e, b) : *b->state;
    TRY(engine_input(e, i, b, &state));
    TRY(program_run(p, PHASE_INPUT));
    if (i == 0)
        TRY(engine_mark(e, MARK_INPUT));
    if (!e->idle || !trains) {
        TRY(program_run(p, PHASE_FORWARD));
        TRY(copy_rows(e, i, true));
    }
    return program_wait(p);
}

/* For mixup: writes the partner of every row to e->partner. A replica numbers the rows of its own
 * part; the loss head numbers the rows of the whole batch. */
static enum status central_partners(struct engine *e, struct loss_head *head)
{
    for (int i = 0; i < e->n; i++) {
        struct part part = e->replica[i].part[e->current.use];
        const int32_t *own = engine_partners(e, i, e->current.number);
        for (int k = 0; k < part.count; k++)
            e->partner[part.first + k] = part.first + own[k];
    }
    return loss_head_partners(head, e->partner);
}

static enum status central_loss(struct engine *e)
{
    struct loss_head *head = e->head[e->current.use];
    TRY(loss_head_labels(head, e->current.batch->label));
    if (e->partner && e->current.use != USE_VAL)
        TRY(central_partners(e, head));
    TRY(loss_head_run(head, e->current.state));
    return loss_head_metrics(head, engine_metrics(e, 0));
}

static enum status backward_part(struct engine *e, int i)
{
    struct program *p = e->replica[i].program[e->current.use];
    if (!p || e->idle)
        return STATUS_OK;
    TRY(copy_rows(e, i, false));
    TRY(program_backward(p, NULL, NULL));
    if (e->rounding[i])
        TRY(rounding_execute(e->rounding[i]));
    if (e->current.poison && i == e->n - 1)
        TRY(program_poison(p));
    return program_wait(p);
}

/* Passes device 0's gradients to the reducer. The reducer adds them to the gradients of earlier
 * micro-batches and, after the last micro-batch, starts to reduce the sum over the ranks. */
static enum status hand_over(struct engine *e)
{
    const struct micro_batch *b = &e->current;
    if (!e->reducer[0])
        return STATUS_OK;
    reducer_begin(e->reducer[0], b->number == 0, b->number == b->of - 1, e->replica[0].blank,
                  false);
    return reducer_complete(e->reducer[0], 0, INT64_MAX);
}

/* Adds the gradients of the other devices to those of device 0, one device after the other. All
 * devices have completed their gradients, because backward_part waits. A kernel of device 0 may be
 * unable to read another device's memory, but every GPU can copy from there. Copies and sums are in
 * the order of device 0's stream, which is idle before the next backward pass begins. */
static enum status central_sum(struct engine *e)
{
    struct replica *first = &e->replica[0];
    struct stream *s = network_stream(first->net);
    size_t bytes;
    float *sum = network_flat(first->net, VALUE_GRADIENT, &bytes);
    for (int i = 1; i < e->n; i++) {
        if (!e->replica[i].program[e->current.use])
            continue;
        float *own = network_flat(e->replica[i].net, VALUE_GRADIENT, &bytes);
        if (e->arrived)
            TRY(first->dev->backend->copy(s, e->arrived, own, bytes));
        TRY(flat_sum_run(&e->sum, s, sum, e->arrived ? e->arrived : own, sum));
    }
    return STATUS_OK;
}

enum status data_parallel_batch(struct engine *e)
{
    TRY(engine_flips(e, 0, VALUE_WEIGHT));
    TRY(engine_mark(e, MARK_BEGIN));
    TRY(engine_run(e, replicate));
    TRY(engine_mark(e, MARK_COPIED));
    TRY(engine_run(e, forward_part));
    TRY(central_loss(e));
    TRY(engine_mark(e, MARK_FORWARD));
    TRY(engine_delay(e));
    TRY(engine_run(e, backward_part));
    TRY(engine_mark(e, MARK_BACKWARD));
    TRY(central_sum(e));
    TRY(hand_over(e));
    return engine_mark(e, MARK_SUMMED);
}

enum status data_parallel_evaluate(struct engine *e)
{
    TRY(engine_run(e, replicate));
    TRY(engine_run(e, forward_part));
    return central_loss(e);
}
