/* Runs optimizer steps. */
#include "runners/step.h"

#include "base/clock.h"
#include "base/stop.h"
#include "engine/mixup.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

/* Returns the oldest batches to the loader until at most `n` batches are in use. */
static enum status release(struct batches_in_use *h, int n)
{
    while (h->n > n) {
        TRY(engine_batch_read(h->engine, h->n - 1));
        loader_release(h->loader, h->batch[0]);
        h->n--;
        memmove(h->batch, h->batch + 1, (size_t)h->n * sizeof h->batch[0]);
    }
    return STATUS_OK;
}

enum status batches_in_use_add(struct batches_in_use *h, struct batch *b)
{
    h->batch[h->n++] = b;
    return release(h, engine_lag(h->engine) > 0 ? ENGINE_HOLDS : 0);
}

enum status batches_in_use_release(struct batches_in_use *h)
{
    return release(h, 0);
}

double step_percent(double part, double of)
{
    return of > 0 ? 100 * part / of : 0;
}

double step_mean(double sum, double count)
{
    return count > 0 ? sum / count : NAN;
}

void step_sums_add_batch(struct step_sums *sums, const struct batch *b)
{
    double *v = sums->v;
    v[SUM_IMAGES] += b->count - (double)b->stats.bad;
    v[SUM_FILES] += (double)b->stats.files;
    v[SUM_BYTES] += (double)b->stats.bytes;
    v[SUM_BAD] += (double)b->stats.bad;
    v[SUM_DECODE_NS] += (double)b->stats.decode_ns;
}

void step_sums_add_loss(struct step_sums *sums, const struct loss_metrics *m)
{
    double *v = sums->v;
    v[SUM_LOSS] += m->loss_sum;
    v[SUM_COUNT] += (double)m->count;
    v[SUM_TOP1] += (double)m->top1;
    v[SUM_TOP5] += (double)m->top5;
}

enum status step_sums_share(struct session *s, struct step_sums *sums)
{
    sums->v[SUM_STOP] = stop_requested() != NULL;
    if (s->world.size > 1)
        TRY(comm_sum(s->world.comm, sums->v, SUM_MAX));
    s->stopping = s->stopping || sums->v[SUM_STOP] > 0;
    return STATUS_OK;
}

enum status step_check_loss(double loss, const char *what, ...)
{
    char text[STATUS_MESSAGE_MAX];
    va_list ap;
    if (isfinite(loss))
        return STATUS_OK;
    va_start(ap, what);
    vsnprintf(text, sizeof text, what, ap);
    va_end(ap);
    return status_fail(STATUS_DIVERGED, "%s is %s", text,
                       isnan(loss) ? "not a number" : "infinite");
}

/* Checks the loss of a step. Without loss scaling, a loss that is not finite ends the run (--on-nan
 * stop). With loss scaling, the step's gradients are not finite either. The scaler then skips the
 * step, and ends the run if this continues. Every rank has the same sums, so all ranks have the
 * same failure. */
static enum status judge_step(struct session *s, double loss_sum, double lr,
                              const struct step_result *r)
{
    s->agreed = true;
    if (engine_keeps_scale(s->engine)) {
        s->state.scaler = r->scaler;
        TRY(scaler_check(&s->config->scaler, &r->scaler));
    } else if (s->scaled && !r->blank) {
        TRY(scaler_update(&s->config->scaler, &s->state.scaler, r->found_inf));
    } else if (s->config->on_nan == ON_NAN_STOP) {
        TRY(step_check_loss(loss_sum,
                            "the loss of epoch %" PRId64 ", step %" PRId64 ", at learning rate %g,",
                            s->state.epoch, s->state.step, lr));
    }
    s->agreed = false;
    return STATUS_OK;
}

static struct step_state device_state(const struct session *s, int64_t step, double lr)
{
    return (struct step_state){.seed = s->config->seed,
                               .step = (uint64_t)step,
                               .lr = (float)lr,
                               .mix = mixup_weight(s->config->mixup, s->config->seed, step),
                               .loss_scale = s->scaled ? (float)s->state.scaler.scale : 1};
}

/* Begins micro-batch `i` of pending step `p`; adds the wait for its images to data_s. */
static enum status begin_micro_batch(struct session *s, struct step_queue *q,
                                     struct pending_step *p, int i, const struct step_state *state)
{
    struct batch *b;
    double begun = clock_s();
    TRY(loader_next(s->train_loader, &b));
    p->rec.data_s += clock_s() - begun;
    if (!b)
        return status_fail(STATUS_INVALID, "the epoch ended before its last batch");
    bool last = i == p->batches - 1;
    struct micro_batch work = {.use = b->count == s->config->batch ? USE_TRAIN : USE_TAIL,
                               .batch = b,
                               .state = state,
                               .number = i,
                               .of = p->batches,
                               .poison = last && s->world.rank == s->world.size - 1 &&
                                         q->step == s->config->inject_overflow};
    TRY(engine_batch(s->engine, &work));
    step_sums_add_batch(&p->sums, b);
    p->seen += b->seen;
    return batches_in_use_add(&q->in_use, b);
}

