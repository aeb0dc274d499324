/* The training loop. */
#include "runners/trainer.h"

#include "base/file.h"
#include "base/stats.h"
#include "base/stop.h"
#include "results/summary.h"
#include "runners/divergence.h"
#include "runners/pass.h"
#include "runners/progress.h"
#include "runners/run_summary.h"
#include "runners/session.h"
#include "runners/step.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void report_step(struct progress *p, const struct step_record *r, int64_t index)
{
    meter_add(&p->time, r->total_s, 1);
    meter_add(&p->data, r->data_s, 1);
    meter_add(&p->loss, r->loss, r->images);
    meter_add(&p->top1, r->top1, r->images);
    meter_add(&p->top5, r->top5, r->images);
    meter_add(&p->rate, (double)r->images / r->total_s, 1);
    p->loss_scale = r->loss_scale;
    p->skipped += r->skipped;
    progress_batch(p, index);
}

static void count_time(struct rank_record *spent, const struct step_record *rec)
{
    spent->steps++;
    spent->data_s += rec->data_s;
    spent->h2d_s += rec->h2d_s;
    spent->forward_s += rec->forward_s;
    spent->backward_s += rec->backward_s;
    spent->comm_s += rec->comm_s;
    spent->comm_busy_s += rec->comm_busy_s;
    spent->optimizer_s += rec->optimizer_s;
    spent->total_s += rec->total_s;
}

/* What a step of this rank takes when it waits for nobody, over the steps [first, ...) of the epoch
 * that this process ran. */
static enum status typical_time(struct session *s, int64_t first)
{
    struct rank_record *spent = &s->spent;
    double *const median[RANK_OWN_PARTS] = {
        [RANK_DATA] = &spent->data_median_s,           [RANK_H2D] = &spent->h2d_median_s,
        [RANK_FORWARD] = &spent->forward_median_s,     [RANK_BACKWARD] = &spent->backward_median_s,
        [RANK_OPTIMIZER] = &spent->optimizer_median_s,
    };
    struct stats t;
    if (spent->steps == 0)
        return STATUS_OK;
    TRY(stats_of(s->own + first, spent->steps, &t));
    spent->own_median_s = t.median;
    spent->own_mad_s = t.mad;
    for (int p = 0; p < RANK_OWN_PARTS; p++) {
        TRY(stats_of(s->part[p] + first, spent->steps, &t));
        *median[p] = t.median;
    }
    return STATUS_OK;
}

/* Keeps the times of a step that this rank need not share with others. */
static void keep_time(struct session *s, int64_t index, const struct step_record *rec)
{
    const double part[RANK_OWN_PARTS] = {
        [RANK_DATA] = rec->data_s,           [RANK_H2D] = rec->h2d_s,
        [RANK_FORWARD] = rec->forward_s,     [RANK_BACKWARD] = rec->backward_s,
        [RANK_OPTIMIZER] = rec->optimizer_s,
    };
    s->own[index] = 0;
    for (int p = 0; p < RANK_OWN_PARTS; p++) {
        s->part[p][index] = part[p];
        s->own[index] += part[p];
    }
}

/* Ends the oldest step and writes down what it came to. `end` is when the step before ended, and
 * becomes when this one does. */
static enum status end_step(struct session *s, struct step_queue *q, struct progress *p,
                            double *end, struct pass_result *r)
{
    struct step_record rec;
    int64_t index = s->state.batch / s->config->accumulate;
    TRY(step_end(s, q, &rec));
    r->io.files += rec.files_read;
    r->io.bytes += rec.bytes_read;
    r->io.decode_ns += (int64_t)(rec.decode_s * 1e9);
    r->images += rec.images;
    session_watch_graphs(s);
    double after = step_now();
    if (rec.total_s <= 0)
        rec.total_s = after - *end;
    *end = after;
    s->rates[index] = (double)rec.images / rec.total_s;
    keep_time(s, index, &rec);
    count_time(&s->spent, &rec);
    if (session_leads(s))
        TRY(record_step(s->record, &rec));
    if (s->expected)
        TRY(expected_step(s->expected, &rec));
    report_step(p, &rec, index);
    return STATUS_OK;
}

