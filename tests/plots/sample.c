/* Makes runs from invented numbers. */
#include "rig.h"
#include "tests/results/run_rig.h"

#include <math.h>
#include <stdlib.h>

/* Every fortieth step waits for data, and the first step is slow. */
static struct step_record make_step(const struct sample *s, int step)
{
    double total = s->batch / s->images_per_s;
    struct step_record r = {
        .epoch = step / s->steps_per_epoch,
        .step = step,
        .batch = step % s->steps_per_epoch,
        .images = s->batch,
        .loss = s->nan_from_step && step >= s->nan_from_step ? NAN : 7.0 / (1 + step),
        .top1 = 70 - 70.0 / (1 + step),
        .lr = 0.4 / (1 + step),
        .h2d_s = s->gpu ? 0.02 * total : 0,
        .forward_s = 0.30 * total * (1 + 0.01 * (step % 3)),
        .backward_s = 0.58 * total,
        .comm_s = s->gpu ? 0.03 * total : 0,
        .optimizer_s = 0.03 * total,
        .data_s = step % 40 == 39 ? 0.4 * total : 0.002 * total,
        .loss_scale = !s->gpu     ? 0
                      : step > 70 ? 32768
                                  : 65536,
        .skipped = s->gpu && step == 70,
    };
    r.top5 = r.top1 * 1.25;
    r.total_s = r.data_s + r.h2d_s + r.forward_s + r.backward_s + r.comm_s + r.optimizer_s +
                (step == 0 ? 3 : 0.01) * total;
    if (!s->dummy) {
        r.bytes_read = (int64_t)(s->batch * 110e3);
        r.files_read = s->batch;
        r.workers = 8;
        r.decode_s = s->batch * 6.5e-3;
    }
    return r;
}

static struct epoch_record make_epoch(const struct sample *s, const struct step_record *last)
{
    bool has_val = s->val_s > 0;
    return (struct epoch_record){
        .epoch = last->epoch,
        .steps = last->step + 1,
        .lr = last->lr,
        .train_images = (int64_t)s->batch * s->steps_per_epoch,
        .train_loss = last->loss,
        .train_top1 = last->top1,
        .train_top5 = last->top5,
        .val_images = has_val ? 50000 : 0,
        .val_loss = has_val ? 1.1 * last->loss : NAN,
        .val_top1 = has_val ? 0.9 * last->top1 : NAN,
        .val_top5 = has_val ? 0.9 * last->top5 : NAN,
        .train_s = last->elapsed,
        .val_s = s->val_s,
        .images_per_s = s->images_per_s,
    };
}

static void write_run(const char *dir, const struct sample *s)
{
    json_t *run = json_pack("{s:i, s:{s:s, s:i, s:s, s:i}}", "schema", 1, "config", "arch", s->arch,
                            "batch_size", s->batch, "precision", s->precision ? s->precision : "",
                            "seed", s->seed);
    json_t *ranks = json_array();
    for (int i = 0; i < s->ranks; i++) {
        json_t *host = json_sprintf("%s%d", s->host ? s->host : "node", i / 2);
        json_array_append_new(
            ranks, json_pack("{s:i, s:o, s:i}", "rank", i, "host", host, "pid", 4711 + i));
    }
    if (s->ranks)
        json_object_set(run, "ranks", ranks);
    char *text = json_dumps(run, 0);
    scratch_write_text(dir, "run.json", text);
    free(text);
    json_decref(ranks);
    json_decref(run);
}

/* The times of every rank in an epoch. All ranks take equally long: a rank that has less work
 * waits. */
static void write_ranks(const char *dir, const struct sample *s, int64_t epoch)
{
    double total = s->batch / s->images_per_s * s->steps_per_epoch;
    for (int i = 0; i < s->ranks; i++) {
        struct rank_record r = {
            .epoch = epoch,
            .rank = i,
            .steps = s->steps_per_epoch,
            .images = (int64_t)s->batch * s->steps_per_epoch / s->ranks,
            .data_s = total * (s->slow_rank && i == s->slow_rank ? s->slow_data : 0.01),
            .h2d_s = total * 0.02,
            .forward_s = total * (0.24 + 0.001 * (i % 3)),
            .backward_s = total * 0.46,
            .optimizer_s = total * 0.03,
            .total_s = total,
        };
        r.comm_s = fmax(0, 0.24 * total - r.data_s);
        r.comm_busy_s = r.comm_s + 0.2 * total;
        run_rig_append(dir, &rank_schema, &r);
    }
}

/* One sample per second from each device. One of the samples has no power value. */
static void write_sensors(const char *dir, const struct sample *s, double elapsed)
{
    for (int k = 0; k < elapsed * s->sensors; k++) {
        int i = k / s->sensors, device = k % s->sensors;
        bool held = device + 1 == s->sensors && i > elapsed / 2;
        struct telemetry_record r = telemetry_nothing;
        r.sample = i;
        r.device = device;
        r.elapsed = i;
        r.power_w = i == 3 ? NAN : held ? 700 : 600;
        r.temperature_c = 40 + 30 * (1 - exp(-i / 10.0)) + device;
        r.clock_mhz = held ? 1500 : 1980;
        r.throttle = held ? THROTTLE_POWER_CAP : i == 0 ? THROTTLE_IDLE : 0;
        run_rig_append(dir, &telemetry_schema, &r);
    }
}

void sample_write(const char *dir, const struct sample *s)
{
    double elapsed = 2;
    int n = s->steps ? s->steps : s->epochs * s->steps_per_epoch;
    write_run(dir, s);
    for (int i = 0; i < n; i++) {
        struct step_record r = make_step(s, i);
        elapsed += r.total_s;
        r.elapsed = elapsed;
        run_rig_append(dir, &step_schema, &r);
        if ((i + 1) % s->steps_per_epoch != 0)
            continue;
        struct epoch_record e = make_epoch(s, &r);
        write_ranks(dir, s, r.epoch);
        elapsed += s->val_s;
        e.elapsed = elapsed;
        run_rig_append(dir, &epoch_schema, &e);
    }
    if (s->sensors)
        write_sensors(dir, s, elapsed);
}