void step_queue_begin(struct step_queue *q, const struct session *s)
{
    *q = (struct step_queue){.in_use = {.engine = s->engine, .loader = s->train_loader},
                             .batch = s->state.batch,
                             .step = s->state.step};
}

enum status step_begin(struct session *s, struct step_queue *q, double since)
{
    int64_t left = s->train_batches - q->batch;
    /* The learning rate depends on the position in epochs. s->state.step would be wrong here: it
     * includes steps of earlier attempts, which may have had another number of ranks. */
    int64_t position = s->state.epoch * s->train_steps + q->batch / s->config->accumulate;
    double lr = s->lr_factor * train_config_lr(s->config, position, s->train_steps);
    struct step_state state = device_state(s, q->step, lr);
    struct pending_step *p = &q->pending[q->n];
    *p = (struct pending_step){
        .rec = {.lr = lr, .data_s = clock_s() - since}, /* host time between two steps */
        .batches = left < s->config->accumulate ? (int)left : s->config->accumulate};
    for (int i = 0; i < p->batches; i++)
        TRY(begin_micro_batch(s, q, p, i, &state));
    TRY(engine_update(s->engine));
    s->seen += p->seen;
    q->batch += p->batches;
    q->step++;
    q->n++;
    return STATUS_OK;
}

/* Adds a step to the epoch's sums; a loss that is not finite is not added. */
static void count_step(struct session *s, const double *v, int batches, bool skipped)
{
    s->not_finite = s->not_finite || (!isfinite(v[SUM_LOSS]) && !skipped);
    if (isfinite(v[SUM_LOSS])) {
        s->state.loss_sum += v[SUM_LOSS];
        s->state.count += (int64_t)v[SUM_COUNT];
        s->state.top1 += (int64_t)v[SUM_TOP1];
        s->state.top5 += (int64_t)v[SUM_TOP5];
    }
    s->state.bad_images += (int64_t)v[SUM_BAD];
    s->state.batch += batches;
    s->state.step++;
}

/* Copies the times of a step. If an asynchronous device measured the duration of the step, this
 * duration replaces the host's. */
static void describe_times(const struct step_times *t, bool steady, struct step_record *rec)
{
    rec->h2d_s = t->input_s;
    rec->forward_s = t->forward_s;
    rec->backward_s = t->backward_s;
    rec->comm_s = t->exposed_s;
    rec->comm_busy_s = t->busy_s;
    rec->optimizer_s = t->optimizer_s;
    rec->total_s = steady ? t->total_s : 0;
}

static void describe_step(const struct session *s, const double *v, struct step_record *rec)
{
    rec->epoch = s->state.epoch;
    rec->step = s->state.step;
    rec->batch = s->state.batch;
    rec->images = (int64_t)v[SUM_IMAGES];
    rec->loss = step_mean(v[SUM_LOSS], v[SUM_COUNT]);
    rec->top1 = step_percent(v[SUM_TOP1], v[SUM_COUNT]);
    rec->top5 = step_percent(v[SUM_TOP5], v[SUM_COUNT]);
    rec->bytes_read = (int64_t)v[SUM_BYTES];
    rec->files_read = (int64_t)v[SUM_FILES];
    rec->decode_s = v[SUM_DECODE_NS] * 1e-9;
    rec->workers = s->config->dummy ? 0 : s->config->workers;
    rec->bad_images = (int64_t)v[SUM_BAD];
}

enum status step_end(struct session *s, struct step_queue *q, struct step_record *rec)
{
    struct step_result result;
    struct pending_step p = q->pending[0];
    TRY(engine_result(s->engine, &result));
    q->n--;
    memmove(q->pending, q->pending + 1, (size_t)q->n * sizeof q->pending[0]);
    *rec = p.rec;
    step_sums_add_loss(&p.sums, &result.metrics);
    if (s->scaled) {
        rec->loss_scale = s->state.scaler.scale;
        rec->clean = s->state.scaler.clean;
    }
    s->spent.images += (int64_t)p.sums.v[SUM_IMAGES]; /* images of this rank, before the sum over
                                                       * ranks */
    double shared = clock_s();
    TRY(step_sums_share(s, &p.sums));
    shared = clock_s() - shared;
    TRY(judge_step(s, p.sums.v[SUM_LOSS], rec->lr, &result));
    describe_step(s, p.sums.v, rec);
    describe_times(&result.times, q->steady, rec);
    /* `shared` includes the wait for the slowest rank */
    rec->comm_s += s->world.size > 1 && !q->steady ? shared : 0;
    rec->skipped = result.found_inf;
    count_step(s, p.sums.v, p.batches, rec->skipped > 0);
    q->steady = engine_lag(s->engine) > 0;
    return STATUS_OK;
}