/* True when the run should end before optimizer step `step`, in the middle of an epoch or between
 * two. */
static bool enough(const struct session *s, int64_t step)
{
    return s->stopping || (s->config->steps && step >= s->config->steps);
}

/* A checkpoint in the middle of an epoch comes after the steps that were begun so far. */
static bool checkpoint_due(const struct session *s, const struct step_queue *q)
{
    int64_t every = s->config->checkpoint_steps;
    return every && q->step % every == 0 && q->batch < s->train_batches;
}

/* All ranks come to the same verdict. */
static enum status check_replicas(struct session *s, bool statistics)
{
    s->agreed = true;
    TRY(engine_check_replicas(s->engine, statistics));
    s->agreed = false;
    return STATUS_OK;
}

static bool replicas_due(const struct session *s, const struct step_queue *q)
{
    int64_t every = s->config->check_replicas;
    return every && q->step % every == 0;
}

/* Ends steps until no more than `left` are under way. */
static enum status end_steps(struct session *s, struct step_queue *q, int left, struct progress *p,
                             double *end, struct pass_result *r)
{
    while (q->n > left)
        TRY(end_step(s, q, p, end, r));
    return left > 0 ? STATUS_OK : batches_in_use_release(&q->in_use);
}

/* A checkpoint in the middle of an epoch. Replicas that differ end the run before one that holds
 * what a damaged device computed takes the place of the last good one. */
static enum status checkpoint(struct session *s)
{
    TRY(check_replicas(s, false));
    TRY(engine_share_buffers(s->engine));
    return session_checkpoint(s);
}

static enum status train_steps(struct session *s, struct progress *p, double begun,
                               struct pass_result *r)
{
    struct step_queue q;
    double end = begun;
    step_queue_begin(&q, s);
    while (!enough(s, q.step) && q.batch < s->train_batches) {
        enum status st = step_begin(s, &q, end);
        if (st == STATUS_INTERRUPTED && s->world.size == 1) { /* images do not come */
            s->stopping = true;
            break;
        }
        TRY(st);
        bool save = checkpoint_due(s, &q), check = save || replicas_due(s, &q);
        TRY(end_steps(s, &q, check ? 0 : engine_lag(s->engine), p, &end, r));
        if (!check)
            continue;
        TRY(save ? checkpoint(s) : check_replicas(s, false));
        end = step_now(); /* the time of these is not a step's */
        q.steady = false;
    }
    return end_steps(s, &q, 0, p, &end, r);
}

static enum status train_epoch(struct session *s, struct pass_result *r)
{
    enum status st = STATUS_OK;
    struct progress p;
    char title[32];
    const struct train_config *c = s->config;
    double begun = step_now(), joules_before = session_joules(s);
    int64_t first = s->state.batch;
    *r = (struct pass_result){0};
    s->seen = 0;
    s->spent = (struct rank_record){.epoch = s->state.epoch, .rank = s->world.rank};
    snprintf(title, sizeof title, "Epoch: [%" PRId64 "]", s->state.epoch);
    progress_begin(&p, s->out, title, s->train_steps, s->state.batch / c->accumulate,
                   c->print_freq);
    CHECK(loader_start(s->train_loader, s->state.epoch, s->state.batch));
    CHECK(train_steps(s, &p, begun, r));
    CHECK(typical_time(s, first / c->accumulate));
    CHECK(pass_account(s, s->train_loader, "training", s->seen, first, s->state.batch));
done:
    progress_end(&p);
    r->seconds = step_now() - begun;
    r->joules = session_joules(s) - joules_before;
    s->spent.energy_j = r->joules > 0 ? r->joules : 0; /* or NaN */
    r->loss_sum = s->state.loss_sum;
    r->count = s->state.count;
    r->top1 = s->state.top1;
    r->top5 = s->state.top5;
    r->bad_images = s->state.bad_images;
    return st;
}

