/* Makes runs from invented numbers. */
#include "sample.h"

#include "base/rng.h"
#include "results/schema.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static FILE *open_in(const char *dir, const char *file)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    return out;
}

static double cosine_lr(const struct sample *s, double epoch)
{
    double warm = 5, all = s->epochs;
    if (epoch < warm && all > 2 * warm)
        return 0.4 * (epoch + 0.1) / warm;
    return 0.2 * (1 + cos(3.141592653589793 * epoch / (all + 0.01)));
}

/* Progress of learning after `epoch` epochs, from 0 to 1. */
static double learnt(const struct sample *s, double epoch)
{
    double x = epoch / s->epochs;
    return 1 - exp(-6 * x) * 0.9 - 0.1 * (1 - x);
}

static struct step_record make_step(const struct sample *s, int step, struct rng *rng)
{
    double epoch = (double)step / s->steps_per_epoch, l = learnt(s, epoch);
    double noise = rng_normal(rng), total = s->batch / s->images_per_s;
    struct step_record r = {
        .epoch = step / s->steps_per_epoch,
        .step = step,
        .batch = step % s->steps_per_epoch,
        .images = s->batch,
        .loss = 6.9 * (1 - l) + 1.6 * l + 0.15 * noise,
        .top1 = fmin(100, fmax(0, s->final_top1 * l * 0.97 + 4 * noise)),
        .lr = cosine_lr(s, epoch),
        .h2d_s = s->gpu ? 0.02 * total : 0,
        .forward_s = 0.30 * total * (1 + 0.01 * rng_normal(rng)),
        .backward_s = 0.58 * total * (1 + 0.01 * rng_normal(rng)),
        .comm_s = s->gpu ? 0.03 * total : 0,
        .optimizer_s = 0.03 * total,
        .data_s = 0.002 * total + (rng_below(rng, 40) == 0 ? 0.4 * total : 0),
        .loss_scale = !s->gpu                               ? 0
                      : s->skip_step && step > s->skip_step ? 32768
                                                            : 65536,
        .skipped = s->skip_step && step == s->skip_step,
    };
    r.top5 = fmin(100, r.top1 * 1.25);
    r.total_s = r.data_s + r.h2d_s + r.forward_s + r.backward_s + r.comm_s + r.optimizer_s +
                0.01 * total * (1 + 0.2 * rng_double(rng));
    if (step == 0)
        r.total_s += 3 * total;
    if (s->nan_from_step && step >= s->nan_from_step)
        r.loss = NAN;
    if (!s->dummy) {
        r.bytes_read = (int64_t)(s->batch * 110e3 * (1 + 0.05 * rng_normal(rng)));
        r.files_read = s->batch;
        r.workers = 8;
        r.decode_s = s->batch * 6.5e-3 * (1 + 0.03 * rng_normal(rng));
    }
    return r;
}

static struct epoch_record make_epoch(const struct sample *s, const struct step_record *last,
                                      double train_s, struct rng *rng)
{
    double l = learnt(s, (double)last->epoch + 1);
    struct epoch_record e = {
        .epoch = last->epoch,
        .steps = last->step + 1,
        .lr = last->lr,
        .train_images = (int64_t)s->batch * s->steps_per_epoch,
        .train_loss = isnan(last->loss) ? NAN : 6.9 * (1 - l) + 1.6 * l,
        .train_top1 = s->final_top1 * l * 0.97,
        .train_top5 = fmin(99, s->final_top1 * l * 1.2),
        .val_loss = NAN,
        .val_top1 = NAN,
        .val_top5 = NAN,
        .train_s = train_s,
        .val_s = s->val_s,
        .images_per_s = s->images_per_s,
    };
    if (s->val_s > 0) {
        e.val_images = 50000;
        e.val_top1 = fmax(0.1, s->final_top1 * l + 0.8 * (1.2 - l) * rng_normal(rng));
        e.val_top5 = fmin(99, e.val_top1 * 1.22);
        e.val_loss = isnan(last->loss) ? NAN : 6.8 * (1 - l) + 1.2 * l + 0.05 * rng_normal(rng);
    }
    return e;
}

