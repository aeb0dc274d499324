/* Summing up a run. */
#include "results/summary.h"

#include "base/stats.h"
#include "results/ranks.h"
#include "results/sensors.h"
#include "results/text.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

enum { WARMUP_STEPS = 10 };

/* The steps after warm-up, and room for one number each. */
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
    json_object_set_new(into, "images_per_s",
                        json_pack("{s:f, s:f, s:f, s:f, s:f, s:I}", "median", t.median, "p5", t.p5,
                                  "p95", t.p95, "max", t.max, "mad", t.mad, "steps",
                                  (json_int_t)s->n));
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
    json_object_set_new(into, "comm_hidden", json_real(t.median));
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
    json_t *parts = json_object();
    json_object_set_new(into, "step_s", parts);
    for (size_t k = 0; k < sizeof part / sizeof *part; k++) {
        struct stats t;
        for (int64_t i = 0; i < s->n; i++)
            s->x[i] = *(const double *)((const char *)&s->step[i] + part[k].offset);
        TRY(stats_of(s->x, s->n, &t));
        json_object_set_new(parts, part[k].name, json_real(t.median));
    }
    return comm_hidden(s, parts);
}

static enum status slowest_rank(const struct run *run, json_t *into)
{
    struct ranks r;
    TRY(ranks_of(run, &r));
    if (r.n > 0) {
        const struct rank_step *slowest = &r.rank[r.slowest];
        json_object_set_new(into, "ranks",
                            json_pack("{s:I, s:I, s:o, s:f, s:f, s:b, s:f, s:f, s:s, s:f, s:f}",
                                      "count", (json_int_t)r.n, "slowest", (json_int_t)r.slowest,
                                      "host", text_json(slowest->host), "behind", r.behind, "noise",
                                      r.noise, "slow", r.slow, "own_s", slowest->own_s,
                                      "median_own_s", r.median_own_s, "part", rank_part_str(r.part),
                                      "part_s", r.part_s, "images_per_s", slowest->images_per_s));
    }
    ranks_free(&r);
    return STATUS_OK;
}

static void io_rates(const struct run *run, json_t *into)
{
    double seconds = 0, bytes = 0, files = 0, decode = 0;
    for (int64_t i = 0; i < run->n_steps; i++) {
        seconds += run->step[i].total_s;
        bytes += (double)run->step[i].bytes_read;
        files += (double)run->step[i].files_read;
        decode += run->step[i].decode_s;
    }
    if (files > 0 && seconds > 0)
        json_object_set_new(into, "io",
                            json_pack("{s:f, s:f, s:f}", "bytes_per_s", bytes / seconds,
                                      "files_per_s", files / seconds, "decode_ms",
                                      decode / files * 1e3));
}

static void wall_clock(const struct run *run, json_t *into)
{
    double images = 0;
    for (int64_t i = 0; i < run->n_steps; i++)
        images += (double)run->step[i].images;
    if (run->elapsed > 0)
        json_object_set_new(into, "images_per_s_wall", json_real(images / run->elapsed));
}

static json_t *epoch_json(const struct epoch_record *e)
{
    json_t *o = json_pack("{s:I, s:f, s:f, s:f}", "epoch", (json_int_t)e->epoch, "train_loss",
                          e->train_loss, "train_top1", e->train_top1, "train_top5", e->train_top5);
    if (o && e->val_images) {
        json_object_set_new(o, "val_loss", json_real(e->val_loss));
        json_object_set_new(o, "val_top1", json_real(e->val_top1));
        json_object_set_new(o, "val_top5", json_real(e->val_top5));
    }
    return o;
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
        json_object_set_new(into, "best", epoch_json(best));
    if (run->n_epochs)
        json_object_set_new(into, "last", epoch_json(&run->epoch[run->n_epochs - 1]));
}

enum status summary_add(const struct run *run, json_t *into)
{
    int64_t skip = stats_warmup(run->n_steps, WARMUP_STEPS);
    struct sample s = {.step = run->step + skip, .n = run->n_steps - skip};
    enum status st = STATUS_OK;
    json_object_set_new(into, "images_left_out", json_integer(run_left_out(run)));
    wall_clock(run, into);
    io_rates(run, into);
    epochs(run, into);
    TRY(slowest_rank(run, into));
    TRY(sensors_add(run, into));
    if (s.n == 0)
        return STATUS_OK;
    s.x = malloc((size_t)s.n * sizeof *s.x);
    if (!s.x)
        return status_fail(STATUS_OOM, "no memory to sum up a run");
    CHECK(images_per_s(&s, into));
    CHECK(step_parts(&s, into));
done:
    free(s.x);
    return st;
}
