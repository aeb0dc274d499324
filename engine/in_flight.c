/* In-flight steps: the host memory of their inputs and results, and their times. */
#include "engine/engine_parts.h"

#include "base/array.h"

#include <stdlib.h>

/* Allocates the host memory of device i for a step: the states, mixup partners and metrics of its
 * micro-batches; on device 0 also the outcome of the update. */
static enum status open_memory(struct engine *e, struct in_flight *f, int i)
{
    struct device *dev = e->replica[i].dev;
    size_t n = (size_t)e->config.accumulate;
    void *mem;
    TRY(dev->backend->alloc_host(dev, n * sizeof *f->given[i], &mem));
    f->given[i] = mem;
    if (e->config.program.mixes && engine_trains(e)) {
        size_t rows = n * (size_t)replica_rows(&e->replica[i]);
        TRY(dev->backend->alloc_host(dev, rows * sizeof *f->partner[i], &mem));
        f->partner[i] = mem;
    }
    TRY(dev->backend->alloc_host(dev, n * sizeof *f->metrics[i], &mem));
    f->metrics[i] = mem;
    if (i > 0)
        return STATUS_OK;
    TRY(dev->backend->alloc_host(dev, sizeof *f->outcome, &mem));
    f->outcome = mem;
    return STATUS_OK;
}

static int count_marks(const struct engine *e)
{
    int once = MARK_COUNT - MARK_BATCH_COUNT;
    return once + e->config.accumulate * MARK_BATCH_COUNT;
}

static enum status open_step(struct engine *e, struct in_flight *f)
{
    struct device *first = e->replica[0].dev;
    int marks = count_marks(e);
    for (int i = 0; i < e->n; i++) {
        TRY(open_memory(e, f, i));
        TRY(first->backend->event_open(e->replica[i].dev, &f->done[i]));
    }
    TRY(array_new(&f->mark, marks));
    for (int i = 0; i < marks; i++)
        TRY(first->backend->event_open(first, &f->mark[i]));
    return STATUS_OK;
}

enum status in_flight_open(struct engine *e)
{
    for (int i = 0; i < e->n; i++)
        for (int k = 0; k <= ENGINE_HOLDS; k++)
            TRY(e->replica[i].dev->backend->event_open(e->replica[i].dev, &e->read[i][k]));
    for (int k = 0; k < e->lag + 2; k++)
        TRY(open_step(e, &e->in_flight[k]));
    return STATUS_OK;
}

static void close_step(struct engine *e, struct in_flight *f)
{
    const struct backend *b = e->config.devices->backend;
    for (int i = 0; i < e->n; i++) {
        b->free_host(e->replica[i].dev, f->given[i]);
        b->free_host(e->replica[i].dev, f->partner[i]);
        b->free_host(e->replica[i].dev, f->metrics[i]);
        b->event_close(f->done[i]);
    }
    b->free_host(e->replica[0].dev, f->outcome);
    for (int i = 0; f->mark && i < count_marks(e); i++)
        b->event_close(f->mark[i]);
    free(f->mark);
}

void in_flight_close(struct engine *e)
{
    const struct backend *b = e->config.devices->backend;
    for (int k = 0; k < e->lag + 2; k++)
        close_step(e, &e->in_flight[k]);
    for (int i = 0; i < e->n; i++)
        for (int k = 0; k <= ENGINE_HOLDS; k++)
            b->event_close(e->read[i][k]);
}

static void metrics_add(struct loss_metrics *sum, const struct loss_metrics *m)
{
    sum->loss_sum += m->loss_sum;
    sum->count += m->count;
    sum->top1 += m->top1;
    sum->top5 += m->top5;
}

/* Sums the metrics over the micro-batches and over the replicas that compute a loss. */
static void sum_metrics(const struct engine *e, const struct in_flight *f, struct loss_metrics *sum)
{
    int n = e->central ? 1 : e->n;
    for (int k = 0; k < f->of; k++) {
        struct loss_metrics one = {0};
        for (int i = 0; i < n; i++)
            if (e->replica[i].part[f->use].count > 0)
                metrics_add(&one, &f->metrics[i][k]);
        metrics_add(sum, &one);
    }
}

static void read_times(struct engine *e, int64_t number, struct step_times *t)
{
    const struct in_flight *f = engine_in_flight(e, number);
    const struct backend *b = e->replica[0].dev->backend;
    for (int k = 0; k < f->of; k++) {
        struct event *mark[MARK_BATCH_COUNT];
        for (int m = 0; m < MARK_BATCH_COUNT; m++)
            mark[m] = in_flight_mark(f, k, (enum mark)m);
        t->input_s += b->event_seconds(mark[MARK_COPIED], mark[MARK_INPUT]);
        t->forward_s += b->event_seconds(mark[MARK_INPUT], mark[MARK_FORWARD]);
        t->backward_s += b->event_seconds(mark[MARK_FORWARD], mark[MARK_BACKWARD]);
        t->exposed_s += b->event_seconds(mark[MARK_BEGIN], mark[MARK_COPIED]) +
                        b->event_seconds(mark[MARK_BACKWARD], mark[MARK_SUMMED]);
    }
    struct event *reduced = in_flight_mark(f, 0, MARK_REDUCED),
                 *end = in_flight_mark(f, 0, MARK_END);
    t->exposed_s += b->event_seconds(in_flight_mark(f, 0, MARK_UPDATE), reduced);
    t->optimizer_s = b->event_seconds(reduced, end);
    if (e->reducer[0])
        t->busy_s = reducer_busy_s(e->reducer[0], (int)(e->begun - number - 1));
    if (e->config.inject)
        e->delay_owed_s +=
            inject_delay(e->config.inject, comm_rank(e->config.ranks)) *
            (t->input_s + t->forward_s + t->backward_s + t->optimizer_s - f->delay_s);
    if (!b->asynchronous || number == 0)
        return;
    const struct in_flight *before = engine_in_flight(e, number - 1);
    if (before->use != USE_VAL)
        t->total_s = b->event_seconds(in_flight_mark(before, 0, MARK_END), end);
}

void in_flight_read(struct engine *e, int64_t number, struct step_result *r)
{
    const struct in_flight *f = engine_in_flight(e, number);
    *r = (struct step_result){0};
    sum_metrics(e, f, &r->metrics);
    if (f->use == USE_VAL)
        return;
    r->blank = f->valid == 0;
    r->found_inf = e->config.scaled && !r->blank && f->outcome->state.found_inf != 0;
    r->scaler = f->outcome->scaler;
    read_times(e, number, &r->times);
}
