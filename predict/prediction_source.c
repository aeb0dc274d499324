/* Takes measured points from runs, studies and published tables. */
#include "predict/prediction.h"

#include "base/array.h"
#include "base/json.h"
#include "base/stats.h"
#include "base/text.h"
#include "results/environment.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SIGMA_STEPS: least number of steps for an estimate of sigma. */
enum { SIGMA_STEPS = 20, COUNT_MAX = 1 << 20 };

/* Mean size of a training image of ImageNet 2012: 147.9 GB / 1281167 files. */
#define IMAGENET_IMAGE_BYTES 115e3

#define BUCKET_BYTES_DEFAULT (25.0 * (1 << 20))

/* Of a predicted step: the share of published results, and its spread, if none are known. */
#define STEP_SHARE        0.76
#define STEP_SHARE_SPREAD 0.15

/* Sums over the steps after warm-up. Sums are used because the medians of the parts would not add
 * up to the median of the step. */
struct totals {
    double before_s; /* time before the backward pass, without communication */
    double backward_s;
    double own_s; /* all but communication */
    double step_s;
    double images;
    double bytes; /* read from disk */
    double sigma; /* standard deviation of ln(own time); 0: too few steps */
};

/* Returns `value` if it is in range, else `otherwise`. Records of earlier versions give the value
 * 0. */
static int64_t or_else(int64_t value, int64_t otherwise)
{
    return value >= 1 && value <= COUNT_MAX ? value : otherwise;
}

/* Starts a source. Members of `config` that are 0 get the usual values. */
static enum status source_begin(struct source *out, const struct workload_config *config)
{
    struct workload_config c = *config;
    c.classes = (int)or_else(c.classes, 1000);
    c.image_size = (int)or_else(c.image_size, 224);
    c.bucket_bytes = c.bucket_bytes > 0 ? c.bucket_bytes : BUCKET_BYTES_DEFAULT;
    c.gradient_bytes = c.gradient_bytes > 0 ? c.gradient_bytes : 4;
    *out = (struct source){.ranks_per_node = 1, .image_bytes = IMAGENET_IMAGE_BYTES};
    return workload_of(&c, &out->work);
}

static void label_set(struct source *s, const char *arch, const char *precision, const char *of)
{
    char label[sizeof s->label];
    snprintf(label, sizeof label, "%.60s %.20s, %.120s", arch, precision, of);
    text_clean(s->label, sizeof s->label, label);
}

static int measured_compare(const void *a, const void *b)
{
    int64_t x = ((const struct measured *)a)->ranks, y = ((const struct measured *)b)->ranks;
    return (x > y) - (x < y);
}

static enum status points_sort(struct source *s, const char *of)
{
    if (s->n == 0)
        return status_fail(STATUS_DATA, "no point of '%s' has both throughput and batch", of);
    qsort(s->point, (size_t)s->n, sizeof *s->point, measured_compare);
    for (int i = 1; i < s->n; i++)
        if (s->point[i].ranks == s->point[i - 1].ranks)
            return status_fail(STATUS_DATA, "two points of '%s' have %" PRId64 " ranks", of,
                               s->point[i].ranks);
    return STATUS_OK;
}

/* Adds a point. `batch`: images per rank. `per_node`: ranks on a node; 0: not known. */
static void point_add(struct source *s, int64_t ranks, int64_t per_node, int64_t batch,
                      double images_per_s)
{
    s->point[s->n++] = (struct measured){
        .ranks = ranks, .batch = batch < 1 ? 1 : batch, .images_per_s = images_per_s};
    if (per_node > s->ranks_per_node)
        s->ranks_per_node = per_node;
}

static void shares_set(struct workload *w, double before_s, double backward_s, double own_s)
{
    if (!(own_s > 0 && backward_s > 0))
        return; /* w keeps the fractions that were computed from FLOPs */
    w->forward = before_s / own_s;
    w->backward = backward_s / own_s;
}

/* Estimates sigma from the median absolute deviation: single stalls hardly affect it. */
static enum status totals_of(const struct run *run, struct totals *out)
{
    enum status st = STATUS_OK;
    struct stats stats;
    int64_t n = 0;
    double *x;
    *out = (struct totals){0};
    TRY(array_new(&x, run->n_steps));
    for (int64_t i = run_warmup(run); i < run->n_steps; i++) {
        const struct step_record *s = &run->step[i];
        double before = s->data_s + s->h2d_s + s->forward_s;
        double own = before + s->backward_s + s->optimizer_s;
        if (!(own > 0 && isfinite(own) && s->total_s > 0 && s->images > 0))
            continue;
        out->before_s += before;
        out->backward_s += s->backward_s;
        out->own_s += own;
        out->step_s += s->total_s;
        out->images += (double)s->images;
        out->bytes += (double)s->bytes_read;
        x[n++] = log(own);
    }
    if (n == 0)
        st = status_fail(STATUS_DATA, "no step of '%s' has a duration", run->dir);
    else if (n >= SIGMA_STEPS && (st = stats_of(x, n, &stats)) == STATUS_OK)
        out->sigma = 1.4826 * stats.mad;
    free(x);
    return st;
}

