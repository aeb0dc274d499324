/* Makes an AMP report: reads the subject, decides whether its fp16 training needs a loss scaler and
 * which, prints the table, and writes the record. */
#include "verify/amp_report.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/scaler.h"
#include "model/policy.h"
#include "results/outcome.h"
#include "verify/amp_parts.h"

#include <inttypes.h>
#include <math.h>

/* --- the subject --- */

enum { BATCH_MAX = 65536 };

static enum status bad_setting(const struct run *run, const char *key)
{
    return status_fail(STATUS_DATA, "'%s/run.json': '%s' is missing or invalid", run->dir, key);
}

/* Sets *out to `given` or, if `given` is 0, to the run's setting. STATUS_DATA if out of range. */
static enum status choose_count(const struct run *run, const char *key, int given, int max,
                                int *out)
{
    int64_t v = given ? given : run_config_count(run, key, 0);
    if (v < 1 || v > max)
        return bad_setting(run, key);
    *out = (int)v;
    return STATUS_OK;
}

/* Finds the newest undamaged checkpoint. Prints a warning for a damaged checkpoint. */
static enum status find_checkpoint(struct amp_source *s)
{
    static const char *const names[] = {CHECKPOINT_NAME, CHECKPOINT_PREV_NAME};
    bool any = false, exists;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        TRY(path_format(s->weights, sizeof s->weights, "%s/%s", s->run->dir, names[i]));
        TRY(path_look(s->weights, &exists));
        if (!exists)
            continue;
        enum status st = checkpoint_state(s->weights, &s->state);
        if (st != STATUS_DATA)
            return st;
        fprintf(stderr, "ampscale: warning: %s\n", status_message());
        any = true;
    }
    return status_fail(STATUS_DATA, "the run in '%s' has no %scheckpoint%s", s->run->dir,
                       any ? "undamaged " : "",
                       any               ? ""
                       : s->run->summary ? ": it is complete, and kept none"
                                         : " yet; wait for the end of its first epoch");
}

/* Reads the run's settings: network, data, sizes. */
static enum status read_settings(struct amp_source *s)
{
    const struct amp_report_config *c = s->config;
    const struct run *run = s->run;
    int64_t seed = run_config_count(run, "seed", 0);
    double smoothing = json_number_value(run_config(run, "label_smoothing"));
    s->arch = run_config_text(run, "arch", NULL);
    if (!s->arch)
        return bad_setting(run, "arch");
    TRY(choose_count(run, "image_size", c->image_size, IMAGE_SIZE_MAX, &s->image_size));
    TRY(choose_count(run, "batch_size", c->batch, BATCH_MAX, &s->batch));
    TRY(choose_count(run, "classes", c->classes, CLASSES_MAX, &s->classes));
    if (!(smoothing >= 0 && smoothing <= 1))
        return bad_setting(run, "label_smoothing");
    s->label_smoothing = smoothing;
    if (seed < 0)
        return bad_setting(run, "seed");
    s->seed = c->seed < 0 ? (uint64_t)seed : (uint64_t)c->seed;
    s->data = c->data ? c->data : run_config_text(run, "data", NULL);
    if (!s->data && !json_is_true(run_config(run, "dummy")))
        return bad_setting(run, "data");
    return STATUS_OK;
}

static enum status open_run(struct amp_source *s)
{
    TRY(run_load(s->config->run, &s->run));
    outcome_note(s->run, stderr);
    TRY(read_settings(s));
    TRY(find_checkpoint(s));
    struct policy policy;
    if (json_is_object(run_config(s->run, "loss_scaling"))) {
        s->scale = s->state.scaler.scale;
        s->scale_from = "checkpoint";
        return STATUS_OK;
    }
    if (policy_find(run_config_text(s->run, "precision", "fp32"), -1, &policy) != STATUS_OK)
        return bad_setting(s->run, "precision");
    if (policy.activation == DTYPE_F16) {
        s->scale = 1;
        s->scale_from = "unscaled run";
    }
    return STATUS_OK;
}

static enum status take_flags(struct amp_source *s)
{
    const struct amp_report_config *c = s->config;
    s->arch = c->arch;
    s->data = c->data;
    s->image_size = c->image_size ? c->image_size : 224;
    s->batch = c->batch ? c->batch : 32;
    s->classes = c->classes ? c->classes : 1000;
    s->seed = c->seed < 0 ? 0 : (uint64_t)c->seed;
    return c->init ? path_format(s->weights, sizeof s->weights, "%s", c->init) : STATUS_OK;
}

static void source_close(struct amp_source *s)
{
    run_free(s->run);
    *s = (struct amp_source){0};
}

/* Reads and checks the run's folder, or the flags. On failure nothing stays open. */
static enum status source_open(struct amp_source *s, const struct amp_report_config *c)
{
    enum status st = STATUS_OK;
    struct scaler_rule scaler = scaler_default();
    *s = (struct amp_source){.config = c, .scale = scaler.init, .scale_from = "default"};
    CHECK(c->run ? open_run(s) : take_flags(s));
    if (c->loss_scale > 0) {
        s->scale = c->loss_scale;
        s->scale_from = "flag";
    }
done:
    if (st != STATUS_OK)
        source_close(s);
    return st;
}

