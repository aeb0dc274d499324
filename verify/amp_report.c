/* Prints the table of an AMP report, and writes its record. */
#include "verify/amp_report.h"

#include "base/file.h"
#include "base/json.h"
#include "verify/amp_parts.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>

enum { FINDING_MAX = 1024 };

/* A finished report. */
struct report {
    const struct amp_source *source;
    const struct amp_measurement *m;
    struct amp_finding finding;
    char text[FINDING_MAX];
};

static void print_row(FILE *out, const char *layer, const char *gradients,
                      const struct histogram *c, double scale)
{
    char headroom[16] = "-";
    const struct fp16_fate *one = &c->fate[SCALE_ONE], *now = &c->fate[SCALE_CURRENT];
    if (c->largest > 0)
        snprintf(headroom, sizeof headroom, "%.1f", histogram_headroom(c, scale));
    fprintf(out, "%-24s %-11s %12" PRId64 " %11.3f %11.3f %11.3f %11.3f %10.3g %8s\n", layer,
            gradients, c->nonzero, 100 * histogram_share(c, one->underflow),
            100 * histogram_share(c, now->underflow), 100 * histogram_share(c, one->subnormal),
            100 * histogram_share(c, now->subnormal), (double)c->largest, headroom);
}

static void print_table(const struct report *r, FILE *out)
{
    const struct amp_source *s = r->source;
    const struct amp_measurement *m = r->m;
    char now[24];
    snprintf(now, sizeof now, "at %.7g", s->scale);
    fprintf(out, "%s, %d px, batch %d, %d batch%s of %s in fp32 on %s\n", s->arch, s->image_size,
            s->batch, s->config->batches, s->config->batches == 1 ? "" : "es",
            s->data ? s->data : "noise", m->device);
    fprintf(out,
            "gradients as fp16 would store them: percent of the nonzero gradients that underflow "
            "to zero or become\nsubnormal, at loss scale 1 and at %.10g; the largest gradient; its "
            "bits before overflow at %.10g\n\n",
            s->scale, s->scale);
    fprintf(out, "%-24s %-11s %12s %11s %11s %11s %11s %10s %8s\n", "", "", "", "underflow", "",
            "subnormal", "", "", "headroom");
    fprintf(out, "%-24s %-11s %12s %11s %11s %11s %11s %10s %8s\n", "layer", "gradients", "nonzero",
            "at 1", now, "at 1", now, "largest", "bits");
    for (int i = 0; i < m->n; i++)
        for (int g = 0; g < GRADIENT_COUNT; g++)
            if (m->layer[i].histogram[g].values > 0)
                print_row(out, m->layer[i].name, gradient_str((enum gradient)g),
                          &m->layer[i].histogram[g], s->scale);
    for (int g = 0; g < GRADIENT_COUNT; g++)
        print_row(out, "total", gradient_str((enum gradient)g), &m->total[g], s->scale);
    print_row(out, "total", "all", &r->finding.all, s->scale);
    fprintf(out, "\n%s\n", r->text);
}

static json_t *fate_json(const struct fp16_fate *f)
{
    return json_pack("{s:I, s:I, s:I}", "underflow", (json_int_t)f->underflow, "subnormal",
                     (json_int_t)f->subnormal, "overflow", (json_int_t)f->overflow);
}

/* Makes the JSON of a histogram. "headroom_bits" is null if all values are zero. */
static json_t *histogram_json(const struct histogram *c, double scale)
{
    return json_pack(
        "{s:I, s:I, s:I, s:f, s:o, s:o, s:o}", "values", (json_int_t)c->values, "nonzero",
        (json_int_t)c->nonzero, "not_finite", (json_int_t)c->not_finite, "largest",
        (double)c->largest, "headroom_bits", json_finite(histogram_headroom(c, scale)), "at_one",
        fate_json(&c->fate[SCALE_ONE]), "at_scale", fate_json(&c->fate[SCALE_CURRENT]));
}

static json_t *layers_json(const struct report *r)
{
    json_t *layers = json_array();
    for (int i = 0; i < r->m->n; i++) {
        const struct amp_layer *l = &r->m->layer[i];
        json_t *o = json_pack("{s:s}", "layer", l->name);
        for (int g = 0; g < GRADIENT_COUNT; g++)
            if (l->histogram[g].values > 0)
                json_object_set_new(o, gradient_str((enum gradient)g),
                                    histogram_json(&l->histogram[g], r->source->scale));
        json_array_append_new(layers, o);
    }
    return layers;
}

