/* The training loop. */
#include "runners/trainer.h"

#include "base/clock.h"
#include "base/file.h"
#include "results/stats.h"
#include "results/summary.h"
#include "runners/divergence.h"
#include "runners/progress.h"
#include "runners/session.h"
#include "runners/stop.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What one pass over a data set came to. */
struct pass_result {
    double loss_sum;
    int64_t count, top1, top5;
    int64_t images; /* trained or looked at, bad ones included */
    int64_t bad_images;
    double seconds;
    struct io_stats io;
};

static double now(void)
{
    return (double)clock_ns() * 1e-9;
}

static double percent(int64_t part, int64_t of)
{
    return of ? 100.0 * (double)part / (double)of : 0;
}

static double mean_loss(double sum, int64_t count)
{
    return count ? sum / (double)count : NAN;
}

static enum status mark(struct session *s, enum mark m)
{
    return s->dev->backend->event_record(s->mark[m], network_stream(s->net));
}

static double between(const struct session *s, enum mark from, enum mark to)
{
    return s->dev->backend->event_seconds(s->mark[from], s->mark[to]);
}

/* Runs one optimizer step; the batch's memory is free again when it returns. */
static enum status run_step(struct session *s, struct program *p, const struct batch *b, double lr,
                            struct loss_metrics *m)
{
    struct step_state state = {.seed = s->config->seed,
                               .step = (uint64_t)s->state.step,
                               .lr = (float)lr,
                               .loss_scale = 1,
                               .grad_scale = 1};
    if (s->scaled) {
        state.loss_scale = (float)s->state.scaler.scale;
        state.grad_scale = (float)(1 / s->state.scaler.scale);
    }
    TRY(mark(s, MARK_BEGIN));
    TRY(program_state(p, &state));
    TRY(program_input(p, b->pixels, b->label));
    TRY(program_run(p, PHASE_INPUT));
    TRY(mark(s, MARK_INPUT));
    TRY(program_run(p, PHASE_FORWARD));
    TRY(program_run(p, PHASE_LOSS));
    TRY(mark(s, MARK_FORWARD));
    TRY(program_run(p, PHASE_BACKWARD));
    if (s->state.step == s->config->inject_overflow)
        TRY(program_poison(p));
    TRY(mark(s, MARK_BACKWARD));
    TRY(program_run(p, PHASE_CHECK));
    TRY(program_run(p, PHASE_UPDATE));
    TRY(mark(s, MARK_UPDATE));
    TRY(program_wait(p));
    return program_metrics(p, m);
}

/* Without loss scaling a loss that is not finite is the end. With it, the step's gradients are not
 * finite either: the scaler skips it, and ends the run when that goes on. */
static enum status check_finite(struct session *s, struct program *p, const struct loss_metrics *m,
                                double lr, bool *skipped)
{
    *skipped = false;
    if (s->scaled) {
        TRY(program_found_inf(p, skipped));
        return scaler_update(&s->config->scaler, &s->state.scaler, *skipped);
    }
    return divergence_check_loss(
        m->loss_sum, "the loss of epoch %" PRId64 ", step %" PRId64 ", at learning rate %g,",
        s->state.epoch, s->state.step, lr);
}

/* A skipped step whose loss overflowed has no place in the epoch's mean. */
static void count_batch(struct session *s, const struct loss_metrics *m, const struct io_stats *io)
{
    if (isfinite(m->loss_sum)) {
        s->state.loss_sum += m->loss_sum;
        s->state.count += m->count;
        s->state.top1 += m->top1;
        s->state.top5 += m->top5;
    }
    s->state.bad_images += io->bad;
    s->state.batch++;
    s->state.step++;
}

static struct step_record describe_step(const struct session *s, const struct batch *b,
                                        const struct loss_metrics *m, double lr)
{
    return (struct step_record){
        .epoch = s->state.epoch,
        .step = s->state.step,
        .batch = s->state.batch,
        .images = b->count,
        .loss = mean_loss(m->loss_sum, m->count),
        .top1 = percent(m->top1, m->count),
        .top5 = percent(m->top5, m->count),
        .lr = lr,
        .h2d_s = between(s, MARK_BEGIN, MARK_INPUT),
        .forward_s = between(s, MARK_INPUT, MARK_FORWARD),
        .backward_s = between(s, MARK_FORWARD, MARK_BACKWARD),
        .optimizer_s = between(s, MARK_BACKWARD, MARK_UPDATE),
        .bytes_read = b->stats.bytes,
        .files_read = b->stats.files,
        .decode_s = (double)b->stats.decode_ns * 1e-9,
        .workers = s->config->dummy ? 0 : s->config->workers,
        .bad_images = b->stats.bad,
    };
}

