/* One optimizer step. */
#include "runners/step.h"

#include "base/clock.h"
#include "runners/divergence.h"
#include "runners/stop.h"

#include <inttypes.h>
#include <math.h>

double step_now(void)
{
    return (double)clock_ns() * 1e-9;
}

static double percent(double part, double of)
{
    return of > 0 ? 100 * part / of : 0;
}

void step_sums_add(struct step_sums *sums, const struct batch *b, const struct loss_metrics *m)
{
    double *v = sums->v;
    v[SUM_LOSS] += m->loss_sum;
    v[SUM_COUNT] += (double)m->count;
    v[SUM_TOP1] += (double)m->top1;
    v[SUM_TOP5] += (double)m->top5;
    v[SUM_IMAGES] += b->count;
    v[SUM_FILES] += (double)b->stats.files;
    v[SUM_BYTES] += (double)b->stats.bytes;
    v[SUM_BAD] += (double)b->stats.bad;
    v[SUM_DECODE_NS] += (double)b->stats.decode_ns;
}

enum status step_sums_share(struct session *s, struct step_sums *sums)
{
    sums->v[SUM_STOP] = stop_requested() != NULL;
    if (s->world.size > 1)
        TRY(world_sum(&s->world, sums->v, SUM_MAX));
    s->stopping = s->stopping || sums->v[SUM_STOP] > 0;
    return STATUS_OK;
}

/* Without loss scaling a loss that is not finite is the end. With it, the step's gradients are not
 * finite either: the scaler skips it, and ends the run when that goes on. Every rank sees the same
 * sums, and so fails alike. */
static enum status judge(struct session *s, double loss_sum, double lr, bool found_inf)
{
    s->agreed = true;
    if (s->scaled) {
        TRY(scaler_update(&s->config->scaler, &s->state.scaler, found_inf));
    } else {
        TRY(divergence_check_loss(
            loss_sum, "the loss of epoch %" PRId64 ", step %" PRId64 ", at learning rate %g,",
            s->state.epoch, s->state.step, lr));
    }
    s->agreed = false;
    return STATUS_OK;
}

/* The learning rate's course runs over epochs, so that it is the same whatever number of ranks the
 * run has had. */
static double learning_rate(const struct session *s)
{
    int64_t step = s->state.epoch * s->train_steps + s->state.batch / s->config->accumulate;
    return s->lr_factor * train_config_lr(s->config, step, s->train_steps);
}

static struct step_state device_state(const struct session *s, double lr)
{
    return (struct step_state){.seed = s->config->seed,
                               .step = (uint64_t)s->state.step,
                               .lr = (float)lr,
                               .loss_scale = s->scaled ? (float)s->state.scaler.scale : 1};
}

/* Micro-batch number `i` of `n`; *waited grows by the wait for its images. */
static enum status micro_batch(struct session *s, int i, int n, const struct step_state *state,
                               struct step_sums *sums, double *waited)
{
    struct batch *b;
    struct loss_metrics m;
    double begun = step_now();
    TRY(loader_next(s->train_loader, &b));
    *waited += step_now() - begun;
    if (!b)
        return status_fail(STATUS_INVALID, "the epoch ended before its last batch");
    struct micro_batch work = {.use = b->count == s->config->batch ? USE_TRAIN : USE_TAIL,
                               .batch = b,
                               .state = state,
                               .number = i,
                               .of = n,
                               .poison = i == n - 1 && s->world.rank == s->world.size - 1 &&
                                         s->state.step == s->config->inject_overflow};
    TRY(engine_batch(s->engine, &work, &m));
    step_sums_add(sums, b, &m);
    loader_release(s->train_loader, b);
    return STATUS_OK;
}

/* A skipped step whose loss overflowed has no place in the epoch's mean. */
static void count_step(struct session *s, const double *v, int batches)
{
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

static void describe(const struct session *s, const double *v, struct step_record *rec)
{
    struct step_times t = engine_times(s->engine);
    rec->epoch = s->state.epoch;
    rec->step = s->state.step;
    rec->batch = s->state.batch;
    rec->images = (int64_t)v[SUM_IMAGES];
    rec->loss = v[SUM_COUNT] > 0 ? v[SUM_LOSS] / v[SUM_COUNT] : NAN;
    rec->top1 = percent(v[SUM_TOP1], v[SUM_COUNT]);
    rec->top5 = percent(v[SUM_TOP5], v[SUM_COUNT]);
    rec->h2d_s = t.input_s;
    rec->forward_s = t.forward_s;
    rec->backward_s = t.backward_s;
    rec->comm_s = t.exposed_s;
    rec->comm_busy_s = t.busy_s;
    rec->optimizer_s = t.optimizer_s;
    rec->bytes_read = (int64_t)v[SUM_BYTES];
    rec->files_read = (int64_t)v[SUM_FILES];
    rec->decode_s = v[SUM_DECODE_NS] * 1e-9;
    rec->workers = s->config->dummy ? 0 : s->config->workers;
    rec->bad_images = (int64_t)v[SUM_BAD];
}

enum status step_run(struct session *s, double begun, struct step_record *rec)
{
    struct step_sums sums = {{0}};
    bool found_inf;
    int64_t left = s->train_batches - s->state.batch;
    int n = left < s->config->accumulate ? (int)left : s->config->accumulate;
    double lr = learning_rate(s);
    struct step_state state = device_state(s, lr);
    *rec = (struct step_record){.lr = lr};
    if (s->scaled) {
        rec->loss_scale = s->state.scaler.scale;
        rec->clean = s->state.scaler.clean;
    }
    rec->data_s = step_now() - begun; /* what happened between two steps */
    for (int i = 0; i < n; i++)
        TRY(micro_batch(s, i, n, &state, &sums, &rec->data_s));
    TRY(engine_update(s->engine, &found_inf));
    s->spent.images += (int64_t)sums.v[SUM_IMAGES]; /* its own, before they are everybody's */
    double shared = step_now();
    TRY(step_sums_share(s, &sums));
    shared = step_now() - shared;
    TRY(judge(s, sums.v[SUM_LOSS], lr, found_inf));
    describe(s, sums.v, rec);
    rec->comm_s += s->world.size > 1 ? shared : 0; /* the wait for the slowest rank, too */
    rec->skipped = found_inf;
    count_step(s, sums.v, n);
    return STATUS_OK;
}
