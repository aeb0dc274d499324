/* A step where every device computes the loss of its own part. */
#include "runners/engine_parts.h"

static double between(const struct engine *e, enum mark from, enum mark to)
{
    return e->replica[0].dev->backend->event_seconds(e->mark[from], e->mark[to]);
}

/* The marks are device 0's; `i` is the replica at work. */
static enum status mark_if_first(struct engine *e, int i, enum mark m)
{
    return i == 0 ? engine_mark(e, m) : STATUS_OK;
}

static enum status backward(struct engine *e, int i, struct program *p)
{
    const struct micro_batch *b = &e->current;
    struct reducer *r = e->reducer[i];
    bool poison = b->poison && i == e->n - 1;
    if (!r) {
        TRY(program_backward(p, NULL, NULL));
        return poison ? program_poison(p) : STATUS_OK;
    }
    reducer_begin(r, b->number == 0, b->number == b->of - 1, poison);
    return program_backward(p, reducer_complete, r);
}

static enum status own_batch(struct engine *e, int i)
{
    struct replica *r = &e->replica[i];
    const struct micro_batch *b = &e->current;
    struct program *p = r->program[b->use];
    struct step_state state = engine_state(e, b);
    TRY(mark_if_first(e, i, MARK_BEGIN));
    TRY(mark_if_first(e, i, MARK_COPIED));
    TRY(engine_input(e, i, b, &state));
    TRY(program_run(p, PHASE_INPUT));
    TRY(mark_if_first(e, i, MARK_INPUT));
    TRY(program_run(p, PHASE_FORWARD));
    TRY(program_run(p, PHASE_LOSS));
    TRY(mark_if_first(e, i, MARK_FORWARD));
    TRY(backward(e, i, p));
    TRY(mark_if_first(e, i, MARK_BACKWARD));
    TRY(mark_if_first(e, i, MARK_SUMMED));
    return program_metrics(p, &r->metrics);
}

static void collect(const struct engine *e, enum program_use use, struct loss_metrics *sum)
{
    *sum = (struct loss_metrics){0};
    for (int i = 0; i < e->n; i++) {
        const struct loss_metrics *m = &e->replica[i].metrics;
        if (e->replica[i].part[use].count == 0)
            continue;
        sum->loss_sum += m->loss_sum;
        sum->count += m->count;
        sum->top1 += m->top1;
        sum->top5 += m->top5;
    }
}

/* A replica that fails must not leave the others waiting for it in a sum. */
static enum status guarded(void *context, int i)
{
    struct engine *e = context;
    enum status st = e->work(e, i);
    if (st != STATUS_OK && e->local[i])
        comm_fail(e->local[i], st, status_message());
    return st;
}

enum status engine_run(struct engine *e, enum status (*work)(struct engine *e, int i))
{
    e->work = work;
    return team_run(e->team, guarded, e);
}

/* The mean over micro-batches and ranks, and the loss scale, are taken out as gradients are used.
 */
struct step_state engine_state(const struct engine *e, const struct micro_batch *b)
{
    struct step_state s = *b->state;
    double divisor = e->reducer[0] ? reducer_divisor(e->reducer[0]) : 1;
    /* Replicas that share with each other add up parts of one mean. */
    if (!e->central && e->n > 1)
        divisor /= e->n;
    s.grad_scale = (float)(1 / ((double)s.loss_scale * b->of * divisor));
    return s;
}

enum status engine_batch(struct engine *e, const struct micro_batch *b, struct loss_metrics *m)
{
    e->current = *b;
    if (b->number == 0)
        e->times = (struct step_times){0};
    if (e->central) {
        TRY(data_parallel_batch(e, m));
    } else {
        TRY(engine_run(e, own_batch));
        collect(e, b->use, m);
    }
    struct step_times *t = &e->times;
    t->input_s += between(e, MARK_COPIED, MARK_INPUT);
    t->forward_s += between(e, MARK_INPUT, MARK_FORWARD);
    t->backward_s += between(e, MARK_FORWARD, MARK_BACKWARD);
    t->exposed_s += between(e, MARK_BEGIN, MARK_COPIED) + between(e, MARK_BACKWARD, MARK_SUMMED);
    return STATUS_OK;
}

static enum status update(struct engine *e, int i)
{
    struct program *p = e->replica[i].program[e->current.use];
    if (e->central && i > 0)
        return STATUS_OK;
    TRY(mark_if_first(e, i, MARK_UPDATE));
    if (e->reducer[i])
        TRY(reducer_finish(e->reducer[i]));
    TRY(mark_if_first(e, i, MARK_REDUCED));
    TRY(program_run(p, PHASE_CHECK));
    TRY(program_run(p, PHASE_UPDATE));
    TRY(mark_if_first(e, i, MARK_END));
    return program_wait(p);
}

enum status engine_update(struct engine *e, bool *found_inf)
{
    *found_inf = false;
    TRY(engine_run(e, update));
    e->times.exposed_s += between(e, MARK_UPDATE, MARK_REDUCED);
    e->times.optimizer_s = between(e, MARK_REDUCED, MARK_END);
    if (!e->config.scaled)
        return STATUS_OK;
    return program_found_inf(e->replica[0].program[e->current.use], found_inf);
}

static enum status evaluate_own(struct engine *e, int i)
{
    struct replica *r = &e->replica[i];
    struct program *p = r->program[USE_VAL];
    if (!p)
        return STATUS_OK;
    TRY(engine_input(e, i, &e->current, e->current.state));
    TRY(program_run(p, PHASE_INPUT));
    TRY(program_run(p, PHASE_FORWARD));
    TRY(program_run(p, PHASE_LOSS));
    return program_metrics(p, &r->metrics);
}

enum status engine_evaluate(struct engine *e, const struct batch *b, struct loss_metrics *m)
{
    static const struct step_state state = {.loss_scale = 1, .grad_scale = 1};
    e->current = (struct micro_batch){.use = USE_VAL, .batch = b, .state = &state, .of = 1};
    if (e->central)
        return data_parallel_evaluate(e, m);
    TRY(engine_run(e, evaluate_own));
    collect(e, USE_VAL, m);
    return STATUS_OK;
}