static void report_step(struct progress *p, const struct step_record *r)
{
    meter_add(&p->time, r->total_s, 1);
    meter_add(&p->data, r->data_s, 1);
    meter_add(&p->loss, r->loss, r->images);
    meter_add(&p->top1, r->top1, r->images);
    meter_add(&p->top5, r->top5, r->images);
    meter_add(&p->rate, (double)r->images / r->total_s, 1);
    p->loss_scale = r->loss_scale;
    p->skipped += r->skipped;
    progress_batch(p, r->batch);
}

/* One batch: wait for it, train on it, write down what it came to. `end` is when the step before
 * ended, and becomes when this one does. *more is false at the end of the epoch. */
static enum status train_batch(struct session *s, struct progress *p, double *end, bool *more,
                               struct pass_result *r)
{
    struct batch *b;
    struct loss_metrics m;
    bool skipped;
    double lr = train_config_lr(s->config, s->state.step, s->train_batches);
    TRY(loader_next(s->train_loader, &b));
    *more = b != NULL;
    if (!b)
        return STATUS_OK;
    double data_s = now() - *end;
    bool full = b->count == s->config->batch;
    struct program *program = s->program[full ? USE_TRAIN : USE_TAIL];
    struct scaler_state before = s->scaled ? s->state.scaler : (struct scaler_state){0};
    TRY(run_step(s, program, b, lr, &m));
    TRY(check_finite(s, program, &m, lr, &skipped));
    struct step_record rec = describe_step(s, b, &m, lr);
    rec.loss_scale = before.scale;
    rec.clean = before.clean;
    rec.skipped = skipped;
    int64_t index = s->state.batch;
    count_batch(s, &m, &b->stats);
    io_stats_add(&r->io, &b->stats);
    r->images += b->count;
    loader_release(s->train_loader, b);

    double after = now();
    rec.data_s = data_s;
    rec.total_s = after - *end;
    *end = after;
    s->rates[index] = (double)rec.images / rec.total_s;
    TRY(record_step(s->record, &rec));
    report_step(p, &rec);
    return STATUS_OK;
}

/* True when the run should end here, in the middle of an epoch or between two. */
static bool enough(const struct session *s)
{
    return stop_requested() || (s->config->steps && s->state.step >= s->config->steps);
}

static enum status train_epoch(struct session *s, struct pass_result *r)
{
    enum status st;
    struct progress p;
    char title[32];
    const struct train_config *c = s->config;
    bool more = true;
    double begun = now(), end = begun;
    *r = (struct pass_result){0};
    snprintf(title, sizeof title, "Epoch: [%" PRId64 "]", s->state.epoch);
    progress_begin(&p, s->out, title, s->train_batches, s->state.batch, c->print_freq);
    CHECK(loader_start(s->train_loader, s->state.epoch, s->state.batch));
    while (!enough(s)) {
        CHECK(train_batch(s, &p, &end, &more, r));
        if (!more)
            break;
        bool last = s->state.batch == s->train_batches;
        if (c->checkpoint_steps && s->state.step % c->checkpoint_steps == 0 && !last) {
            CHECK(session_checkpoint(s));
            end = now(); /* a checkpoint's time is not a step's */
        }
        if (last)
            break;
    }
done:
    progress_end(&p);
    r->seconds = now() - begun;
    r->loss_sum = s->state.loss_sum;
    r->count = s->state.count;
    r->top1 = s->state.top1;
    r->top5 = s->state.top5;
    r->bad_images = s->state.bad_images;
    return st;
}

static enum status validate_batch(struct session *s, const struct batch *b, struct loss_metrics *m)
{
    struct program *p = s->program[USE_VAL];
    struct step_state state = {.seed = s->config->seed, .loss_scale = 1, .grad_scale = 1};
    TRY(program_state(p, &state));
    TRY(program_input(p, b->pixels, b->label));
    TRY(program_run(p, PHASE_INPUT));
    TRY(program_run(p, PHASE_FORWARD));
    TRY(program_run(p, PHASE_LOSS));
    return program_metrics(p, m);
}

