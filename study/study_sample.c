/* Makes a sample from the record of a run. */
#include "study/study_sample.h"

#include "base/array.h"
#include "base/json.h"
#include "base/stats.h"
#include "base/text.h"
#include "results/ranks.h"

#include <math.h>
#include <string.h>

static enum status sum_steps(const struct run *run, int64_t warmup, struct study_sample *s)
{
    double images = 0, total = 0, named = 0, busy = 0;
    int64_t first = stats_warmup(run->n_steps, warmup);
    double n = (double)(run->n_steps - first);
    memset(s->split, 0, sizeof s->split);
    for (int64_t i = first; i < run->n_steps; i++) {
        const struct step_record *r = &run->step[i];
        images += (double)r->images;
        total += r->total_s;
        busy += r->comm_busy_s;
        s->split[ANALYSIS_DATA] += r->data_s / n;
        s->split[ANALYSIS_H2D] += r->h2d_s / n;
        s->split[ANALYSIS_FORWARD] += r->forward_s / n;
        s->split[ANALYSIS_BACKWARD] += r->backward_s / n;
        s->split[ANALYSIS_COMM] += r->comm_s / n;
        s->split[ANALYSIS_OPTIMIZER] += r->optimizer_s / n;
    }
    for (int p = 0; p < ANALYSIS_OTHER; p++)
        named += s->split[p];
    s->split[ANALYSIS_OTHER] = fmax(0, total / n - named);
    s->comm_busy_s = busy / n;
    s->images_per_s = images / total;
    if (n > 0 && total > 0 && isfinite(s->images_per_s + named + total + busy))
        return STATUS_OK;
    return status_fail(STATUS_DATA, "'%s' has no step that can be measured", run->dir);
}

static void take_validation(const struct run *run, struct study_sample *s)
{
    for (int64_t i = run->n_epochs - 1; i >= 0; i--) {
        if (run->epoch[i].val_images == 0)
            continue;
        s->top1 = run->epoch[i].val_top1;
        s->top5 = run->epoch[i].val_top5;
        return;
    }
}

static enum status take_ranks(const struct run *run, struct study_sample *s)
{
    struct ranks r;
    TRY(ranks_of(run, &r));
    if (r.n > 1) {
        s->slowest_rank = r.slowest;
        s->behind = r.behind;
        s->noise = r.noise;
        s->waiting_s = r.rank[r.slowest].own_s;
        for (int64_t i = 0; i < r.n; i++)
            s->waiting_s -= r.rank[i].own_s / (double)r.n;
        s->waiting_s = fmin(s->waiting_s, s->split[ANALYSIS_COMM]);
        text_clean(s->part, sizeof s->part, rank_part_str(r.part));
        text_clean(s->host, sizeof s->host, r.rank[r.slowest].host);
    }
    ranks_free(&r);
    return STATUS_OK;
}

/* A setting that is a positive number; 0 if it is missing or out of range. */
static int64_t setting(const struct run *run, const char *key)
{
    int64_t value = run_config_count(run, key, 0);
    return value > 0 && value <= INT32_MAX ? value : 0;
}

/* Reads the input statistics of a run from its summary. */
static void take_io(const struct run *run, struct analysis_io *io)
{
    const json_t *from = json_object_get(run->summary, "io");
    io->bytes_per_s = json_number_at(from, "bytes_per_s");
    io->files_per_s = json_number_at(from, "files_per_s");
    io->storage_bytes_per_s = json_number_at(from, "storage_bytes_per_s");
    io->device_bytes_per_s = json_number_at(from, "device_bytes_per_s");
    io->cached_percent = json_number_at(from, "cached_percent");
}

static enum status take_system(const struct run *run, struct analysis_system *s)
{
    TRY(run_hosts(run, run->attempt, &s->hosts, &s->ranks_per_host));
    s->image_size = setting(run, "image_size");
    s->classes = setting(run, "classes");
    s->accumulate = setting(run, "accumulate") > 1 ? setting(run, "accumulate") : 0;
    s->gradient_bytes = strcmp(run_config_text(run, "grad_compress", "fp32"), "fp32") == 0 ? 4 : 2;
    return STATUS_OK;
}

static void take_threads(const struct run *run, struct study_sample *s)
{
    const json_t *cpu = json_object_get(json_object_get(run->info, "host"), "cpu");
    int64_t together = run_host_cores(run, run->attempt); /* cores of all ranks on rank 0's host */
    double usable = together ? (double)together : json_number_value(json_object_get(cpu, "usable"));
    const json_t *quota = json_object_get(cpu, "quota");
    int64_t threads = run_config_count(run, "threads", 0);
    int64_t devices = run_config_count(run, "devices_per_rank", 1);
    bool on_cpu = strncmp(run_config_text(run, "devices", ""), "cpu", 3) == 0;
    if (usable > 0)
        s->cores = json_is_number(quota) ? fmin(usable, json_number_value(quota)) : usable;
    s->shared = on_cpu && s->system.hosts == 1;
    if (on_cpu && threads > 0 && devices > 0)
        s->threads = (double)threads * (double)devices * (double)s->system.ranks_per_host;
}

/* Of more than ANALYSIS_MAX_EPOCHS epochs, takes every second, third ... and the last one. */
static enum status take_curves(const struct run *run, struct study_sample *s)
{
    int64_t stride = (run->n_epochs + ANALYSIS_MAX_EPOCHS - 1) / ANALYSIS_MAX_EPOCHS;
    if (run->n_epochs == 0)
        return STATUS_OK;
    TRY(array_new(&s->epoch, (run->n_epochs + stride - 1) / stride));
    /* begins so that the last epoch is taken */
    for (int64_t i = (run->n_epochs - 1) % stride; i < run->n_epochs; i += stride) {
        const struct epoch_record *from = &run->epoch[i];
        struct analysis_epoch *to = &s->epoch[s->n_epochs++];
        to->epoch = from->epoch + 1;
        to->accuracy[ANALYSIS_TOP1_TRAIN].median = from->train_top1;
        to->accuracy[ANALYSIS_TOP5_TRAIN].median = from->train_top5;
        to->accuracy[ANALYSIS_TOP1_VAL].median = from->val_images > 0 ? from->val_top1 : NAN;
        to->accuracy[ANALYSIS_TOP5_VAL].median = from->val_images > 0 ? from->val_top5 : NAN;
    }
    return STATUS_OK;
}

enum status study_sample_of(const struct run *run, int64_t warmup, struct study_sample *s)
{
    *s = (struct study_sample){.top1 = NAN,
                               .top5 = NAN,
                               .slowest_rank = -1,
                               .behind = NAN,
                               .threads = NAN,
                               .cores = NAN,
                               .seconds = run->elapsed};
    const json_t *wall = json_object_get(run->summary, "images_per_s_wall");
    s->wall = json_is_number(wall) ? json_number_value(wall) : NAN;
    TRY(sum_steps(run, warmup, s));
    take_validation(run, s);
    TRY(take_ranks(run, s));
    TRY(take_system(run, &s->system));
    take_threads(run, s);
    take_io(run, &s->io);
    s->conditions = conditions_of(run);
    if (json_is_true(json_object_get(run->summary, "paused"))) /* its times are not valid */
        s->conditions.disturbed = s->conditions.recorded = 1;
    s->emulated = json_is_true(run_config(run, "emulated"));
    s->injected = json_object_get(json_object_get(run->info, "config"), "inject") != NULL;
    return take_curves(run, s);
}
