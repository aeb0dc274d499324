/* Runs the validation pass, checks that a pass has seen exactly the expected images, and makes the
 * record of an epoch. */
#include "runners/pass.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/stop.h"
#include "runners/progress.h"
#include "runners/step.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum status pass_account(const struct session *s, const struct loader *l, const char *pass,
                         uint64_t seen, int64_t first, int64_t end)
{
    return seen == loader_expected(l, first, end)
               ? STATUS_OK
               : status_fail(STATUS_MISMATCH,
                             "%s of epoch %" PRId64 ", rank %d: an image was lost or read twice, "
                             "so the record of this epoch is wrong",
                             pass, s->state.epoch, s->world.rank);
}

/* A validation batch whose result has not been read. */
struct pending_batch {
    int count;
    int64_t index;
    double data_s; /* seconds that the host waited for the batch */
};

static void report_validation(struct progress *p, const struct pending_batch *b,
                              const struct loss_metrics *m, double total_s)
{
    double count = (double)m->count;
    const struct progress_values values = {.time_s = total_s,
                                           .data_s = b->data_s,
                                           .loss = step_mean(m->loss_sum, count),
                                           .top1 = step_percent((double)m->top1, count),
                                           .top5 = step_percent((double)m->top5, count),
                                           .images = b->count,
                                           .weight = m->count};
    progress_batch(p, b->index, &values);
}

/* Validation batches in flight, the oldest first. */
struct validation {
    struct batches_in_use in_use;
    int n;
    struct pending_batch pending[ENGINE_LAG_MAX + 1];
    double end; /* time at which the last result was read */
};

/* Reads the results of batches until at most `left` batches are in flight. */
static enum status end_batches(struct session *s, struct validation *v, int left,
                               struct progress *p, struct step_sums *sums)
{
    while (v->n > left) {
        struct step_result result;
        TRY(engine_result(s->engine, &result));
        step_sums_add_loss(sums, &result.metrics);
        session_watch_graphs(s);
        double after = clock_s();
        report_validation(p, &v->pending[0], &result.metrics, after - v->end);
        v->end = after;
        v->n--;
        memmove(v->pending, v->pending + 1, (size_t)v->n * sizeof v->pending[0]);
    }
    return left > 0 ? STATUS_OK : batches_in_use_release(&v->in_use);
}

/* Validates this rank's share of the images, until a stop is requested. */
static enum status validate_share(struct session *s, struct progress *p, struct step_sums *sums)
{
    struct batch *b;
    int64_t n = 0;
    uint64_t seen = 0;
    struct validation v = {.in_use = {.engine = s->engine, .loader = s->val_loader}};
    v.end = clock_s();
    TRY(loader_start(s->val_loader, 0, 0));
    while (!stop_requested()) {
        double since = v.n ? clock_s() : v.end;
        enum status st = loader_next(s->val_loader, &b);
        /* A single rank just stops. With several ranks, this rank must fail, because the other
         * ranks would wait for it. */
        if (st == STATUS_INTERRUPTED && s->world.size == 1)
            break;
        TRY(st);
        if (!b)
            break;
        v.pending[v.n++] =
            (struct pending_batch){b->count - (int)b->stats.bad, b->index, clock_s() - since};
        TRY(engine_evaluate(s->engine, b));
        step_sums_add_batch(sums, b);
        seen += b->seen;
        n++;
        TRY(batches_in_use_add(&v.in_use, b));
        TRY(end_batches(s, &v, engine_lag(s->engine), p, sums));
    }
    TRY(end_batches(s, &v, 0, p, sums));
    return pass_account(s, s->val_loader, "validation", seen, 0, n);
}

/* Checks the validation loss. If it is not finite, an evaluation fails. Training only prints a
 * warning, because the weights may still be finite. checkpoint_prepare checks the weights. */
static enum status check_loss(const struct session *s, double loss)
{
    enum status st = step_check_loss(loss, "the validation loss");
    if (st != STATUS_DIVERGED || s->config->evaluate)
        return st;
    if (session_leads(s))
        fprintf(stderr, "ampscale: warning: epoch %" PRId64 ": %s\n", s->state.epoch,
                status_message());
    return STATUS_OK;
}

enum status pass_validate(struct session *s, struct pass_result *r)
{
    enum status st;
    struct progress p;
    struct step_sums sums = {{0}};
    double begun = clock_s();
    progress_begin(&p, s->out, "Test: ", loader_batches(s->val_loader), 0,
                   s->config->quiet ? 0 : s->config->print_freq);
    st = engine_share_buffers(s->engine);
    st = st == STATUS_OK ? validate_share(s, &p, &sums) : st;
    progress_end(&p);
    TRY(st);
    TRY(step_sums_share(s, &sums));
    *r = (struct pass_result){.loss_sum = sums.v[SUM_LOSS],
                              .count = (int64_t)sums.v[SUM_COUNT],
                              .top1 = (int64_t)sums.v[SUM_TOP1],
                              .top5 = (int64_t)sums.v[SUM_TOP5],
                              .images = (int64_t)sums.v[SUM_IMAGES],
                              .bad_images = (int64_t)sums.v[SUM_BAD],
                              .seconds = clock_s() - begun};
    s->agreed = true; /* the sums are the same on all ranks */
    if (s->stopping)
        return status_fail(STATUS_INTERRUPTED, "validation was interrupted");
    if (r->count == 0)
        return status_fail(STATUS_DATA, "no validation image could be decoded");
    TRY(check_loss(s, r->loss_sum));
    s->agreed = false;
    fprintf(s->out, " *   Acc@1 %.3f Acc@5 %.3f\n", step_percent((double)r->top1, (double)r->count),
            step_percent((double)r->top5, (double)r->count));
    fflush(s->out);
    return STATUS_OK;
}

