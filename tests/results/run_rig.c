/* Records of runs. */
#include "run_rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *const command[] = {"ampscale", "train", "data", "--out", "caf\xe9"};

int run_rig_set_up(void **state)
{
    struct run_rig *f = calloc(1, sizeof *f);
    scratch_make(f->dir);
    f->config = json_pack("{s:s, s:i}", "arch", "resnet18", "batch_size", 32);
    f->info = (struct run_info){
        .argc = 5, .argv = command, .seed = 42, .device = "a processor", .config = f->config};
    *state = f;
    return 0;
}

int run_rig_tear_down(void **state)
{
    struct run_rig *f = *state;
    scratch_remove(f->dir);
    json_decref(f->config);
    free(f);
    return 0;
}

struct record *run_rig_open(const struct run_rig *f, int n, const char *host, int64_t epoch)
{
    struct record *r;
    struct run_info info = f->info;
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        json_t *name = json_sprintf("%s%d", host, i / 2);
        json_array_append_new(
            list, json_pack("{s:i, s:o, s:i}", "rank", i, "host", name, "pid", 1000 + i));
    }
    info.ranks = n > 1 ? list : NULL;
    enum status st = epoch > 0 ? record_resume(f->dir, &info, 10 * epoch, epoch, &r)
                               : record_create(f->dir, &info, &r);
    expect_ok(st);
    json_decref(list);
    return r;
}

struct rank_record run_rig_rank(int64_t epoch, int64_t rank)
{
    return (struct rank_record){.epoch = epoch,
                                .rank = rank,
                                .steps = 10,
                                .images = 320,
                                .data_s = 0.125,
                                .h2d_s = 0.25,
                                .forward_s = 1,
                                .backward_s = 2,
                                .comm_s = 0.5,
                                .comm_busy_s = 0.75,
                                .optimizer_s = 0.375,
                                .total_s = 4.5};
}

void run_rig_add_epoch(struct record *r, int64_t epoch, int n)
{
    for (int i = 0; i < n; i++) {
        struct rank_record rank = run_rig_rank(epoch, i);
        expect_ok(record_rank(r, &rank));
    }
    expect_ok(record_epoch(r, &(struct epoch_record){.epoch = epoch}));
}

void run_rig_append(const char *dir, const struct schema *schema, const void *record)
{
    char line[SCHEMA_LINE_MAX];
    const char *file = schema == &step_schema    ? "steps.jsonl"
                       : schema == &epoch_schema ? "epochs.jsonl"
                       : schema == &rank_schema  ? "ranks.jsonl"
                                                 : "telemetry.jsonl";
    scratch_append(dir, file, line, schema_format(schema, record, line));
}

struct run *run_rig_load(const char *dir)
{
    struct run *run;
    expect_ok(run_load(dir, &run));
    return run;
}

static struct step_record step_of(int64_t i)
{
    return (struct step_record){.epoch = i / 2,
                                .step = i,
                                .batch = i % 2,
                                .images = 32,
                                .loss = i == 2 ? NAN : 4 - (double)i,
                                .top1 = 25,
                                .top5 = 50,
                                .lr = i < 2 ? 0.01 : 0.0001,
                                .data_s = 0.0625,
                                .forward_s = 0.125,
                                .backward_s = 0.25,
                                .optimizer_s = 0.03125,
                                .total_s = 0.5,
                                .loss_scale = i < 2 ? 65536 : 32768,
                                .skipped = i == 1,
                                .elapsed = 1 + (double)i * 0.5 + (i < 2 ? 0 : 1)};
}

static struct epoch_record epoch_of(int64_t i)
{
    return (struct epoch_record){.epoch = i,
                                 .steps = 2 * (i + 1),
                                 .lr = i ? 0.0001 : 0.01,
                                 .train_images = 64,
                                 .val_images = 50,
                                 .val_loss = 2,
                                 .val_top1 = i ? 78 : 30,
                                 .val_top5 = 90,
                                 .best_top1 = i ? 78 : 30,
                                 .val_s = 0.75,
                                 .checkpoint_s = 0.25,
                                 .loss_scale = i ? 32768 : 65536,
                                 .skipped = 1,
                                 .elapsed = 2.5 + 2 * (double)i};
}

void run_rig_write(const char *dir)
{
    static const char info[] =
        "{\"schema\":1,\"started\":\"2024-01-31T12:00:00Z\",\"seed\":7,\"device\":\"a "
        "\\\"quick\\\" "
        "\\\\ device\",\"host\":{\"hostname\":\"node1\"},\"config\":{\"arch\":\"resnet18\","
        "\"precision\":\"amp\",\"mode\":\"nd\",\"batch_size\":32,\"world_size\":1,"
        "\"devices_per_rank\":1,\"accumulate\":1,\"lr\":0.01,\"momentum\":0.9,\"weight_decay\":"
        "0.0001,\"warmup_epochs\":0,\"lars\":0,\"epochs\":2,\"dummy\":false,\"desired_acc\":0}}";
    scratch_write_text(dir, "run.json", info);
    for (int64_t i = 0; i < 4; i++) {
        struct step_record step = step_of(i);
        run_rig_append(dir, &step_schema, &step);
    }
    for (int64_t i = 0; i < 2; i++) {
        struct epoch_record epoch = epoch_of(i);
        run_rig_append(dir, &epoch_schema, &epoch);
    }
    scratch_write_text(dir, "summary.json", "{\"schema\":1,\"ended_by\":\"epochs\"}");
}

void assert_close(double got, double want)
{
    if (!(fabs(got - want) <= 1e-12 * fmax(1, fabs(want))))
        fail_msg("%.17g instead of %.17g", got, want);
}