static void write_run(const char *dir, const struct sample *s)
{
    FILE *run = open_in(dir, "run.json");
    fprintf(run,
            "{\"schema\":1,\"config\":{\"arch\":\"%s\",\"batch_size\":%d,\"precision\":\"%s\","
            "\"seed\":%u}",
            s->arch, s->batch, s->precision ? s->precision : "", s->seed);
    for (int i = 0; i < s->ranks; i++)
        fprintf(run, "%s{\"rank\":%d,\"host\":\"%s%d\",\"pid\":%d}", i ? "," : ",\"ranks\":[", i,
                s->host ? s->host : "node", i / 2, 4711 + i);
    fputs(s->ranks ? "]}" : "}", run);
    assert_int_equal(fclose(run), 0);
}

/* The times of every rank in an epoch. All ranks take equally long: a rank that has less work
 * waits. */
static void write_ranks(const struct sample *s, int64_t epoch, struct rng *rng, FILE *out)
{
    double total = s->batch / s->images_per_s, steps = s->steps_per_epoch;
    double slow_data = s->slow_data > 0 ? s->slow_data : 0.12;
    for (int i = 0; i < s->ranks; i++) {
        char line[SCHEMA_LINE_MAX];
        struct rank_record r = {
            .epoch = epoch,
            .rank = i,
            .steps = s->steps_per_epoch,
            .images = (int64_t)s->batch * s->steps_per_epoch / s->ranks,
            .data_s = steps * total * (s->slow_rank && i == s->slow_rank ? slow_data : 0.01),
            .h2d_s = steps * total * 0.02,
            .forward_s = steps * total * (0.24 + 0.004 * rng_normal(rng)),
            .backward_s = steps * total * (0.46 + 0.008 * rng_normal(rng)),
            .optimizer_s = steps * total * 0.03,
            .total_s = steps * total,
        };
        double work = r.data_s + r.h2d_s + r.forward_s + r.backward_s + r.optimizer_s;
        r.comm_s = fmax(0, 0.99 * r.total_s - work);
        r.comm_busy_s = r.comm_s + 0.2 * r.total_s;
        fwrite(line, 1, schema_format(&rank_schema, &r, line), out);
    }
}

/* One sample per second from each device. One of the samples has no power value. */
static void write_sensors(const struct sample *s, double elapsed, FILE *out)
{
    char line[SCHEMA_LINE_MAX];
    for (int i = 0; i < elapsed; i++) {
        for (int device = 0; device < s->sensors; device++) {
            bool held = device + 1 == s->sensors && i > elapsed / 2;
            struct telemetry_record r = telemetry_nothing;
            r.sample = i;
            r.device = device;
            r.elapsed = i;
            r.power_w = i == 3 ? NAN : held ? 700 : 600 + i % 5;
            r.temperature_c = 40 + 30 * (1 - exp(-i / 10.0)) + device;
            r.clock_mhz = held ? 1500 : 1980;
            r.throttle = held ? THROTTLE_POWER_CAP : i == 0 ? THROTTLE_IDLE : 0;
            fwrite(line, 1, schema_format(&telemetry_schema, &r, line), out);
        }
    }
}

void sample_write(const char *dir, const struct sample *s)
{
    char line[SCHEMA_LINE_MAX];
    write_run(dir, s);
    FILE *steps = open_in(dir, "steps.jsonl"), *epochs = open_in(dir, "epochs.jsonl");
    FILE *ranks = s->ranks ? open_in(dir, "ranks.jsonl") : NULL;
    struct rng rng = rng_at(s->seed, RNG_TEST, 0, 0);
    double elapsed = 2, train_s = 0;
    int n = s->steps ? s->steps : s->epochs * s->steps_per_epoch;
    for (int i = 0; i < n; i++) {
        struct step_record r = make_step(s, i, &rng);
        elapsed += r.total_s;
        train_s += r.total_s;
        r.elapsed = elapsed;
        fwrite(line, 1, schema_format(&step_schema, &r, line), steps);
        if ((i + 1) % s->steps_per_epoch != 0)
            continue;
        struct epoch_record e = make_epoch(s, &r, train_s, &rng);
        if (ranks)
            write_ranks(s, r.epoch, &rng, ranks);
        elapsed += s->val_s;
        e.elapsed = elapsed;
        train_s = 0;
        fwrite(line, 1, schema_format(&epoch_schema, &e, line), epochs);
    }
    if (s->sensors) {
        FILE *sensors = open_in(dir, "telemetry.jsonl");
        write_sensors(s, elapsed, sensors);
        assert_int_equal(fclose(sensors), 0);
    }
    assert_int_equal(fclose(steps), 0);
    assert_int_equal(fclose(epochs), 0);
    if (ranks)
        assert_int_equal(fclose(ranks), 0);
}