/* Keeps the weights of the best validation so far. */
static enum status keep_best(struct session *s, double top1)
{
    char path[4096];
    if (top1 <= s->state.best_top1 && s->state.best_top1 > 0)
        return STATUS_OK;
    s->state.best_top1 = top1;
    if (!session_leads(s))
        return STATUS_OK;
    TRY(path_format(path, sizeof path, "%s/" BEST_NAME, s->dir));
    return weights_save(path, engine_network(s->engine), s->graph, s->state.step);
}

/* Throughput of the steps of this epoch that this process ran, the first few left out as warm-up
 * when the process began with them. */
static enum status rate_stats(const struct session *s, int64_t first_batch, bool warm,
                              struct stats *out)
{
    int64_t first = first_batch / s->config->accumulate;
    const double *rates = s->rates + first;
    int64_t n = (s->state.batch + s->config->accumulate - 1) / s->config->accumulate - first;
    int64_t skip = warm ? 0 : stats_warmup(n, 5);
    *out = (struct stats){0};
    return n - skip > 0 ? stats_of(rates + skip, n - skip, out) : STATUS_OK;
}

static enum status record_pass(struct session *s, const struct pass_result *train,
                               const struct pass_result *val, double checkpoint_s,
                               const struct stats *rate)
{
    double seconds = train->seconds + val->seconds + checkpoint_s;
    bool measured = train->joules > 0 && train->images > 0; /* and not NaN */
    struct epoch_record e = {
        .epoch = s->state.epoch,
        .steps = s->state.step,
        .lr = s->lr_factor *
              train_config_lr(s->config, (s->state.epoch + 1) * s->train_steps - 1, s->train_steps),
        .train_images = train->count,
        .train_loss = step_mean(train->loss_sum, (double)train->count),
        .train_top1 = step_percent((double)train->top1, (double)train->count),
        .train_top5 = step_percent((double)train->top5, (double)train->count),
        .val_images = val->count,
        .val_loss = step_mean(val->loss_sum, (double)val->count),
        .val_top1 = step_percent((double)val->top1, (double)val->count),
        .val_top5 = step_percent((double)val->top5, (double)val->count),
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
        .energy_j = measured ? train->joules : 0,
        .joules_per_image = measured ? train->joules / (double)train->images : 0,
    };
    return record_epoch(s->record, &e);
}

/* What each of several ranks spent on the epoch; *joules becomes what all of them used, NaN where
 * one does not know. */
static enum status record_ranks(struct session *s, double *joules)
{
    int n = s->world.size;
    double sum = 0;
    if (n == 1)
        return STATUS_OK;
    struct rank_record *all = calloc((size_t)n, sizeof *all);
    if (!all)
        return status_fail(STATUS_OOM, "no memory for %d ranks", n);
    struct comm_op gather = {.kind = COMM_ALLGATHER,
                             .type = DTYPE_U8,
                             .send = &s->spent,
                             .recv = all,
                             .count = sizeof s->spent};
    enum status st = comm_run(s->world.comm, &gather);
    for (int i = 0; i < n && st == STATUS_OK && session_leads(s); i++) {
        sum += all[i].energy_j > 0 ? all[i].energy_j : NAN;
        st = record_rank(s->record, &all[i]);
    }
    *joules = sum;
    free(all);
    return st;
}

/* Validation, the best weights, the checkpoint of the next epoch's beginning, and the record, which
 * holds the totals of the epoch. The record stands before the checkpoint takes its place, so that
 * no epoch is lost, and after its bytes are written, so that their time counts. */
