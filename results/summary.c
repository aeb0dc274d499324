/* Computes the summary of a run. */
#include "results/summary.h"

#include "base/array.h"
#include "base/json.h"
#include "base/stats.h"
#include "base/text.h"
#include "results/ranks.h"
#include "results/sensors.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* The steps after warm-up, with a buffer for one number per step. */
struct sample {
    const struct step_record *step;
    int64_t n;
    double *x;
};

static enum status images_per_s(const struct sample *s, json_t *into)
{
    struct stats t;
    for (int64_t i = 0; i < s->n; i++)
        s->x[i] = s->step[i].total_s > 0 ? (double)s->step[i].images / s->step[i].total_s : 0;
    TRY(stats_of(s->x, s->n, &t));
    json_put(into, "images_per_s",
             json_new("{s:f, s:f, s:f, s:f, s:f, s:I}", "median", t.median, "p5", t.p5, "p95",
                      t.p95, "max", t.max, "mad", t.mad, "steps", (json_int_t)s->n));
    return STATUS_OK;
}

static enum status comm_hidden(const struct sample *s, json_t *into)
{
    struct stats t;
    int64_t n = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const struct step_record *r = &s->step[i];
        if (r->comm_busy_s > 0)
            s->x[n++] = fmax(0, 1 - r->comm_s / r->comm_busy_s);
    }
    if (n == 0)
        return STATUS_OK;
    TRY(stats_of(s->x, n, &t));
    json_put(into, "comm_hidden", json_finite(t.median));
    return STATUS_OK;
}

static enum status step_parts(const struct sample *s, json_t *into)
{
    static const struct {
        const char *name;
        size_t offset;
    } part[] = {
        {"data", offsetof(struct step_record, data_s)},
        {"h2d", offsetof(struct step_record, h2d_s)},
        {"forward", offsetof(struct step_record, forward_s)},
        {"backward", offsetof(struct step_record, backward_s)},
        {"comm", offsetof(struct step_record, comm_s)},
        {"comm_busy", offsetof(struct step_record, comm_busy_s)},
        {"optimizer", offsetof(struct step_record, optimizer_s)},
        {"total", offsetof(struct step_record, total_s)},
    };
    json_put(into, "step_s", json_object());
    json_t *parts = json_object_get(into, "step_s");
    for (size_t k = 0; k < sizeof part / sizeof *part; k++) {
        struct stats t;
        for (int64_t i = 0; i < s->n; i++)
            s->x[i] = *(const double *)((const char *)&s->step[i] + part[k].offset);
        TRY(stats_of(s->x, s->n, &t));
        json_put(parts, part[k].name, json_finite(t.median));
    }
    return comm_hidden(s, parts);
}

static enum status slowest_rank(const struct run *run, json_t *into)
{
    struct ranks r;
    TRY(ranks_of(run, &r));
    if (r.n > 0) {
        const struct rank_step *slowest = &r.rank[r.slowest];
        json_put(into, "ranks",
                 json_new("{s:I, s:I, s:o, s:f, s:f, s:b, s:f, s:f, s:s, s:f, s:f}", "count",
                          (json_int_t)r.n, "slowest", (json_int_t)r.slowest, "host",
                          text_json(slowest->host), "behind", r.behind, "noise", r.noise, "slow",
                          r.slow, "own_s", slowest->own_s, "median_own_s", r.median_own_s, "part",
                          rank_part_str(r.part), "part_s", r.part_s, "images_per_s",
                          slowest->images_per_s));
    }
    ranks_free(&r);
    return STATUS_OK;
}

/* Adds the rate total / seconds. Adds nothing if the rate is not known. */
static void put_rate(json_t *into, const char *key, double total, double seconds)
{
    if (isfinite(total / seconds))
        json_put(into, key, json_finite(total / seconds));
}