/* Rows [exponent, activations, weights]: nonzero gradients per power of two, from the first
 * nonempty bin to the last. */
static json_t *bins_json(const struct amp_measurement *m)
{
    json_t *rows = json_array();
    const int64_t *a = m->total[GRADIENT_ACTIVATION].bin, *w = m->total[GRADIENT_WEIGHT].bin;
    int first = 0, end = HISTOGRAM_BINS;
    while (first < end && a[first] + w[first] == 0)
        first++;
    while (end > first && a[end - 1] + w[end - 1] == 0)
        end--;
    for (int b = first; b < end; b++)
        json_array_append_new(
            rows, json_pack("[i, I, I]", HISTOGRAM_LOW + b, (json_int_t)a[b], (json_int_t)w[b]));
    return rows;
}

/* The subject of the report. Paths may be arbitrary bytes, so text_json converts them. */
static json_t *subject_json(const struct amp_source *s)
{
    json_t *o = json_object();
    if (s->run) {
        json_object_set_new(o, "run", text_json(s->run->dir));
        json_object_set_new(o, "step", json_integer(s->state.step));
        json_object_set_new(o, "epoch", json_integer(s->state.epoch));
    }
    json_object_set_new(o, "weights", s->weights[0] ? text_json(s->weights) : json_null());
    json_object_set_new(o, "data", s->data ? text_json(s->data) : json_null());
    return o;
}

static enum status report_json(const struct report *r, json_t **out)
{
    const struct amp_source *s = r->source;
    const struct amp_finding *f = &r->finding;
    const struct histogram *total = r->m->total;
    return json_new(
        out,
        "{s:i, s:s, s:s, s:i, s:i, s:i, s:i, s:I, s:s, s:o, s:f, s:s, s:o, s:o, s:{s:o, s:o, s:o}, "
        "s:o, s:{s:b, s:f, s:I, s:s}}",
        "schema", AMP_REPORT_SCHEMA, "report", "amp", "arch", s->arch, "classes", r->m->classes,
        "image_size", s->image_size, "batch_size", s->batch, "batches", s->config->batches, "seed",
        (json_int_t)s->seed, "device", r->m->device, "subject", subject_json(s), "loss_scale",
        s->scale, "loss_scale_from", s->scale_from, "loss", json_finite(r->m->loss), "layers",
        layers_json(r), "total", "activations",
        histogram_json(&total[GRADIENT_ACTIVATION], s->scale), "weights",
        histogram_json(&total[GRADIENT_WEIGHT], s->scale), "all", histogram_json(&f->all, s->scale),
        "histogram", bins_json(r->m), "finding", "needs_scaler", f->needs_scaler,
        "recommended_scale", ldexp(1, f->exponent), "underflow", (json_int_t)f->still_lost, "text",
        r->text);
}

static enum status write_report(const struct report *r, const char *dir)
{
    FILE *out = r->source->config->stream;
    char path[4096];
    json_t *record;
    TRY(path_format(path, sizeof path, "%s/" AMP_REPORT_NAME, dir));
    TRY(report_json(r, &record));
    enum status st = json_write(json_incref(record), path, JSON_RECORD);
    if (st == STATUS_OK && r->source->config->json)
        st = json_print(json_incref(record), out, JSON_RECORD);
    else if (st == STATUS_OK)
        print_table(r, out);
    json_decref(record);
    return st;
}

static enum status choose_dir(const struct amp_source *s, char *out, size_t size)
{
    const struct amp_report_config *c = s->config;
    if (c->out)
        return path_format(out, size, "%s", c->out);
    if (c->run)
        return path_format(out, size, "%s/amp-report", c->run);
    return path_format(out, size, "amp-report-%s", s->arch);
}

enum status amp_report_run(const struct amp_report_config *c, char *out, size_t size)
{
    enum status st;
    struct amp_source source;
    struct amp_measurement m = {0};
    TRY(amp_source_open(&source, c));
    struct report r = {.source = &source, .m = &m};
    CHECK(choose_dir(&source, out, size));
    CHECK(amp_measure(&source, &m));
    r.finding = amp_judge(&m);
    amp_finding_text(&r.finding, source.scale, r.text, sizeof r.text);
    CHECK(dir_make(out));
    CHECK(write_report(&r, out));
done:
    amp_measurement_free(&m);
    amp_source_close(&source);
    return st;
}
