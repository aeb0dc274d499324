/* Computes a step in which every device computes the loss of its own part of the batch. */
#include "engine/engine_parts.h"

#include "base/clock.h"

/* Records a mark only for replica 0, because all marks are in device 0's stream. */
static enum status mark_if_first(struct engine *e, int i, enum mark m)
{
    return i == 0 ? engine_mark(e, m) : STATUS_OK;
}

/* Flips bits only if replica i is on the last device that keeps weights. */
enum status engine_flips(struct engine *e, int i, enum param_value v)
{
    const struct inject *faults = e->config.inject;
    bool hit = i == (e->central ? 0 : e->n - 1);
    if (!faults || !hit || (v == VALUE_WEIGHT && e->current.number > 0))
        return STATUS_OK;
    return inject_flips(faults, (int64_t)e->current.state->step, comm_rank(e->config.ranks), v,
                        e->replica[i].net);
}

/* Waits until `end_ns`. A sleep may end too late, and the error may exceed a short delay. The last
 * AWAKE_NS are therefore busy-waited. */
static void wait_until(uint64_t end_ns)
{
    enum { AWAKE_NS = 300000 };
    uint64_t now = clock_ns();
    if (end_ns > now + AWAKE_NS) {
        uint64_t ns = end_ns - now - AWAKE_NS;
        struct timespec left = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
        while (nanosleep(&left, &left) != 0) /* interrupted by a signal: sleep for the rest */
            ;
    }
    while (clock_ns() < end_ns)
        ;
}

/* Waits for the device first; an asynchronous device is therefore idle during the delay. */
enum status engine_delay(struct engine *e)
{
    struct in_flight *f = engine_in_flight(e, e->begun);
    double owed = e->delay_owed_s;
    if (owed <= 0 || e->current.number > 0)
        return STATUS_OK;
    TRY(e->replica[0].dev->backend->stream_sync(network_stream(e->replica[0].net)));
    uint64_t begun = clock_ns();
    wait_until(begun + (uint64_t)(1e9 * owed));
    f->delay_s = (double)(clock_ns() - begun) * 1e-9;
    e->delay_owed_s = 0;
    return STATUS_OK;
}

static enum status run_backward(struct engine *e, int i, struct program *p)
{
    const struct micro_batch *b = &e->current;
    struct reducer *r = e->reducer[i];
    bool poison = b->poison && i == e->n - 1;
    if (!r) {
        TRY(e->idle ? STATUS_OK : program_backward(p, NULL, NULL));
        return poison ? program_poison(p) : STATUS_OK;
    }
    reducer_begin(r, b->number == 0, b->number == b->of - 1, e->replica[i].blank, poison);
    return e->idle ? reducer_complete(r, 0, INT64_MAX) : program_backward(p, reducer_complete, r);
}

static enum status own_batch(struct engine *e, int i)
{
    const struct micro_batch *b = &e->current;
    struct program *p = e->replica[i].program[b->use];
    struct step_state state = engine_state(e, b);
    TRY(mark_if_first(e, i, MARK_BEGIN));
    TRY(mark_if_first(e, i, MARK_COPIED));
    TRY(engine_flips(e, i, VALUE_WEIGHT));
    TRY(engine_input(e, i, b, &state));
    TRY(program_run(p, PHASE_INPUT));
    TRY(mark_if_first(e, i, MARK_INPUT));
    if (!e->idle)
        TRY(program_run(p, PHASE_FORWARD));
    TRY(program_run(p, PHASE_LOSS)); /* without a valid image: only the state and the metrics */
    TRY(mark_if_first(e, i, MARK_FORWARD));
    if (i == 0)
        TRY(engine_delay(e));
    TRY(run_backward(e, i, p));
    TRY(mark_if_first(e, i, MARK_BACKWARD));
    TRY(mark_if_first(e, i, MARK_SUMMED));
    return program_fetch_metrics(p, engine_metrics(e, i));
}

/* Runs e->work for replica i. If it fails, reports the failure to the other replicas, which would
 * otherwise wait for replica i in a sum. */
static enum status run_guarded(void *context, int i)
{
    struct engine *e = context;
    enum status st = e->work(e, i);
    if (st != STATUS_OK && e->local[i]) {
        thread_pool_fail(e->pool, st);
        comm_fail(e->local[i], st, status_message());
    }
    return st;
}

enum status engine_run(struct engine *e, enum status (*work)(struct engine *e, int i))
{
    e->work = work;
    return thread_pool_run(e->pool, run_guarded, e);
}

/* Returns a copy of b->state in which divisor, share and grad_scale are set. The optimizer
 * multiplies the gradients by grad_scale. */
struct step_state engine_state(const struct engine *e, const struct micro_batch *b)
{
    struct step_state s = *b->state;
    double divisor = e->reducer[0] ? reducer_divisor(e->reducer[0]) : 1;
    /* The gradients of a process's replicas are already parts of one mean, so their sum is not
     * divided. */
    if (!e->central && e->n > 1)
        divisor /= e->n;
    s.divisor = b->of * divisor;
    s.share = 1;
    s.grad_scale = scaler_grad_scale((double)s.loss_scale, s.divisor);
    return s;
}