/* Adds the rates at which storage was read, over the epochs in which all three rates are known. */
static void storage(const struct run *run, json_t *io)
{
    double fetched = 0, device = 0, read = 0, cached = 0, seconds = 0;
    for (int64_t i = 0; i < run->n_epochs; i++) {
        const struct epoch_record *e = &run->epoch[i];
        if (!isfinite(e->storage_bytes + e->device_bytes + e->cached_percent))
            continue;
        fetched += e->storage_bytes;
        device += e->device_bytes;
        seconds += e->train_s;
        read += e->bytes_per_s * e->train_s;
        cached += e->cached_percent * e->bytes_per_s * e->train_s;
    }
    put_rate(io, "storage_bytes_per_s", fetched, seconds);
    put_rate(io, "device_bytes_per_s", device, seconds);
    put_rate(io, "cached_percent", cached, read);
}

/* With --desired-acc, adds the accuracy, and the epoch and the time at which it was reached. */
static void time_to_accuracy(const struct run *run, json_t *into)
{
    double target = json_number_value(run_config(run, "desired_acc"));
    const struct epoch_record *e = run_reached(run);
    if (!(target > 0))
        return;
    json_put(into, "time_to_accuracy",
             json_new("{s:f, s:o, s:o}", "top1", target, "epoch",
                      e ? json_integer(e->epoch) : json_null(), "seconds",
                      e ? json_finite(e->elapsed) : json_null()));
}

static void rates(const struct run *run, json_t *into)
{
    double seconds = 0, images = 0, bytes = 0, files = 0, decode = 0;
    for (int64_t i = 0; i < run->n_steps; i++) {
        images += (double)run->step[i].images;
        seconds += run->step[i].total_s;
        bytes += (double)run->step[i].bytes_read;
        files += (double)run->step[i].files_read;
        decode += run->step[i].decode_s;
    }
    if (run->elapsed > 0 && run->n_steps > 0)
        json_put(into, "images_per_s_wall", json_finite(images / run->elapsed));
    if (!(files > 0 && seconds > 0))
        return;
    json_put(into, "io",
             json_new("{s:f, s:f, s:f}", "bytes_per_s", bytes / seconds, "files_per_s",
                      files / seconds, "decode_ms", decode / files * 1e3));
    storage(run, json_object_get(into, "io"));
}

static json_t *epoch_json(const struct epoch_record *e)
{
    bool has = e->val_images > 0;
    return json_new("{s:I, s:f, s:f, s:f, s:o*, s:o*, s:o*}", "epoch", (json_int_t)e->epoch,
                    "train_loss", e->train_loss, "train_top1", e->train_top1, "train_top5",
                    e->train_top5, "val_loss", has ? json_finite(e->val_loss) : NULL, "val_top1",
                    has ? json_finite(e->val_top1) : NULL, "val_top5",
                    has ? json_finite(e->val_top5) : NULL);
}

static void epochs(const struct run *run, json_t *into)
{
    const struct epoch_record *best = NULL;
    for (int64_t i = 0; i < run->n_epochs; i++) {
        const struct epoch_record *e = &run->epoch[i];
        if (e->val_images && (!best || e->val_top1 > best->val_top1))
            best = e;
    }
    if (best)
        json_put(into, "best", epoch_json(best));
    if (run->n_epochs)
        json_put(into, "last", epoch_json(&run->epoch[run->n_epochs - 1]));
}

enum status summary_add(const struct run *run, json_t *into)
{
    int64_t skip = run_warmup(run);
    struct sample s = {.step = run->step + skip, .n = run->n_steps - skip};
    enum status st = STATUS_OK;
    json_put(into, "images_left_out", json_integer(run_left_out(run)));
    put_rate(into, "images_per_s_mean", run_images_per_s(run), 1);
    rates(run, into);
    epochs(run, into);
    time_to_accuracy(run, into);
    TRY(slowest_rank(run, into));
    TRY(sensors_add(run, into));
    if (s.n == 0)
        return STATUS_OK;
    TRY(array_new(&s.x, s.n));
    CHECK(images_per_s(&s, into));
    CHECK(step_parts(&s, into));
done:
    free(s.x);
    return st;
}

/* --- differences between the throughputs --- */

#define DIFFERENCE 0.10 /* a smaller difference is not explained */