static enum status finish_epoch(struct session *s, struct pass_result *train,
                                const struct stats *rate)
{
    enum status st;
    struct pass_result val;
    struct atomic_file checkpoint;
    TRY(pass_validate(s, &val));
    TRY(check_replicas(s, true));
    double begun = step_now();
    TRY(keep_best(s, step_percent((double)val.top1, (double)val.count)));
    const struct train_state next = {.epoch = s->state.epoch + 1,
                                     .step = s->state.step,
                                     .best_top1 = s->state.best_top1,
                                     .scaler = s->state.scaler};
    TRY(session_checkpoint_prepare(s, &next, &checkpoint));
    double checkpoint_s = step_now() - begun;
    CHECK(record_ranks(s, &train->joules));
    if (session_leads(s))
        CHECK(record_pass(s, train, &val, checkpoint_s, rate));
    s->state = next;
    return session_checkpoint_commit(s, &checkpoint);
done:
    atomic_file_abandon(&checkpoint);
    return st;
}

static enum status interrupted(struct session *s)
{
    const char *signal = stop_requested();
    TRY(checkpoint(s));
    s->agreed = true;
    return status_fail(
        STATUS_INTERRUPTED,
        "stopped by %s at epoch %" PRId64 ", step %" PRId64 "; go on with --resume auto --out %s",
        signal ? signal : "a signal to another rank", s->state.epoch, s->state.step, s->dir);
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
        if (s->state.batch < s->train_batches) { /* stopped in the middle */
            if (s->stopping)
                return interrupted(s);
            TRY(record_ranks(s, &result.joules));
            return checkpoint(s);
        }
        TRY(rate_stats(s, first, warm, &rate));
        enum status st = finish_epoch(s, &result, &rate);
        if (st == STATUS_INTERRUPTED)
            return interrupted(s);
        TRY(st);
        warm = true;
        if (enough(s, s->state.step))
            return s->stopping ? interrupted(s) : STATUS_OK;
    }
    return STATUS_OK;
}

/* The summary rests on the records, so that it counts what earlier attempts did too. */
static enum status finish_run(struct session *s)
{
    enum status st;
    uint64_t bits;
    char state[20];
    struct run *run = NULL;
    const char *why = s->state.epoch >= s->config->epochs ? "epochs"
                      : reached_accuracy(s)               ? "desired accuracy"
                                                          : "steps";
    TRY(telemetry_stop(s->telemetry));
    if (!session_leads(s))
        return rank_sensors_gather(&s->world, &s->devices, &s->samples, NULL);
    TRY(engine_state_bits(s->engine, &bits));
    snprintf(state, sizeof state, "%016" PRIx64, bits);
    json_t *summary = json_pack("{s:I, s:I, s:f, s:s, s:s}", "epochs", (json_int_t)s->state.epoch,
                                "steps", (json_int_t)s->state.step, "best_top1", s->state.best_top1,
                                "ended_by", why, "state_bits", state);
    if (!summary)
        return status_fail(STATUS_OOM, "no memory for the summary");
    if (s->ladder.applies)
        json_object_set_new(summary, "ladder", ladder_json(&s->ladder));
    CHECK(record_sync(s->record));
    CHECK(run_load(s->dir, &run));
    CHECK(summary_add(run, summary));
    CHECK(rank_sensors_gather(&s->world, &s->devices, &s->samples, summary));
    CHECK(record_finish(s->record, summary));
    run_summary_end(s, summary);
    CHECK(run_summary_straggler(s, run));
    if (s->expected) {
        CHECK(expected_end(s->expected, s->state.step, state));
        fprintf(s->out, "all losses and the final state have the bits of '%s'\n",
                s->config->expect);
    }
done:
    run_free(run);
    json_decref(summary);
    return st;
}

enum status trainer_run(const struct train_config *config, int argc, char *const *argv, FILE *out)
{
    struct session s;
    stop_install();
    TRY(session_open(&s, config, argc, argv, out));
    enum status st;
    run_summary_begin(&s);
    if (config->evaluate) {
        struct pass_result val;
        CHECK(pass_validate(&s, &val));
    } else {
        CHECK(train(&s));
        CHECK(finish_run(&s));
    }
done:
    if (st == STATUS_DIVERGED)
        st = divergence_explain(&s);
    if (st != STATUS_OK)
        st = session_fail(&s, st);
    return session_close(&s, st);
}
