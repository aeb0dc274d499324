/* Runs the training loop. */
#include "runners/trainer.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/stats.h"
#include "base/stop.h"
#include "runners/pass.h"
#include "runners/progress.h"
#include "runners/step.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

static void report_step(const struct session *s, struct progress *p, const struct step_record *r,
                        int64_t index)
{
    if (r->skipped && s->scaled)
        progress_overflow(p, s->state.scaler.scale, s->config->scaler.dynamic);
    p->loss_scale = r->loss_scale;
    p->skipped += r->skipped;
    const struct progress_values values = {.time_s = r->total_s,
                                           .data_s = r->data_s,
                                           .loss = r->loss,
                                           .top1 = r->top1,
                                           .top5 = r->top5,
                                           .images = r->images,
                                           .weight = r->skipped ? 0 : r->images,
                                           .skipped = r->skipped > 0};
    progress_batch(p, index, &values);
}

/* The times of a step. For each time, `step` is the offset of the time in struct step_record, and
 * `sum` the offset of its sum in struct rank_record. If the time contains no communication,
 * `median` is the offset of its median in struct rank_record. */
static const struct {
    size_t step, sum, median;
} times[] = {
#define TIME(name) offsetof(struct step_record, name##_s), offsetof(struct rank_record, name##_s)
#define OWN(name)                                                                                  \
    {                                                                                              \
        TIME(name), offsetof(struct rank_record, name##_median_s)                                  \
    }
    [RANK_DATA] = OWN(data),
    [RANK_H2D] = OWN(h2d),
    [RANK_FORWARD] = OWN(forward),
    [RANK_BACKWARD] = OWN(backward),
    [RANK_OPTIMIZER] = OWN(optimizer),
    {TIME(comm)},
    {TIME(comm_busy)},
    {TIME(total)}};
#undef OWN
#undef TIME

static double *member(void *record, size_t offset)
{
    return (double *)((char *)record + offset);
}

/* Adds a step to this rank's times, and stores the times of its parts without communication. */
static void count_times(struct session *s, int64_t index, struct step_record *rec)
{
    s->spent.steps++;
    s->own[index] = 0;
    for (int k = 0; k < (int)(sizeof times / sizeof *times); k++) {
        double seconds = *member(rec, times[k].step);
        *member(&s->spent, times[k].sum) += seconds;
        if (k >= RANK_OWN_PARTS)
            continue;
        s->part[k][index] = seconds;
        s->own[index] += seconds;
    }
}

/* Sets this rank's median times: of a step without communication, and of each part of a step.
 * Counts the epoch's steps from `first` on, which this process ran. */
static enum status typical_time(struct session *s, int64_t first)
{
    struct rank_record *spent = &s->spent;
    struct stats t;
    if (spent->steps == 0)
        return STATUS_OK;
    TRY(stats_of(s->own + first, spent->steps, &t));
    spent->own_median_s = t.median;
    spent->own_mad_s = t.mad;
    for (int p = 0; p < RANK_OWN_PARTS; p++) {
        TRY(stats_of(s->part[p] + first, spent->steps, &t));
        *member(spent, times[p].median) = t.median;
    }
    return STATUS_OK;
}

/* Ends the oldest step and records it. Replaces *end, the time at which the previous step ended, by
 * the time at which this step ended. */
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
    double after = clock_s();
    if (rec.total_s <= 0)
        rec.total_s = after - *end;
    /* data_s: at most the time in which the device was idle; an asynchronous device computes while
     * the host waits for images, also for those of the step's later micro-batches. */
    double parts = rec.h2d_s + rec.forward_s + rec.backward_s + rec.comm_s + rec.optimizer_s;
    rec.data_s = fmin(rec.data_s, fmax(rec.total_s - parts, 0));
    *end = after;
    s->rates[index] = (double)rec.images / rec.total_s;
    count_times(s, index, &rec);
    if (session_leads(s)) {
        TRY(record_step(s->record, &rec));
        TRY(session_saved_records(s, false));
    }
    if (s->expected)
        TRY(expected_step(s->expected, &rec));
    report_step(s, p, &rec, index);
    return STATUS_OK;
}

