/* Defines the table of metrics, and computes a run's metrics. */
#include "compare/metric.h"

#include "base/json.h"
#include "base/text.h"
#include "results/summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const struct metric metrics[METRICS] = {
    [METRIC_IMAGES_PER_S_MEAN] = {"images_per_s_mean", "images/s", "images_per_s_mean", NULL,
                                  .more_is_better = true},
    [METRIC_IMAGES_PER_S] = {"images_per_s", "images/s", "images_per_s", "median",
                             .more_is_better = true},
    [METRIC_IMAGES_PER_S_MAX] = {"images_per_s_max", "images/s", "images_per_s", "max",
                                 .more_is_better = true},
    [METRIC_IMAGES_PER_S_WALL] = {"images_per_s_wall", "images/s", "images_per_s_wall", NULL,
                                  .more_is_better = true},
    [METRIC_STEP] = {"step_s", "s", "step_s", "total"},
    [METRIC_DATA] = {"data_s", "s", "step_s", "data", .part = true},
    [METRIC_H2D] = {"h2d_s", "s", "step_s", "h2d", .part = true},
    [METRIC_FORWARD] = {"forward_s", "s", "step_s", "forward", .part = true},
    [METRIC_BACKWARD] = {"backward_s", "s", "step_s", "backward", .part = true},
    [METRIC_COMM] = {"comm_s", "s", "step_s", "comm", .part = true},
    [METRIC_OPTIMIZER] = {"optimizer_s", "s", "step_s", "optimizer", .part = true},
    [METRIC_VAL_TOP1] = {"val_top1", "%", "last", "val_top1", .more_is_better = true,
                         .accuracy = true},
    [METRIC_VAL_TOP5] = {"val_top5", "%", "last", "val_top5", .more_is_better = true,
                         .accuracy = true},
    [METRIC_BEST_TOP1] = {"best_top1", "%", "best", "val_top1", .more_is_better = true,
                          .accuracy = true},
    [METRIC_TIME_TO_ACCURACY] = {"time_to_accuracy_s", "s", "time_to_accuracy", "seconds"},
    [METRIC_IO_BYTES] = {"io_bytes_per_s", "bytes/s", "io", "bytes_per_s", .more_is_better = true},
    [METRIC_IO_FILES] = {"io_files_per_s", "files/s", "io", "files_per_s", .more_is_better = true},
    [METRIC_DECODE] = {"decode_ms", "ms", "io", "decode_ms"},
    [METRIC_JOULES] = {"joules_per_image", "J", "energy", "joules_per_image"},
    [METRIC_SAMPLES] = {"samples_per_s", "samples/s", "metrics", NULL, .more_is_better = true},
    [METRIC_TOKENS] = {"tokens_per_s", "tokens/s", "metrics", NULL, .more_is_better = true},
    [METRIC_LOSS] = {"loss", "1", "metrics", NULL},
    [METRIC_SECONDS] = {"seconds", "s", "metrics", NULL},
};

enum status metric_find(const char *flag, const char *name, enum metric_id *out)
{
    char known[512] = "";
    for (int i = 0; i < METRICS; i++) {
        *out = i;
        if (strcmp(name, metrics[i].name) == 0)
            return STATUS_OK;
        text_join(known, sizeof known, ", ", "%s", metrics[i].name);
    }
    return status_fail(STATUS_USAGE, "%s '%s': unknown metric; known: %s", flag, name, known);
}

enum status metrics_of(const struct run *run, double value[METRICS])
{
    const json_t *recorded = json_object_get(run->summary, "metrics");
    for (int i = 0; i < METRICS && recorded; i++) {
        value[i] = json_number_at(recorded, metrics[i].name);
        value[i] = value[i] >= 0 ? value[i] : NAN;
    }
    if (recorded)
        return STATUS_OK;
    json_t *sum = json_object();
    enum status st = summary_add(run, sum);
    if (st == STATUS_INVALID) /* a value is null, which stands for a number that is not finite */
        st = STATUS_DATA;
    if (st != STATUS_OK)
        st = status_context(st, "'%s'", run->dir);
    for (int i = 0; i < METRICS; i++) {
        const char *member = metrics[i].member, *within = metrics[i].within;
        value[i] = within ? json_number_at(json_object_get(sum, member), within)
                          : json_number_at(sum, member);
    }
    if (json_is_true(json_object_get(run->summary, "paused")))
        value[METRIC_IMAGES_PER_S_MEAN] = NAN;
    json_decref(sum);
    return st;
}

const char *metric_text(const char *format, double x, char out[METRIC_TEXT_SIZE])
{
    snprintf(out, METRIC_TEXT_SIZE, isnan(x) ? "-" : format, x);
    return out;
}
