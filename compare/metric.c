/* The table of metrics. */
#include "compare/metric.h"

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
    size_t used = 0;
    for (int i = 0; i < METRICS; i++) {
        *out = i;
        if (strcmp(name, metrics[i].name) == 0)
            return STATUS_OK;
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 metrics[i].name);
    }
    return status_fail(STATUS_USAGE, "%s '%s': no such metric; there are %s", flag, name, known);
}

enum status metrics_of(const struct run *run, double value[METRICS])
{
    json_t *sum = json_object();
    if (!sum)
        return status_fail(STATUS_OOM, "no memory to sum up a run");
    enum status st = summary_add(run, sum);
    if (st == STATUS_INVALID) /* a column that is null, which only numbers beyond all measure are */
        st = STATUS_DATA;
    if (st != STATUS_OK)
        st = status_context(st, "'%s'", run->dir);
    for (int i = 0; i < METRICS; i++) {
        const json_t *v = json_object_get(sum, metrics[i].member);
        if (metrics[i].within)
            v = json_object_get(v, metrics[i].within);
        value[i] = json_is_number(v) ? json_number_value(v) : NAN;
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

json_t *metric_json(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}