/* Prints how far the mean throughput is from that of the median step. The cause is the part of the
 * steps that has at least half of the excess; a step has an excess if it, or its part, takes longer
 * than the median by more than half a median step. */
static void explain_mean(const struct run *run, const json_t *summary, double mean, FILE *out)
{
    static const struct {
        const char *part, *verb, *rest;
        size_t offset;
    } cause[] = {
        {"total", "took", "longer than the median step", offsetof(struct step_record, total_s)},
        {"data", "waited", "for data", offsetof(struct step_record, data_s)},
        {"comm", "waited", "for communication", offsetof(struct step_record, comm_s)}};
    const json_t *typical = json_object_get(summary, "step_s");
    double median = json_number_at(json_object_get(summary, "images_per_s"), "median"), all = 0;
    int64_t warmup = run_warmup(run);
    char why[128] = "";
    for (size_t k = 0; k < sizeof cause / sizeof *cause; k++) {
        double seconds = 0, least = json_number_at(typical, "total") / 2;
        int64_t steps = 0;
        for (int64_t i = warmup; i < run->n_steps; i++) {
            double x = *(const double *)((const char *)&run->step[i] + cause[k].offset) -
                       json_number_at(typical, cause[k].part);
            steps += x > least;
            seconds += x > least ? x : 0;
        }
        all = k == 0 ? seconds : all;
        if (mean < median && steps > 0 && 2 * seconds >= all)
            snprintf(why, sizeof why, ": %lld of %lld steps %s %.*f s %s", (long long)steps,
                     (long long)(run->n_steps - warmup), cause[k].verb, seconds < 0.1 ? 3 : 1,
                     seconds, cause[k].rest);
    }
    if (json_is_true(json_object_get(summary, "paused")))
        snprintf(why, sizeof why, ": signals stopped and continued the process");
    if (fabs(mean / median - 1) > DIFFERENCE)
        fprintf(out, "mean throughput is %.0f %% %s the median step%s\n",
                100 * fabs(mean / median - 1), mean < median ? "below" : "above", why);
}

/* Prints how far the throughput by the wall clock is below the mean, and why. Checkpoints within
 * an epoch (--checkpoint-steps) are the time between the two steps around them. */
static void explain_wall(const struct run *run, const json_t *summary, double mean, FILE *out)
{
    double wall = json_number_at(summary, "images_per_s_wall");
    const struct step_record *s = run->step;
    int64_t every = run_config_count(run, "checkpoint_steps", 0);
    struct {
        const char *name;
        double seconds;
    } cause[] = {{"start-up", s[0].elapsed - s[0].total_s}, {"validation", 0}, {"checkpoints", 0}};
    for (int64_t i = 0; i < run_warmup(run); i++)
        cause[0].seconds += s[i].total_s - (double)s[i].images / mean;
    for (int64_t i = 0; i < run->n_epochs; i++) {
        cause[1].seconds += run->epoch[i].val_s;
        cause[2].seconds += run->epoch[i].checkpoint_s;
    }
    for (int64_t i = 1; i < run->n_steps && every > 0 && run->resumes == 0; i++)
        if (s[i].step % every == 0 && s[i].epoch == s[i - 1].epoch)
            cause[2].seconds += s[i].elapsed - s[i - 1].elapsed - s[i].total_s;
    char text[128] = "";
    for (size_t k = 0; k < sizeof cause / sizeof *cause; k++)
        if (cause[k].seconds > 0.01 * run->elapsed)
            text_join(text, sizeof text, ", ", "%s %.0f %%", cause[k].name,
                      100 * cause[k].seconds / run->elapsed);
    if (wall / mean < 1 - DIFFERENCE)
        fprintf(out, "wall-clock throughput is %.0f %% below the mean%s%s%s\n",
                100 * (1 - wall / mean), *text ? ": " : "", text, *text ? " of the time" : "");
}

void summary_explain(const struct run *run, const json_t *summary, FILE *out)
{
    double mean = json_number_at(summary, "images_per_s_mean");
    if (!(mean > 0))
        return;
    explain_mean(run, summary, mean, out);
    explain_wall(run, summary, mean, out);
}