/* Sets all but the points from the first run. */
static enum status system_of(const struct run *run, const struct totals *t, struct source *out)
{
    double bucket = json_number_value(run_config(run, "bucket_mb")); /* 0: not recorded */
    const struct workload_config config = {
        .arch = run_config_text(run, "arch", ""),
        .classes = (int)or_else(run_config_count(run, "classes", 0), 0),
        .image_size = (int)or_else(run_config_count(run, "image_size", 0), 0),
        .bucket_bytes = bucket < 1e6 ? bucket * (1 << 20) : 0,
        .gradient_bytes =
            strcmp(run_config_text(run, "grad_compress", "fp32"), "fp32") == 0 ? 4 : 2,
        .overlap = strcmp(run_config_text(run, "mode", ""), "dp") != 0,
    };
    TRY(source_begin(out, &config));
    /* Only the last batch of a step reduces while it goes backward. */
    double last = t->backward_s / (double)or_else(run_config_count(run, "accumulate", 1), 1);
    shares_set(&out->work, t->before_s + t->backward_s - last, last, t->own_s);
    out->sigma = t->sigma;
    if (t->bytes > 0)
        out->image_bytes = t->bytes / t->images;
    label_set(out, config.arch, run_config_text(run, "precision", ""), run->name);
    return STATUS_OK;
}

static enum status run_add(const struct run *run, struct source *out)
{
    /* If one of these changed in a resume, the steps are of no single point. */
    static const char *const keys[] = {"world_size", "devices_per_rank",
                                       "batch_size", "image_size",
                                       "mode",       "devices",
                                       "comm",       "precision",
                                       "bucket_mb",  "grad_compress",
                                       "threads",    "workers",
                                       "accumulate", NULL};
    const char *changed = run_changed(run, keys);
    if (changed)
        return status_fail(STATUS_DATA, "'%s' was resumed with another '%s'", run->dir, changed);
    for (size_t i = 1; i < json_array_size(run->infos); i++)
        TRY(status_context(environment_joins(run->info, json_array_get(run->infos, i), true),
                           "'%s'", run->dir));
    if (json_is_true(json_object_get(run->summary, "paused")))
        return status_fail(STATUS_DATA, "'%s' was paused, so its times are not valid", run->dir);
    struct totals t;
    int64_t hosts, per_host;
    int64_t per_rank = or_else(run_config_count(run, "devices_per_rank", 1), 1);
    int64_t world = or_else(run_config_count(run, "world_size", 1), 1);
    int64_t batches = or_else(run_config_count(run, "accumulate", 1), 1); /* of a step */
    TRY(run_hosts(run, run->attempt, &hosts, &per_host));
    TRY(totals_of(run, &t));
    if (out->n == 0)
        TRY(system_of(run, &t, out));
    if (out->n == 0 || world > 1)
        snprintf(out->mode, sizeof out->mode, "%s", run_config_text(run, "mode", ""));
    point_add(out, world * per_rank, per_host * per_rank,
              or_else(run_config_count(run, "batch_size", 1), 1) * batches / per_rank,
              t.images / t.step_s);
    return STATUS_OK;
}

enum status source_of_runs(const struct run *const *run, int n, struct source *out)
{
    *out = (struct source){.n = 0};
    if (n < 1 || n > SOURCE_POINTS_MAX)
        return status_fail(STATUS_USAGE, "%d runs were given: give 1 to %d", n, SOURCE_POINTS_MAX);
    static const char *const keys[] = {"arch",          "image_size", "classes",    "precision",
                                       "grad_compress", "bucket_mb",  "accumulate", NULL};
    for (int i = 0; i < n; i++) {
        const char *other = run_differs(run[0], run[i], keys);
        if (other)
            return status_fail(STATUS_DATA, "'%s' has another '%s' than '%s'", run[i]->dir, other,
                               run[0]->dir);
        TRY(status_context(environment_joins(run[0]->info, run[i]->info, false), "'%s'",
                           run[i]->dir));
        TRY(run_add(run[i], out));
    }
    return points_sort(out, run[0]->dir);
}