/* Counts the valid images of the current micro-batch, and decides which passes are computed. */
static enum status count_valid(struct engine *e, struct in_flight *f)
{
    const struct batch *b = e->current.batch;
    double valid = b->count - (double)b->stats.bad;
    f->valid = (e->current.number > 0 ? f->valid : 0) + valid;
    for (int i = 0; i < e->n; i++)
        e->replica[i].blank = valid == 0;
    if (e->config.sync_bn && engine_ranks(e) > 1)
        TRY(comm_sum(e->config.ranks, &valid, 1));
    e->idle = valid == 0;
    return STATUS_OK;
}

enum status engine_batch(struct engine *e, const struct micro_batch *b)
{
    struct in_flight *f = engine_in_flight(e, e->begun);
    e->current = *b;
    TRY(count_valid(e, f));
    f->use = b->use;
    f->of = b->number + 1;
    f->delay_s = b->number > 0 ? f->delay_s : 0;
    TRY(e->central ? data_parallel_batch(e) : engine_run(e, own_batch));
    e->batches++;
    return STATUS_OK;
}

/* Marks the end of this step's work on replica i's stream. */
static enum status finish_step(struct engine *e, int i)
{
    const struct replica *r = &e->replica[i];
    return r->dev->backend->event_record(engine_in_flight(e, e->begun)->done[i],
                                         network_stream(r->net));
}

static enum status reduce_replica(struct engine *e, int i)
{
    TRY(mark_if_first(e, i, MARK_UPDATE));
    return e->reducer[i] ? reducer_finish(e->reducer[i]) : STATUS_OK;
}

static enum status update_replica(struct engine *e, int i)
{
    struct in_flight *f = engine_in_flight(e, e->begun);
    struct program *p = e->replica[i].program[e->current.use];
    if (e->central && i > 0)
        return STATUS_OK;
    TRY(mark_if_first(e, i, MARK_REDUCED));
    TRY(engine_flips(e, i, VALUE_GRADIENT));
    if (f->valid > 0) {
        TRY(program_run(p, PHASE_CHECK));
        TRY(program_run(p, PHASE_UPDATE));
    }
    TRY(mark_if_first(e, i, MARK_END));
    if (i == 0 && e->config.scaled)
        TRY(program_fetch_outcome(p, f->outcome));
    TRY(finish_step(e, i));
    return e->central ? program_wait(p) : STATUS_OK; /* waits, because the other replicas copy the
                                                      * updated weights next */
}

/* The ranks sum their numbers of valid images after the gradients, because the sums share a
 * communicator. */
enum status engine_update(struct engine *e)
{
    TRY(engine_run(e, reduce_replica));
    if (engine_ranks(e) > 1)
        TRY(comm_sum(e->config.ranks, &engine_in_flight(e, e->begun)->valid, 1));
    TRY(engine_run(e, update_replica));
    e->begun++;
    return STATUS_OK;
}

static enum status evaluate_own(struct engine *e, int i)
{
    struct program *p = e->replica[i].program[USE_VAL];
    if (!p)
        return STATUS_OK;
    TRY(engine_input(e, i, &e->current, e->current.state));
    TRY(program_run(p, PHASE_INPUT));
    TRY(program_run(p, PHASE_FORWARD));
    TRY(program_run(p, PHASE_LOSS));
    TRY(program_fetch_metrics(p, engine_metrics(e, i)));
    return finish_step(e, i);
}

enum status engine_evaluate(struct engine *e, const struct batch *b)
{
    static const struct step_state state = {.loss_scale = 1, .grad_scale = 1};
    struct in_flight *f = engine_in_flight(e, e->begun);
    e->current = (struct micro_batch){.use = USE_VAL, .batch = b, .state = &state, .of = 1};
    f->use = USE_VAL;
    f->of = 1;
    TRY(e->central ? data_parallel_evaluate(e) : engine_run(e, evaluate_own));
    e->batches++;
    e->begun++;
    return STATUS_OK;
}

enum status engine_result(struct engine *e, struct step_result *r)
{
    const struct in_flight *f = engine_in_flight(e, e->ended);
    for (int i = 0; i < e->n && !e->central; i++)
        TRY(e->replica[i].dev->backend->event_wait(f->done[i]));
    in_flight_read(e, e->ended, r);
    e->ended++;
    return STATUS_OK;
}

enum status engine_batch_read(struct engine *e, int ago)
{
    int64_t number = e->batches - 1 - ago;
    for (int i = 0; i < e->n && number >= 0; i++)
        TRY(e->replica[i].dev->backend->event_wait(e->read[i][number % (ENGINE_HOLDS + 1)]));
    return STATUS_OK;
}
