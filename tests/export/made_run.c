/* Writes a run with known contents. */
#include "made_run.h"

#include "base/file.h"
#include "results/schema.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char run_text[] =
    "{\"schema\":1,\"started\":\"2024-01-31T12:00:00Z\",\"seed\":7,\"device\":\"a \\\"quick\\\" "
    "\\\\ device\",\"host\":{\"hostname\":\"node1\"},\"config\":{\"arch\":\"resnet18\","
    "\"precision\":\"amp\",\"mode\":\"nd\",\"batch_size\":32,\"world_size\":1,"
    "\"devices_per_rank\":1,\"accumulate\":1,\"lr\":0.01,\"momentum\":0.9,\"weight_decay\":0.0001,"
    "\"warmup_epochs\":0,\"lars\":0,\"epochs\":2,\"dummy\":false,\"desired_acc\":0}}";

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
                                 .train_loss = 3,
                                 .train_top1 = 25,
                                 .train_top5 = 50,
                                 .val_images = 50,
                                 .val_loss = 2,
                                 .val_top1 = i ? 78 : 30,
                                 .val_top5 = 90,
                                 .best_top1 = i ? 78 : 30,
                                 .images_per_s = 64,
                                 .images_per_s_p5 = 64,
                                 .images_per_s_p95 = 64,
                                 .images_per_s_wall = 32,
                                 .train_s = 1,
                                 .val_s = 0.75,
                                 .checkpoint_s = 0.25,
                                 .loss_scale = i ? 32768 : 65536,
                                 .skipped = 1,
                                 .elapsed = 2.5 + 2 * (double)i};
}

static enum status write_text(const char *dir, const char *file, const char *text)
{
    char path[4096];
    TRY(path_format(path, sizeof path, "%s/%s", dir, file));
    return file_replace(path, text, strlen(text));
}

enum status made_run_write(const char *dir)
{
    char text[4 * SCHEMA_LINE_MAX];
    size_t size = 0;
    TRY(write_text(dir, "run.json", run_text));
    for (int64_t i = 0; i < 4; i++) {
        struct step_record step = step_of(i);
        size += schema_format(&step_schema, &step, text + size);
    }
    TRY(write_text(dir, "steps.jsonl", text));
    size = 0;
    for (int64_t i = 0; i < 2; i++) {
        struct epoch_record epoch = epoch_of(i);
        size += schema_format(&epoch_schema, &epoch, text + size);
    }
    TRY(write_text(dir, "epochs.jsonl", text));
    return write_text(dir, "summary.json", "{\"schema\":1,\"ended_by\":\"epochs\"}");
}