enum status source_of_published(const struct published_series *s, struct source *out)
{
    const struct workload_config config = {
        .arch = s->arch,
        .gradient_bytes = strcmp(s->gradients, "fp16") == 0 ? 2 : 4,
        .overlap = strcmp(s->overlap, "no") != 0,
    };
    TRY(source_begin(out, &config));
    snprintf(out->label, sizeof out->label, "%s (%s %s, %s)", s->name, s->arch, s->precision,
             s->hardware);
    for (int i = 0; i < s->n; i++) {
        const struct published_point *p = &s->point[i];
        if (p->batch_per_gpu > 0 && !isnan(p->images_per_s))
            point_add(out, p->gpus, s->gpus_per_node, p->batch_per_gpu, p->images_per_s);
    }
    return points_sort(out, s->name);
}

void source_series_name(const struct analysis *a, int64_t i, char name[SOURCE_LABEL_MAX])
{
    const struct analysis_series *s = &a->series[i];
    const struct analysis_cell *last = &a->cell[s->cell[s->n - 1]];
    snprintf(name, SOURCE_LABEL_MAX, "%.8s %.16s %.60s %.60s %s", last->mode, last->precision,
             last->arch, last->data, analysis_scaling_str(analysis_series_scaling(a, i)));
}

static void cell_add(const struct analysis_cell *c, struct source *out)
{
    int64_t per_host = c->ranks > 0 ? c->system.ranks_per_host * (c->devices / c->ranks) : 0;
    if (out->n == SOURCE_POINTS_MAX || !(c->images_per_s.median > 0) || c->devices < 1)
        return;
    point_add(out, c->devices, per_host, c->batch / c->devices, c->images_per_s.median);
    /* The standard deviation of ln(median), if low..high has a probability of 95 %; 0: unknown. */
    double low = c->images_per_s.low, high = c->images_per_s.high;
    out->point[out->n - 1].spread = low > 0 && high > low ? log(high / low) / (2 * 1.96) : 0;
}

enum status source_of_analysis(const struct analysis *a, int64_t i, struct source *out)
{
    const struct analysis_series *s = &a->series[i];
    const struct analysis_cell *first = &a->cell[s->cell[0]], *last = &a->cell[s->cell[s->n - 1]];
    const double *split = first->split;
    char name[SOURCE_LABEL_MAX];
    const struct workload_config config = {
        .arch = last->arch,
        .classes = (int)or_else(last->system.classes, 0),
        .image_size = (int)or_else(last->system.image_size, 0),
        .gradient_bytes = (double)or_else(last->system.gradient_bytes, 0),
        .overlap = strcmp(last->mode, "dp") != 0,
    };
    /* Only the last batch of a step reduces while it goes backward. */
    double last_backward = split[ANALYSIS_BACKWARD] / (double)or_else(first->system.accumulate, 1);
    double before = split[ANALYSIS_DATA] + split[ANALYSIS_H2D] + split[ANALYSIS_FORWARD] +
                    split[ANALYSIS_BACKWARD] - last_backward;
    TRY(source_begin(out, &config));
    snprintf(out->mode, sizeof out->mode, "%s", last->mode);
    source_series_name(a, i, name);
    snprintf(out->label, sizeof out->label, "%.40s: %.210s", a->study, name);
    shares_set(&out->work, before, last_backward,
               before + last_backward + split[ANALYSIS_OPTIMIZER]);
    for (int64_t k = 0; k < s->n; k++)
        cell_add(&a->cell[s->cell[k]], out);
    return points_sort(out, out->label);
}

enum status source_of_step(const json_t *record, struct source *out)
{
    const json_t *sums = json_object_get(record, "sums");
    double batch = json_number_at(record, "batch"), size = json_number_at(record, "image_size");
    double images_per_s = json_number_at(sums, "predicted_images_per_s");
    double share = json_number_at(sums, "published_share");
    if (!(batch >= 1 && batch <= COUNT_MAX && size >= 1 && size <= 4096 && share > 0 &&
          share <= 1 && images_per_s > 0 && images_per_s < 1e12))
        return status_fail(STATUS_DATA, "damaged record of 'bench step --predict': 'batch', "
                                        "'image_size', 'predicted_images_per_s' or "
                                        "'published_share' is missing or out of range");
    const struct workload_config config = {
        .arch = json_text_at(record, "net"), .image_size = (int)size, .overlap = true};
    TRY(source_begin(out, &config));
    label_set(out, config.arch, json_text_at(record, "precision"), json_text_at(record, "device"));
    out->predicted = true;
    point_add(out, 1, 1, (int64_t)batch, images_per_s * (share < 1 ? share : STEP_SHARE));
    out->point[0].spread = STEP_SHARE_SPREAD;
    return STATUS_OK;
}