/* --- the finding --- */

/* Finds the layer and kind of gradient with the largest fraction of underflow at scale 1. */
static void find_worst(const struct amp_measurement *m, struct amp_finding *f, double *share)
{
    *share = 0;
    for (int i = 0; i < m->n; i++) {
        for (int g = 0; g < GRADIENT_COUNT; g++) {
            const struct histogram *c = &m->layer[i].histogram[g];
            double lost = histogram_share(c, c->fate[SCALE_ONE].underflow);
            if (c->nonzero < LAYER_VALUES || lost <= *share)
                continue;
            *share = lost;
            f->worst = &m->layer[i];
            f->worst_gradient = (enum gradient)g;
        }
    }
}

/* floor(log2(x)), exactly. */
static int floor_log2(double x)
{
    int e;
    frexp(x, &e);
    return e - 1;
}

struct amp_finding amp_judge(const struct amp_measurement *m)
{
    struct amp_finding f = {.worst = NULL};
    double worst;
    for (int g = 0; g < GRADIENT_COUNT; g++)
        histogram_merge(&f.all, &m->total[g]);
    find_worst(m, &f, &worst);
    double lost = histogram_share(&f.all, f.all.fate[SCALE_ONE].underflow);
    f.needs_scaler = lost >= ALL_SHARE || worst >= LAYER_SHARE || f.all.fate[SCALE_ONE].overflow;
    if (f.needs_scaler) {
        int most = floor_log2(scaler_default().max);
        f.exponent = floor_log2(ldexp(FP16_LARGEST, -HEADROOM_BITS) / (double)f.all.largest);
        f.capped = f.exponent > most;
        f.exponent = f.capped ? most : f.exponent;
    }
    f.still_lost = histogram_underflow(&f.all, f.exponent);
    return f;
}

struct percent percent_of(double share)
{
    struct percent p;
    double x = 100 * share;
    if (x == 0)
        snprintf(p.text, sizeof p.text, "0 %%");
    else if (x < 0.001)
        snprintf(p.text, sizeof p.text, "under 0.001 %%");
    else
        snprintf(p.text, sizeof p.text, x < 1 ? "%.3f %%" : "%.1f %%", x);
    return p;
}

static void say_unscaled(const struct amp_finding *f, char *out, size_t size)
{
    const struct fp16_fate *fate = &f->all.fate[SCALE_ONE];
    text_append(out, size, "Without loss scaling fp16 loses %s of the nonzero gradients",
                percent_of(histogram_share(&f->all, fate->underflow)).text);
    if (f->worst) {
        const struct histogram *c = &f->worst->histogram[f->worst_gradient];
        text_append(out, size, ", and %s of the %s of '%s', the most affected layer",
                    percent_of(histogram_share(c, c->fate[SCALE_ONE].underflow)).text,
                    gradient_str(f->worst_gradient), f->worst->name);
    }
    if (fate->overflow)
        text_append(out, size, "; %" PRId64 " gradients overflow without scaling", fate->overflow);
    text_append(out, size, ": this network needs %s loss scaler.", f->needs_scaler ? "a" : "no");
}

static void say_current(const struct amp_finding *f, double scale, char *out, size_t size)
{
    const struct fp16_fate *fate = &f->all.fate[SCALE_CURRENT];
    if (scale == 1)
        text_append(out, size, " The current scale is 1.");
    else if (fate->overflow)
        text_append(out, size, " The current scale, %.10g, makes %" PRId64 " gradient%s overflow.",
                    scale, fate->overflow, fate->overflow == 1 ? "" : "s");
    else
        text_append(out, size,
                    " At the current scale, %.10g, fp16 loses %s, and the largest gradient is %.1f "
                    "bits below overflow.",
                    scale, percent_of(histogram_share(&f->all, fate->underflow)).text,
                    histogram_headroom(&f->all, scale));
}

static void say_recommended(const struct amp_finding *f, char *out, size_t size)
{
    text_append(out, size, " Recommended: %.10g (2^%d), the largest power of two ",
                ldexp(1, f->exponent), f->exponent);
    if (f->capped)
        text_append(out, size, "that dynamic scaling can reach");
    else
        text_append(out, size, "that leaves %d bits before overflow", HEADROOM_BITS);
    text_append(out, size, "; %s would still be lost.",
                percent_of(histogram_share(&f->all, f->still_lost)).text);
}

void amp_finding_text(const struct amp_finding *f, double scale, char *out, size_t size)
{
    *out = '\0';
    if (f->all.not_finite) {
        text_append(out, size,
                    "%" PRId64 " gradients are infinite or NaN even in fp32: no loss scale helps; "
                    "these weights have diverged.",
                    f->all.not_finite);
        return;
    }
    if (f->all.nonzero == 0) {
        text_append(out, size, "Every gradient is zero: the loss scale has no effect.");
        return;
    }
    say_unscaled(f, out, size);
    say_current(f, scale, out, size);
    if (f->needs_scaler)
        say_recommended(f, out, size);
}

