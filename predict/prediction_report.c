/* Prints a prediction as text, and makes its JSON. */
#include "predict/prediction.h"

#include "base/json.h"

#include <inttypes.h>

/* Forecasts have been validated up to REACH times the largest measured number of ranks. */
enum { REACH = 4 };

static const char *const algorithms[] = {
    [COST_RING] = "ring", [COST_TREE] = "tree", [COST_AUTO] = "auto"};
static const char *const limits[] = {[LIMIT_COMPUTE] = "compute",
                                     [LIMIT_STRAGGLERS] = "stragglers",
                                     [LIMIT_LATENCY] = "latency",
                                     [LIMIT_BANDWIDTH] = "bandwidth",
                                     [LIMIT_INPUT] = "input"};

static void print_system(const struct prediction *p, FILE *out)
{
    const struct system *s = &p->system;
    const struct network_cost *net = &s->net;
    char text[PREDICTION_TEXT_MAX];
    fprintf(out, "%s\n", p->source->label);
    fprintf(out, "gradients  %.1f MB in %d bucket%s, %s\n", workload_bytes(&s->work) / 1e6,
            s->work.n, s->work.n == 1 ? "" : "s", algorithms[net->algorithm]);
    fprintf(out, "nodes      of %" PRId64 " rank%s\n", net->ranks_per_node,
            net->ranks_per_node == 1 ? "" : "s");
    if (s->input_bytes_per_s > 0)
        fprintf(out, "input      %.2f GB/s for all ranks, %.1f kB per image\n",
                s->input_bytes_per_s / 1e9, s->image_bytes / 1e3);
    int64_t few = p->n ? p->forecast[0].step.batch : 0,
            many = p->n ? p->forecast[p->n - 1].step.batch : 0;
    if (few != many)
        fprintf(out,
                "batch      %" PRId64 " to %" PRId64 " images per rank, the same over all ranks\n",
                few, many);
    else if (few)
        fprintf(out, "batch      %" PRId64 " images per rank\n", few);
    if (p->source->predicted)
        fprintf(out, "The time of the step is predicted, not measured.\n");
    static const char *const before[] = {"known      given or measured: ", "fitted     ",
                                         "assumed    not measured: "};
    for (enum origin o = ORIGIN_KNOWN; o <= ORIGIN_ASSUMED; o++) {
        prediction_parameters(p, o, text);
        if (text[0] != '\0')
            fprintf(out, "%s%s\n", before[o], text);
    }
    if (p->fitted > 0)
        fprintf(out, "fit        to %d points, up to %" PRId64 " ranks\n", p->fitted,
                p->source->point[p->fitted - 1].ranks);
}

void prediction_print(const struct prediction *p, FILE *out)
{
    print_system(p, out);
    fprintf(out, "\n%7s %12s %10s %10s %6s %10s | %9s %10s %8s %8s  %s\n", "ranks", "images/s",
            "low", "high", "eff. %", "step ms", "compute", "stragglers", "exposed", "input",
            "limit");
    for (int i = 0; i < p->n; i++) {
        const struct prediction_row *row = &p->forecast[i];
        const struct forecast *f = &row->step;
        fprintf(out,
                "%7" PRId64 " %12.1f %10.1f %10.1f %6.1f %10.2f | %9.2f %10.2f %8.2f %8.2f  %s\n",
                f->ranks, f->images_per_s, row->low, row->high, row->efficiency, 1e3 * f->step_s,
                1e3 * f->compute_s, 1e3 * f->straggler_s, 1e3 * f->exposed_s, 1e3 * f->input_s,
                limits[f->limit]);
    }
    fprintf(out, "low, high: 95 %% interval of images/s\n");
    /* Warns about forecasts beyond REACH times the largest measured number of ranks. */
    int64_t largest = p->source->point[p->source->n - 1].ranks;
    if (!p->source->predicted && p->n > 0 && p->forecast[p->n - 1].step.ranks > REACH * largest)
        fprintf(out,
                "Beyond %" PRId64
                " ranks: extrapolated to more than %d times the largest measured number.\n",
                REACH * largest, REACH);
    fprintf(out, "\n%7s %12s %6s %12s %6s\n", "ranks", "measured", "eff. %", "forecast", "points");
    for (int i = 0; i < p->source->n; i++) {
        const struct measured *m = &p->source->point[i];
        const struct prediction_point *at = &p->point[i];
        fprintf(out, "%7" PRId64 " %12.1f %6.1f %12.1f %+6.1f  %s\n", m->ranks, m->images_per_s,
                at->efficiency, at->forecast.step.images_per_s, at->error,
                at->outside            ? "held out, outside the interval"
                : at->held_out         ? "held out"
                : p->source->predicted ? "predicted, not measured"
                : p->fitted > 0        ? "fitted"
                                       : "calibration point");
    }
}