/* --- the record of an epoch --- */

enum status epoch_rates(const struct session *s, int64_t first_batch, bool warm, struct stats *out)
{
    int64_t first = first_batch / s->config->accumulate;
    const double *rates = s->rates + first;
    int64_t n = (s->state.batch + s->config->accumulate - 1) / s->config->accumulate - first;
    int64_t wanted = s->config->warmup_steps ? s->config->warmup_steps : 5;
    int64_t skip = warm ? 0 : stats_warmup(n, wanted);
    *out = (struct stats){0};
    return n - skip > 0 ? stats_of(rates + skip, n - skip, out) : STATUS_OK;
}

/* Returns the record of an epoch with the columns of the training pass. */
static struct epoch_record epoch_trained(const struct session *s, const struct pass_result *train,
                                         const struct stats *rate)
{
    bool measured = train->joules > 0 && train->images > 0; /* false for NaN too */
    return (struct epoch_record){
        .epoch = s->state.epoch,
        .steps = s->state.step,
        .lr = s->lr_factor *
              train_config_lr(s->config, (s->state.epoch + 1) * s->train_steps - 1, s->train_steps),
        .train_images = train->count,
        .train_loss = s->not_finite ? NAN : step_mean(train->loss_sum, (double)train->count),
        .train_top1 = step_percent((double)train->top1, (double)train->count),
        .train_top5 = step_percent((double)train->top5, (double)train->count),
        .images_per_s_mean = s->spent.total_s > 0 ? (double)train->images / s->spent.total_s : 0,
        .images_per_s = rate->median,
        .images_per_s_p5 = rate->p5,
        .images_per_s_p95 = rate->p95,
        .train_s = train->seconds,
        .bytes_per_s = (double)train->io.bytes / train->seconds,
        .storage_bytes = train->storage.process,
        .device_bytes = train->storage.device,
        .cached_percent = storage_cached_percent(train->storage.process, (double)train->io.bytes),
        .files_per_s = (double)train->io.files / train->seconds,
        .decode_ms =
            train->io.files ? (double)train->io.decode_ns * 1e-6 / (double)train->io.files : 0,
        .loss_scale = s->scaled ? s->state.scaler.scale : 0,
        .clean = s->state.scaler.clean,
        .skipped = s->state.scaler.skipped,
        .energy_j = measured ? train->joules : 0,
        .joules_per_image = measured ? train->joules / (double)train->images : 0,
    };
}

/* Adds the columns of the validation. */
static void add_validation(const struct pass_result *val, struct epoch_record *e)
{
    e->val_images = val->count;
    e->val_loss = step_mean(val->loss_sum, (double)val->count);
    e->val_top1 = step_percent((double)val->top1, (double)val->count);
    e->val_top5 = step_percent((double)val->top5, (double)val->count);
    e->val_s = val->seconds;
    e->bad_images += val->bad_images;
}

enum status epoch_put(struct session *s, const struct pass_result *train,
                      const struct pass_result *val, double checkpoint_s, const struct stats *rate)
{
    struct epoch_record e = epoch_trained(s, train, rate);
    add_validation(val, &e);
    e.best_top1 = s->state.best_top1;
    e.checkpoint_s = checkpoint_s;
    e.images_per_s_wall = (double)train->images / (train->seconds + val->seconds + checkpoint_s);
    e.bad_images += train->bad_images;
    TRY(record_epoch(s->record, &e));
    return session_saved_records(s, true);
}

enum status epoch_evaluated(struct session *s, const struct pass_result *val)
{
    struct epoch_record e = {.epoch = s->state.epoch > 0 ? s->state.epoch - 1 : 0,
                             .steps = s->state.step,
                             .train_loss = NAN,
                             .train_top1 = NAN,
                             .train_top5 = NAN,
                             .storage_bytes = NAN,
                             .device_bytes = NAN,
                             .cached_percent = NAN};
    add_validation(val, &e);
    e.best_top1 = e.val_top1;
    return record_epoch(s->record, &e);
}

/* Gathers and records the values of each rank, if there are several ranks. */
static enum status gather_ranks(struct session *s, struct pass_result *train)
{
    int n = s->world.size;
    double joules = 0, fetched = 0;
    struct rank_record *all;
    TRY(array_new(&all, n));
    enum status st = comm_gather(s->world.comm, &s->spent, all, sizeof *all);
    for (int i = 0; i < n && st == STATUS_OK && session_leads(s); i++) {
        joules += all[i].energy_j > 0 ? all[i].energy_j : NAN;
        fetched += all[i].storage_bytes;
        st = record_rank(s->record, &all[i]);
    }
    train->joules = joules;
    train->storage.process = fetched;
    free(all);
    return st;
}

enum status epoch_ranks(struct session *s, struct pass_result *train)
{
    if (s->world.size > 1)
        TRY(gather_ranks(s, train));
    s->reads.storage.process += train->storage.process;
    s->reads.storage.device += train->storage.device;
    s->reads.loaders += (double)train->io.bytes;
    s->reads.seconds += train->seconds;
    return STATUS_OK;
}