/* --- the table and the record --- */

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
    char now[24], data[4096];
    snprintf(now, sizeof now, "at %.7g", s->scale);
    text_clean(data, sizeof data, s->data ? s->data : "noise");
    fprintf(out, "%s, %d px, batch %d, %d batch%s of %s in fp32 on %s\n", s->arch, s->image_size,
            s->batch, s->config->batches, s->config->batches == 1 ? "" : "es", data, m->device);
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
    return json_new("{s:I, s:I, s:I}", "underflow", (json_int_t)f->underflow, "subnormal",
                    (json_int_t)f->subnormal, "overflow", (json_int_t)f->overflow);
}

/* Makes the JSON of a histogram. "headroom_bits" is null if all values are zero. */
static json_t *histogram_json(const struct histogram *c, double scale)
{
    return json_new("{s:I, s:I, s:I, s:f, s:f, s:o, s:o}", "values", (json_int_t)c->values,
                    "nonzero", (json_int_t)c->nonzero, "not_finite", (json_int_t)c->not_finite,
                    "largest", (double)c->largest, "headroom_bits", histogram_headroom(c, scale),
                    "at_one", fate_json(&c->fate[SCALE_ONE]), "at_scale",
                    fate_json(&c->fate[SCALE_CURRENT]));
}

static json_t *layers_json(const struct report *r)
{
    json_t *layers = json_array();
    for (int i = 0; i < r->m->n; i++) {
        const struct amp_layer *l = &r->m->layer[i];
        json_t *o = json_new("{s:s}", "layer", l->name);
        for (int g = 0; g < GRADIENT_COUNT; g++)
            if (l->histogram[g].values > 0)
                json_put(o, gradient_str((enum gradient)g),
                         histogram_json(&l->histogram[g], r->source->scale));
        json_add(layers, o);
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
        json_add(rows,
                 json_new("[i, I, I]", HISTOGRAM_LOW + b, (json_int_t)a[b], (json_int_t)w[b]));
    return rows;
}

/* The subject of the report. Paths may be arbitrary bytes, so text_json converts them. */
static json_t *subject_json(const struct amp_source *s)
{
    json_t *o = json_object();
    if (s->run) {
        json_put(o, "run", text_json(s->run->dir));
        json_put(o, "step", json_integer(s->state.step));
        json_put(o, "epoch", json_integer(s->state.epoch));
    }
    json_put(o, "weights", s->weights[0] ? text_json(s->weights) : json_null());
    json_put(o, "data", s->data ? text_json(s->data) : json_null());
    return o;
}

static json_t *report_json(const struct report *r)
{
    const struct amp_source *s = r->source;
    const struct amp_finding *f = &r->finding;
    const struct histogram *total = r->m->total;
    return json_new(
        "{s:i, s:s, s:s, s:i, s:i, s:i, s:i, s:I, s:s, s:o, s:f, s:s, s:f, s:o, s:{s:o, s:o, s:o}, "
        "s:o, s:{s:b, s:f, s:I, s:s}}",
        "schema", AMP_REPORT_SCHEMA, "report", "amp", "arch", s->arch, "classes", r->m->classes,
        "image_size", s->image_size, "batch_size", s->batch, "batches", s->config->batches, "seed",
        (json_int_t)s->seed, "device", r->m->device, "subject", subject_json(s), "loss_scale",
        s->scale, "loss_scale_from", s->scale_from, "loss", r->m->loss, "layers", layers_json(r),
        "total", "activations", histogram_json(&total[GRADIENT_ACTIVATION], s->scale), "weights",
        histogram_json(&total[GRADIENT_WEIGHT], s->scale), "all", histogram_json(&f->all, s->scale),
        "histogram", bins_json(r->m), "finding", "needs_scaler", f->needs_scaler,
        "recommended_scale", ldexp(1, f->exponent), "underflow", (json_int_t)f->still_lost, "text",
        r->text);
}

static enum status write_report(const struct report *r, const char *dir)
{
    FILE *out = r->source->config->stream;
    json_t *record = report_json(r);
    enum status st = json_write(json_incref(record), JSON_RECORD, "%s/" AMP_REPORT_NAME, dir);
    if (st == STATUS_OK && r->source->config->json)
        json_print(json_incref(record), out, JSON_RECORD);
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
    TRY(source_open(&source, c));
    struct report r = {.source = &source, .m = &m};
    CHECK(choose_dir(&source, out, size));
    CHECK(amp_measure(&source, &m));
    r.finding = amp_judge(&m);
    amp_finding_text(&r.finding, source.scale, r.text, sizeof r.text);
    CHECK(dir_make(out));
    CHECK(write_report(&r, out));
done:
    amp_measurement_free(&m);
    source_close(&source);
    return st;
}