static void report_validation(struct progress *p, const struct batch *b,
                              const struct loss_metrics *m, double data_s, double total_s)
{
    meter_add(&p->time, total_s, 1);
    meter_add(&p->data, data_s, 1);
    meter_add(&p->loss, mean_loss(m->loss_sum, m->count), m->count);
    meter_add(&p->top1, percent(m->top1, m->count), m->count);
    meter_add(&p->top5, percent(m->top5, m->count), m->count);
    meter_add(&p->rate, b->count / total_s, 1);
    progress_batch(p, b->index);
}

static void count_validation(struct pass_result *r, const struct batch *b,
                             const struct loss_metrics *m)
{
    r->loss_sum += m->loss_sum;
    r->count += m->count;
    r->top1 += m->top1;
    r->top5 += m->top5;
    r->images += b->count;
    r->bad_images += b->stats.bad;
    io_stats_add(&r->io, &b->stats);
}

/* Looks at every validation image once. A signal cuts it short: STATUS_INTERRUPTED. */
static enum status validate(struct session *s, struct pass_result *r)
{
    enum status st;
    struct progress p;
    struct batch *b;
    double begun = now(), end = begun;
    *r = (struct pass_result){0};
    progress_begin(&p, s->out, "Test: ", loader_batches(s->val_loader), 0, s->config->print_freq);
    CHECK(loader_start(s->val_loader, 0, 0));
    for (;;) {
        struct loss_metrics m;
        CHECK(loader_next(s->val_loader, &b));
        if (!b)
            break;
        double ready = now();
        CHECK(validate_batch(s, b, &m));
        CHECK(divergence_check_loss(m.loss_sum, "the validation loss"));
        count_validation(r, b, &m);
        double after = now();
        report_validation(&p, b, &m, ready - end, after - end);
        end = after;
        loader_release(s->val_loader, b);
        if (stop_requested()) {
            st = status_fail(STATUS_INTERRUPTED, "validation was interrupted");
            goto done;
        }
    }
done:
    progress_end(&p);
    r->seconds = now() - begun;
    if (st != STATUS_OK)
        return st;
    if (r->count == 0)
        return status_fail(STATUS_DATA, "no validation image could be decoded");
    progress_accuracy(s->out, percent(r->top1, r->count), percent(r->top5, r->count));
    return STATUS_OK;
}

/* Keeps the weights of the best validation so far. */
static enum status keep_best(struct session *s, double top1)
{
    char path[4096];
    if (top1 <= s->state.best_top1 && path_exists(s->dir) && s->state.best_top1 > 0)
        return STATUS_OK;
    s->state.best_top1 = top1;
    TRY(path_format(path, sizeof path, "%s/" BEST_NAME, s->dir));
    return weights_save(path, s->net, s->graph, s->state.step);
}

/* Throughput of the steps of this epoch that this process ran, the first few left out as warm-up
 * when the process began with them. */
static enum status rate_stats(const struct session *s, int64_t first_batch, bool warm,
                              struct stats *out)
{
    const double *rates = s->rates + first_batch;
    int64_t n = s->state.batch - first_batch;
    int64_t skip = warm ? 0 : stats_warmup(n, 5);
    *out = (struct stats){0};
    return n - skip > 0 ? stats_of(rates + skip, n - skip, out) : STATUS_OK;
}

static enum status record_pass(struct session *s, const struct pass_result *train,
                               const struct pass_result *val, double checkpoint_s,
                               const struct stats *rate)
{
    double seconds = train->seconds + val->seconds + checkpoint_s;
    struct epoch_record e = {
        .epoch = s->state.epoch,
        .steps = s->state.step,
        .lr = train_config_lr(s->config, s->state.step - 1, s->train_batches),
        .train_images = train->count,
        .train_loss = mean_loss(train->loss_sum, train->count),
        .train_top1 = percent(train->top1, train->count),
        .train_top5 = percent(train->top5, train->count),
        .val_images = val->count,
        .val_loss = mean_loss(val->loss_sum, val->count),
        .val_top1 = percent(val->top1, val->count),
        .val_top5 = percent(val->top5, val->count),
        .best_top1 = s->state.best_top1,
        .images_per_s = rate->median,
        .images_per_s_p5 = rate->p5,
        .images_per_s_p95 = rate->p95,
        .images_per_s_wall = (double)train->images / seconds,
        .train_s = train->seconds,
        .val_s = val->seconds,
        .checkpoint_s = checkpoint_s,
        .bytes_per_s = (double)train->io.bytes / train->seconds,
        .files_per_s = (double)train->io.files / train->seconds,
        .decode_ms =
            train->io.files ? (double)train->io.decode_ns * 1e-6 / (double)train->io.files : 0,
        .bad_images = train->bad_images + val->bad_images,
        .loss_scale = s->scaled ? s->state.scaler.scale : 0,
        .clean = s->state.scaler.clean,
        .skipped = s->state.scaler.skipped,
    };
    return record_epoch(s->record, &e);
}