/* Returns whether the run should stop before optimizer step `step`, within an epoch or between two
 * epochs. */
static bool is_enough(const struct session *s, int64_t step)
{
    return s->stopping || (s->config->steps && step >= s->config->steps);
}

static bool reached_accuracy(const struct session *s)
{
    return s->config->desired_acc > 0 && s->state.best_top1 >= s->config->desired_acc;
}

/* Returns whether an action with an interval of `every` epochs (0: every epoch) is due at the end
 * of this epoch. After the last epoch, every action is due. */
static bool is_due(const struct session *s, int every)
{
    const struct train_config *c = s->config;
    int64_t ended = s->state.epoch + 1;
    bool last =
        ended >= c->epochs || (c->steps && s->state.step >= c->steps) || reached_accuracy(s);
    return every <= 1 || last || ended % every == 0;
}

/* Compares the replicas; all ranks reach the same verdict, unless one of them cannot compare. */
static enum status check_replicas(struct session *s, bool statistics)
{
    enum status st = engine_check_replicas(s->engine, statistics);
    s->agreed = st == STATUS_MISMATCH;
    return st;
}

/* Checks that a complete epoch had a valid image. All ranks have the same sums. */
static enum status check_valid(struct session *s, const struct pass_result *r)
{
    bool valid = s->state.count > 0 || r->images > 0 || s->state.bad_images == 0;
    s->agreed = !valid && s->state.batch == s->train_batches;
    return s->agreed
               ? status_fail(STATUS_DATA,
                             "epoch %" PRId64 ": none of its images can be decoded; 'ampscale "
                             "data scan' lists bad files",
                             s->state.epoch)
               : STATUS_OK;
}

/* Ends steps until at most `left` are in flight. */
static enum status end_steps(struct session *s, struct step_queue *q, int left, struct progress *p,
                             double *end, struct pass_result *r)
{
    while (q->n > left)
        TRY(end_step(s, q, p, end, r));
    return left > 0 ? STATUS_OK : batches_in_use_release(&q->in_use);
}

/* Returns whether the run continues without writing a file of weights, because the weights are not
 * finite (--on-nan continue). Such a file would replace a good one. */
static bool goes_without_file(const struct session *s, enum status st)
{
    return st == STATUS_DIVERGED && s->config->on_nan == ON_NAN_CONTINUE;
}

/* Turns the failure to write a checkpoint into a warning if goes_without_file is true. */
static enum status checkpoint_written(const struct session *s, enum status st)
{
    if (!goes_without_file(s, st))
        return st;
    fprintf(stderr, "ampscale: warning: no checkpoint is written after step %" PRId64 ": %s\n",
            s->state.step, status_message());
    return STATUS_OK;
}

/* Writes a checkpoint within an epoch. The replicas are compared first: if they differ, the run
 * ends, so that a faulty device's values do not replace the last good checkpoint. */
static enum status save_checkpoint(struct session *s)
{
    TRY(check_replicas(s, false));
    if (s->config->no_checkpoint)
        return STATUS_OK;
    TRY(engine_share_buffers(s->engine));
    return checkpoint_written(s, session_checkpoint(s));
}

