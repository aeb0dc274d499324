/* Defines the table of metrics, and computes a run's metrics. */
#include "compare/metric.h"

#include "base/json.h"
#include "base/text.h"
#include "results/summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const struct metric metrics[METRICS] = {
    [METRIC_IMAGES_PER_S] = {"images_per_s", "images/s", "images_per_s", "median", true, false},
    [METRIC_IMAGES_PER_S_MAX] = {"images_per_s_max", "images/s", "images_per_s", "max", true,
                                 false},
    [METRIC_IMAGES_PER_S_WALL] = {"images_per_s_wall", "images/s", "images_per_s_wall", NULL, true,
                                  false},
    [METRIC_STEP] = {"step_s", "s", "step_s", "total", false, false},
    [METRIC_DATA] = {"data_s", "s", "step_s", "data", false, true},
    [METRIC_H2D] = {"h2d_s", "s", "step_s", "h2d", false, true},
    [METRIC_FORWARD] = {"forward_s", "s", "step_s", "forward", false, true},
    [METRIC_BACKWARD] = {"backward_s", "s", "step_s", "backward", false, true},
    [METRIC_COMM] = {"comm_s", "s", "step_s", "comm", false, true},
    [METRIC_OPTIMIZER] = {"optimizer_s", "s", "step_s", "optimizer", false, true},
    [METRIC_VAL_TOP1] = {"val_top1", "%", "last", "val_top1", true, false},
    [METRIC_JOULES] = {"joules_per_image", "J", "energy", "joules_per_image", false, false},
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
    json_t *sum;
    TRY(json_new(&sum, "{}"));
    enum status st = summary_add(run, sum);
    if (st == STATUS_INVALID) /* a null column: numbers that are not finite are written as null */
        st = STATUS_DATA;
    if (st != STATUS_OK)
        st = status_context(st, "'%s'", run->dir);
    for (int i = 0; i < METRICS; i++) {
        const char *member = metrics[i].member, *within = metrics[i].within;
        value[i] = within ? json_number_at(json_object_get(sum, member), within)
                          : json_number_at(sum, member);
    }
    json_decref(sum);
    return st;
}

const char *metric_text(const char *format, double x, char out[METRIC_TEXT_SIZE])
{
    if (isnan(x))
        return "-";
    snprintf(out, METRIC_TEXT_SIZE, format, x);
    return out;
}