static json_t *link_json(const struct link *l)
{
    return json_new("{s:f, s:f}", "latency_s", l->latency_s, "bytes_per_s", l->bytes_per_s);
}

static json_t *system_json(const struct prediction *p)
{
    const struct system *s = &p->system;
    char known[PREDICTION_TEXT_MAX], fitted[PREDICTION_TEXT_MAX], assumed[PREDICTION_TEXT_MAX];
    prediction_parameters(p, ORIGIN_KNOWN, known);
    prediction_parameters(p, ORIGIN_FITTED, fitted);
    prediction_parameters(p, ORIGIN_ASSUMED, assumed);
    return json_new(
        "{s:f, s:f, s:s, s:I, s:o, s:o, s:f, s:i, s:f, s:f, s:i, s:s, s:s, s:s}", "image_s",
        s->image_s, "sigma", s->sigma, "algorithm", algorithms[s->net.algorithm], "ranks_per_node",
        (json_int_t)s->net.ranks_per_node, "intra", link_json(&s->net.intra), "inter",
        link_json(&s->net.inter), "gradient_bytes", workload_bytes(&s->work), "buckets", s->work.n,
        "input_bytes_per_s", s->input_bytes_per_s, "image_bytes", s->image_bytes, "fitted",
        p->fitted, "known", known, "by_fit", fitted, "assumed", assumed);
}

static json_t *forecast_json(const void *prediction, int64_t i)
{
    const struct prediction_row *row = &((const struct prediction *)prediction)->forecast[i];
    const struct forecast *f = &row->step;
    return json_new("{s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s}",
                    "ranks", (json_int_t)f->ranks, "batch", (json_int_t)f->batch, "images_per_s",
                    f->images_per_s, "low", row->low, "high", row->high, "efficiency",
                    row->efficiency, "step_s", f->step_s, "step_p5_s", f->step_p5_s, "step_p95_s",
                    f->step_p95_s, "compute_s", f->compute_s, "straggler_s", f->straggler_s,
                    "exposed_s", f->exposed_s, "input_s", f->input_s, "comm_busy_s", f->busy_s,
                    "limit", limits[f->limit]);
}

static json_t *measured_json(const void *prediction, int64_t i)
{
    const struct prediction *p = prediction;
    const struct measured *m = &p->source->point[i];
    const struct prediction_point *at = &p->point[i];
    return json_new("{s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:b, s:b}", "ranks",
                    (json_int_t)m->ranks, "batch", (json_int_t)m->batch, "images_per_s",
                    m->images_per_s, "efficiency", at->efficiency, "forecast",
                    at->forecast.step.images_per_s, "low", at->forecast.low, "high",
                    at->forecast.high, "error", at->error, "held_out", at->held_out, "outside",
                    at->outside, "predicted", p->source->predicted);
}

json_t *prediction_json(const struct prediction *p)
{
    return json_new("{s:i, s:s, s:s, s:o, s:o, s:o}", "schema", PREDICTION_SCHEMA, "record",
                    "predict", "label", p->source->label, "system", system_json(p), "forecast",
                    json_list(p->n, forecast_json, p), "measured",
                    json_list(p->source->n, measured_json, p));
}