/* Validation, the best weights, and the record, which says what the epoch came to. Afterwards the
 * state stands at the beginning of the next epoch. */
static enum status finish_epoch(struct session *s, const struct pass_result *train,
                                const struct stats *rate)
{
    struct pass_result val;
    TRY(validate(s, &val));
    double begun = now();
    TRY(keep_best(s, percent(val.top1, val.count)));
    TRY(record_pass(s, train, &val, now() - begun, rate));
    s->state = (struct train_state){.epoch = s->state.epoch + 1,
                                    .step = s->state.step,
                                    .best_top1 = s->state.best_top1,
                                    .scaler = s->state.scaler};
    return session_checkpoint(s);
}

static enum status interrupted(struct session *s)
{
    const char *signal = stop_requested();
    TRY(session_checkpoint(s));
    return status_fail(STATUS_INTERRUPTED,
                       "stopped by %s at epoch %" PRId64 ", step %" PRId64
                       "; go on with --resume auto --out %s",
                       signal, s->state.epoch, s->state.step, s->dir);
}

static bool reached_accuracy(const struct session *s)
{
    return s->config->desired_acc > 0 && s->state.best_top1 >= s->config->desired_acc;
}

static enum status train(struct session *s)
{
    bool warm = false;
    while (s->state.epoch < s->config->epochs && !reached_accuracy(s)) {
        struct pass_result result;
        struct stats rate;
        int64_t first = s->state.batch;
        TRY(train_epoch(s, &result));
        if (s->state.batch < s->train_batches) /* stopped in the middle */
            return stop_requested() ? interrupted(s) : session_checkpoint(s);
        TRY(rate_stats(s, first, warm, &rate));
        enum status st = finish_epoch(s, &result, &rate);
        if (st == STATUS_INTERRUPTED)
            return interrupted(s);
        TRY(st);
        warm = true;
        if (enough(s))
            return stop_requested() ? interrupted(s) : STATUS_OK;
    }
    return STATUS_OK;
}

/* The summary rests on the records, so that it counts what earlier attempts did too. */
static enum status finish_run(struct session *s)
{
    enum status st;
    struct run *run = NULL;
    const char *why = s->state.epoch >= s->config->epochs ? "epochs"
                      : reached_accuracy(s)               ? "desired accuracy"
                                                          : "steps";
    json_t *summary =
        json_pack("{s:I, s:I, s:f, s:s}", "epochs", (json_int_t)s->state.epoch, "steps",
                  (json_int_t)s->state.step, "best_top1", s->state.best_top1, "ended_by", why);
    if (!summary)
        return status_fail(STATUS_OOM, "no memory for the summary");
    CHECK(record_sync(s->record));
    CHECK(run_load(s->dir, &run));
    CHECK(summary_add(run, summary));
    CHECK(record_finish(s->record, summary));
done:
    run_free(run);
    json_decref(summary);
    return st;
}

static void announce(const struct session *s)
{
    char about[256];
    s->dev->backend->describe(s->dev, about, sizeof about);
    fprintf(s->out, "%s, %d px, batch %d on %s\n", s->graph->arch, s->graph->image_size,
            s->config->batch, about);
    fprintf(s->out, "%.1f MiB of parameters, gradients and momentum, %.1f MiB for a step\n",
            (double)network_param_bytes(s->net) / 1048576.0,
            (double)network_arena_bytes(s->net) / 1048576.0);
    if (s->resumed)
        fprintf(s->out, "going on from epoch %" PRId64 ", step %" PRId64 "\n", s->state.epoch,
                s->state.step);
    if (*s->dir)
        fprintf(s->out, "records and checkpoints go to '%s'\n", s->dir);
    fflush(s->out);
}

enum status trainer_run(const struct train_config *config, int argc, char *const *argv, FILE *out)
{
    struct session s;
    stop_install();
    TRY(session_open(&s, config, argc, argv, out));
    enum status st;
    announce(&s);
    if (config->evaluate) {
        struct pass_result val;
        CHECK(validate(&s, &val));
    } else {
        CHECK(train(&s));
        CHECK(finish_run(&s));
    }
done:
    if (st == STATUS_DIVERGED)
        st = divergence_explain(&s);
    enum status closed = session_close(&s);
    return st != STATUS_OK ? st : closed;
}