static enum status train_steps(struct session *s, struct progress *p, double begun,
                               struct pass_result *r)
{
    struct step_queue q;
    double end = begun;
    int64_t saves = s->config->checkpoint_steps, checks = s->config->check_replicas;
    step_queue_begin(&q, s);
    while (!is_enough(s, q.step) && q.batch < s->train_batches) {
        enum status st = step_begin(s, &q, end);
        if (st == STATUS_INTERRUPTED && s->world.size == 1) { /* no images within stop_wait_s */
            s->stopping = true;
            break;
        }
        TRY(st);
        bool save = saves && q.step % saves == 0 && q.batch < s->train_batches;
        bool check = save || (checks && q.step % checks == 0);
        TRY(end_steps(s, &q, check ? 0 : engine_lag(s->engine), p, &end, r));
        if (!check)
            continue;
        TRY(save ? save_checkpoint(s) : check_replicas(s, false));
        end = clock_s(); /* the time of checks and checkpoints belongs to no step */
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
    double begun = clock_s(), joules_before = session_joules(s);
    struct storage_bytes fetched_before = storage_read(&s->storage);
    int64_t first = s->state.batch;
    *r = (struct pass_result){0};
    s->seen = 0;
    s->not_finite = false;
    s->spent = (struct rank_record){.epoch = s->state.epoch, .rank = s->world.rank};
    snprintf(title, sizeof title, "Epoch: [%" PRId64 "]", s->state.epoch);
    progress_begin(&p, s->out, title, s->train_steps, s->state.batch / c->accumulate,
                   c->quiet ? 0 : c->print_freq);
    CHECK(loader_start(s->train_loader, s->state.epoch, s->state.batch));
    CHECK(train_steps(s, &p, begun, r));
    CHECK(typical_time(s, first / c->accumulate));
    CHECK(pass_account(s, s->train_loader, "training", s->seen, first, s->state.batch));
    CHECK(check_valid(s, r));
done:
    progress_end(&p);
    r->seconds = clock_s() - begun;
    r->joules = session_joules(s) - joules_before;
    r->storage = storage_since(&s->storage, fetched_before);
    s->spent.storage_bytes = r->storage.process;
    s->spent.energy_j = r->joules > 0 ? r->joules : 0; /* false for NaN too */
    r->loss_sum = s->state.loss_sum;
    r->count = s->state.count;
    r->top1 = s->state.top1;
    r->top5 = s->state.top5;
    r->bad_images = s->state.bad_images;
    return st;
}

/* Saves the weights if this validation is the best so far. */
static enum status keep_best(struct session *s, double top1)
{
    char path[4096];
    if (top1 <= s->state.best_top1 && s->state.best_top1 > 0)
        return STATUS_OK;
    s->state.best_top1 = top1;
    if (!session_leads(s) || s->config->no_checkpoint)
        return STATUS_OK;
    TRY(path_format(path, sizeof path, "%s/" BEST_NAME, s->dir));
    enum status st = weights_save(path, engine_network(s->engine), s->graph, s->state.step);
    return goes_without_file(s, st) ? STATUS_OK : st;
}

/* Validates if validation is due. Otherwise only gives all devices the same running statistics,
 * because a checkpoint contains them. */
static enum status judge_epoch(struct session *s, struct pass_result *val)
{
    *val = (struct pass_result){0};
    if (s->config->training_only || !is_due(s, s->config->val_every))
        return engine_share_buffers(s->engine);
    return pass_validate(s, val);
}

/* Validates, saves the best weights, writes the checkpoint for the next epoch's start, and records
 * the epoch. The checkpoint's temporary file is written first, because the record includes the time
 * to write it. The record is written before that file replaces the old checkpoint: otherwise a
 * failure between these two actions could lose the epoch's record. */
static enum status finish_epoch(struct session *s, struct pass_result *train,
                                const struct stats *rate)
{
    enum status st;
    struct pass_result val;
    struct atomic_file checkpoint = {0};
    TRY(judge_epoch(s, &val));
    TRY(check_replicas(s, true));
    double begun = clock_s();
    if (val.count > 0)
        TRY(keep_best(s, step_percent((double)val.top1, (double)val.count)));
    bool save = !s->config->no_checkpoint && is_due(s, s->config->checkpoint_every);
    const struct train_state next = {.epoch = s->state.epoch + 1,
                                     .step = s->state.step,
                                     .best_top1 = s->state.best_top1,
                                     .scaler = s->state.scaler};
    if (save) {
        st = session_checkpoint_prepare(s, &next, &checkpoint);
        save = st == STATUS_OK;
        TRY(checkpoint_written(s, st));
    }
    double checkpoint_s = clock_s() - begun;
    CHECK(epoch_ranks(s, train));
    if (session_leads(s))
        CHECK(epoch_put(s, train, &val, checkpoint_s, rate));
    s->state = next;
    if (!save)
        return STATUS_OK;
    TRY(session_checkpoint_commit(s, &checkpoint));
    return session_keep_checkpoint(s, next.epoch);
done:
    atomic_file_abandon(&checkpoint);
    return st;
}

static enum status interrupted(struct session *s)
{
    const char *signal = stop_requested();
    TRY(save_checkpoint(s));
    s->agreed = true;
    const char *way_out = s->config->no_checkpoint ? "no checkpoint to resume from was written in"
                                                   : "continue with --resume auto --out";
    return status_fail(STATUS_INTERRUPTED,
                       "stopped by %s at epoch %" PRId64 ", step %" PRId64 "; %s %s",
                       signal ? signal : "a signal to another rank", s->state.epoch, s->state.step,
                       way_out, s->dir);
}

static enum status train(struct session *s)
{
    bool warm = false;
    while (s->state.epoch < s->config->epochs && !reached_accuracy(s)) {
        struct pass_result result;
        struct stats rate;
        int64_t first = s->state.batch;
        TRY(train_epoch(s, &result));
        if (s->state.batch < s->train_batches) { /* stopped within the epoch */
            if (s->stopping)
                return interrupted(s);
            TRY(epoch_ranks(s, &result));
            return save_checkpoint(s);
        }
        TRY(epoch_rates(s, first, warm, &rate));
        enum status st = finish_epoch(s, &result, &rate);
        if (st == STATUS_INTERRUPTED && s->stopping)
            return interrupted(s);
        TRY(st);
        warm = true;
        if (is_enough(s, s->state.step))
            return s->stopping ? interrupted(s) : STATUS_OK;
    }
    return STATUS_OK;
}

/* Validates once, without training. */
static enum status evaluate(struct session *s)
{
    struct pass_result val;
    TRY(pass_validate(s, &val));
    s->state.best_top1 = step_percent((double)val.top1, (double)val.count);
    return session_leads(s) ? epoch_evaluated(s, &val) : STATUS_OK;
}

static bool has_checkpoint(const struct session *s)
{
    char path[4096];
    return path_format(path, sizeof path, "%s/" CHECKPOINT_NAME, s->dir) == STATUS_OK &&
           path_exists(path);
}

/* Adds to this thread's message of STATUS_DIVERGED the precision, and the flags that the user can
 * change. The message remains one line. A checkpoint, if there is one, has finite values only. */
static enum status explain_divergence(const struct session *s)
{
    char found[STATUS_MESSAGE_MAX];
    const char *precision = s->config->precision;
    const char *other = s->policy.activation != DTYPE_F16 ? ""
                        : s->scaled                       ? ", or use --precision bf16 or fp32"
                                                          : ", or use --precision amp";
    snprintf(found, sizeof found, "%s", status_message());
    if (s->config->evaluate)
        return status_fail(STATUS_DIVERGED,
                           "at precision %s these weights give no valid result: %s", precision,
                           found);
    return status_fail(
        STATUS_DIVERGED,
        "training diverged at precision %s: %s; lower --lr, lengthen "
        "--warmup-epochs%s%s",
        precision, found, other,
        has_checkpoint(s) ? " (the last checkpoint was written before the divergence)" : "");
}

enum status trainer_run(const struct train_config *config, int argc, char *const *argv, FILE *out)
{
    struct session s;
    stop_install();
    TRY(session_open(&s, config, argc, argv, out));
    enum status st;
    run_summary_begin(&s);
    if (config->evaluate) {
        CHECK(evaluate(&s));
    } else {
        st = train(&s);
        if (st == STATUS_IO && s.record && has_checkpoint(&s))
            st = status_fail(st, "%s; then resume with --resume auto", status_message());
        CHECK(st);
    }
    CHECK(run_summary_finish(&s));
    if (fflush(out) != 0 || ferror(out)) {
        clearerr(out); /* this message reports it */
        CHECK(status_fail(STATUS_IO, "cannot write the results to standard output"));
    }
done:
    if (st == STATUS_DIVERGED)
        st = explain_divergence(&s);
    if (st != STATUS_OK)
        st = session_fail(&s, st);
    return session_close(&s, st);
}
