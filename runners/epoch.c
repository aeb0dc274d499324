/* Makes the record of an epoch. */
#include "runners/pass.h"

#include "base/array.h"
#include "runners/step.h"

#include <math.h>
#include <stdlib.h>

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
