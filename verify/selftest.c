/* Runs and reports the cases of a suite. The suite of oracles: compares computed values with those
 * of an oracle, and reports the differences. */
#include "verify/selftest.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "kernels/backend.h"
#include "verify/oracle.h"
#include "verify/worker.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

/* --- a suite --- */

bool suite_begin_case(struct suite *s)
{
    s->begun_ns = clock_ns();
    bool fits = s->due_ns == 0 || s->begun_ns + s->slowest_ns < s->due_ns;
    s->left_out += s->broken || !fits;
    return !s->broken && fits;
}

void suite_end_case(struct suite *s, enum status st)
{
    uint64_t ns = clock_ns() - s->begun_ns;
    s->ran++;
    s->failed += st != STATUS_OK;
    s->slowest_ns = ns > s->slowest_ns ? ns : s->slowest_ns;
    bar_step(s->config->bar);
    if (st == STATUS_OK || st == STATUS_MISMATCH)
        return;
    first_failure_keep(&s->error, st);
    s->broken = worker_try(s->dev) != STATUS_OK;
}

static const char *why_left_out(const struct suite *s)
{
    return s->broken ? "the device does not work after an error" : "the time limit is reached";
}

/* Prints the results of a suite; `lines` is the text of its cases. */
static void suite_report(const struct suite *s, const char *lines, const char *verdict)
{
    const struct selftest_config *config = s->config;
    char about[256];
    s->dev->backend->describe(s->dev, about, sizeof about);
    if (config->json) {
        json_t *all = json_new("{s:i, s:s, s:s, s:b, s:i, s:O}", "schema", 1, "device", about,
                               "conv_algorithm", conv_algorithm_str(config->conv_algorithm), "ok",
                               s->failed == 0 && s->left_out == 0, "left_out", s->left_out, "cases",
                               s->report);
        json_print(all, config->out, JSON_RECORD);
        return;
    }
    fprintf(config->out, "%d of %d cases %s on %s", s->ran - s->failed, s->ran, verdict, about);
    if (s->left_out)
        fprintf(config->out, "; cases left out: %d, because %s", s->left_out, why_left_out(s));
    fprintf(config->out, "\n%s", lines);
    fflush(config->out); /* so that this text comes before the verdict on stderr */
}

static enum status suite_verdict(const struct suite *s, const char *verdict)
{
    TRY(first_failure_return(&s->error));
    if (s->failed)
        return status_fail(
            STATUS_MISMATCH,
            "selftest: %d of %d cases do not %s; the results of this device cannot be trusted",
            s->failed, s->ran, verdict);
    if (s->left_out)
        return status_fail(STATUS_DATA, "selftest: %d of %d cases are left out, because %s",
                           s->left_out, s->ran + s->left_out, why_left_out(s));
    return STATUS_OK;
}

enum status suite_run(const struct selftest_config *config, suite_cases *run, void *context,
                      const char *verdict)
{
    enum status st;
    struct suite s = {.config = config};
    char *lines = NULL;
    size_t size;
    if (config->limit_s)
        s.due_ns = clock_ns() + (uint64_t)config->limit_s * 1000000000u;
    s.report = json_array();
    CHECK(device_open(config->devices, config->threads, &s.dev));
    CHECK(device_choose_conv(s.dev, config->conv_algorithm, DTYPE_F32));
    s.lines = open_memstream(&lines, &size);
    if (!s.lines)
        CHECK(status_fail(STATUS_OOM, "no memory for the lines of the cases"));
    CHECK(run(&s, context));
    fflush(s.lines);
    suite_report(&s, lines, verdict);
    st = suite_verdict(&s, verdict);
done:
    bar_erase(config->bar);
    if (s.lines)
        fclose(s.lines);
    free(lines);
    json_decref(s.report);
    device_close(s.dev);
    return st;
}

/* --- the oracles --- */

extern const unsigned char oracles_json[];
extern const size_t oracles_json_size;

/* Tolerances of a family of values (selftest.h). The largest tolerance applies. PyTorch's error is
 * the distance of its fp32 results from its fp64 results. The drift is this error relative to the
 * fp64 results. */
#define RELATIVE_FP64    1e-4 /* times the fp64 value */
#define TIMES_FP32_ERROR 3.0  /* times PyTorch's own fp32 error or drift */
#define TIMES_FP32_DRIFT 10.0 /* times PyTorch's own fp32 drift, for the gradient norm */
#define RELATIVE_FP32    1e-3 /* times the fp32 value, if there is no fp64 value */

/* One number as the oracle, PyTorch's fp32 run and the device computed it; `fp32` is NaN if there
 * was no such run. */
struct triple {
    char name[96];
    double want, fp32, got;
};

/* Values that are judged together. */
struct family {
    char name[48];
    size_t n;
    struct triple *value;
    enum status status; /* the first failure of family_add */
};

/* The comparison of one case. */
struct verdict {
    const struct selftest_config *config;
    FILE *lines;
    bool exact_reference;      /* the oracle's values are fp64 */
    json_t *values, *families; /* for JSON output */
    int n, failed;
    double worst; /* largest ratio of a family's error to its tolerance */
    char worst_name[48];
};

static double number(const json_t *x)
{
    return json_is_number(x) ? json_number_value(x) : NAN;
}

PRINTF_LIKE(5, 6)
static void family_add(struct family *f, const json_t *want, const json_t *fp32, const json_t *got,
                       const char *fmt, ...)
{
    if (f->status == STATUS_OK)
        f->status = array_reserve(&f->value, f->n);
    if (f->status != STATUS_OK)
        return;
    struct triple *t = &f->value[f->n++];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t->name, sizeof t->name, fmt, ap);
    va_end(ap);
    t->want = number(want);
    t->fp32 = number(fp32);
    t->got = number(got);
}

/* Euclidean norms over a family: of the oracle's values, of the device's error, and of the error of
 * PyTorch's fp32 run. */
struct distance {
    double want, error, fp32;
};

static struct distance family_measure(const struct family *f)
{
    struct distance d = {0};
    for (size_t i = 0; i < f->n; i++) {
        const struct triple *t = &f->value[i];
        d.want += t->want * t->want;
        d.error += (t->got - t->want) * (t->got - t->want);
        d.fp32 += (t->fp32 - t->want) * (t->fp32 - t->want);
    }
    return (struct distance){sqrt(d.want), sqrt(d.error), sqrt(d.fp32)};
}

static void print_values(struct verdict *v, const struct family *f)
{
    for (size_t i = 0; i < f->n && (v->config->json || v->config->verbose); i++) {
        const struct triple *t = &f->value[i];
        double error = fabs(t->got - t->want);
        if (v->config->json)
            json_add(v->values, json_new("{s:s, s:s, s:f, s:f, s:f}", "name", t->name, "family",
                                         f->name, "got", t->got, "want", t->want, "error", error));
        else
            fprintf(v->lines, "    %-46s got %- 15.9g want %- 15.9g error %.1e\n", t->name, t->got,
                    t->want, error);
    }
}

static void print_family(struct verdict *v, const struct family *f, const struct distance *d,
                         double tolerance, bool ok)
{
    print_values(v, f);
    if (v->config->json)
        json_add(v->families,
                 json_new("{s:s, s:i, s:f, s:f, s:f, s:b}", "name", f->name, "values", (int)f->n,
                          "norm", d->want, "error", d->error, "tolerance", tolerance, "ok", ok));
    else if (v->config->verbose || !ok)
        fprintf(v->lines, "  %-4s %-14s %4zu value%s of norm %.6g, error %.2e, tolerance %.2e\n",
                ok ? "ok" : "FAIL", f->name, f->n, f->n == 1 ? " " : "s", d->want, d->error,
                tolerance);
}

/* Judges a family and frees its memory. If `exact` is true, no error is allowed; otherwise a
 * relative error up to `drift` is always allowed. */
static void family_judge(struct verdict *v, struct family *f, double drift, bool exact)
{
    struct distance d = family_measure(f);
    double tolerance = (v->exact_reference ? RELATIVE_FP64 : RELATIVE_FP32) * d.want;
    if (v->exact_reference && isfinite(d.fp32))
        tolerance = fmax(tolerance, TIMES_FP32_ERROR * d.fp32);
    tolerance = fmax(tolerance, drift * d.want);
    if (exact)
        tolerance = 0;
    bool ok = f->status == STATUS_OK && f->n > 0 && d.error <= tolerance; /* false for NaN */
    double share = ok && tolerance == 0 ? 0 : d.error / tolerance;
    v->n += (int)f->n;
    v->failed += !ok;
    if (!(share <= v->worst)) {
        v->worst = share;
        snprintf(v->worst_name, sizeof v->worst_name, "%s", f->name);
    }
    print_family(v, f, &d, tolerance, ok);
    free(f->value);
}

/* Adds the values under `key` in the steps from `first` to `end` - 1. */
static void gather_series(struct family *f, const char *key, size_t first, size_t end,
                          const json_t *want, const json_t *fp32, const json_t *got)
{
    snprintf(f->name, sizeof f->name, "%s", key);
    for (size_t i = first; i < end && i < json_array_size(want); i++) {
        const json_t *w = json_object_get(json_array_get(want, i), key);
        if (w)
            family_add(f, w, json_object_get(json_array_get(fp32, i), key),
                       json_object_get(json_array_get(got, i), key), "step[%zu].%s", i, key);
    }
}

/* Returns the relative difference between PyTorch's gradient norms in fp32 and in fp64; 0: unknown.
 */
static double gradient_drift(const json_t *want, const json_t *fp32)
{
    struct family f = {0};
    gather_series(&f, "grad_norm", 0, SIZE_MAX, want, fp32, NULL);
    struct distance d = family_measure(&f);
    free(f.value);
    return f.n && d.want > 0 && isfinite(d.fp32) ? d.fp32 / d.want : 0;
}

/* Compares the steps' top-1, top-5, losses and norms. */
static void compare_steps(struct verdict *v, const json_t *want, const json_t *fp32,
                          const json_t *got)
{
    static const struct {
        const char *key;
        bool counts; /* the values are counts: compared only at the first step, and must be equal */
        double times_drift; /* allowed error as a multiple of PyTorch's fp32 drift */
    } series[] = {
        {"top1", true, 0},
        {"top5", true, 0},
        {"loss", false, TIMES_FP32_ERROR},
        {"grad_norm", false, TIMES_FP32_DRIFT},
        {"weight_norm", false, 0},
    };
    double drift = gradient_drift(want, fp32);
    for (size_t k = 0; k < sizeof series / sizeof *series; k++) {
        struct family f = {0}, later = {0};
        size_t judged = series[k].counts ? 1 : SIZE_MAX;
        gather_series(&f, series[k].key, 0, judged, want, fp32, got);
        if (f.n)
            family_judge(v, &f, series[k].times_drift * drift, series[k].counts);
        gather_series(&later, series[k].key, judged, SIZE_MAX, want, fp32, got);
        if (later.n)
            print_values(v, &later);
        free(later.value);
    }
}

/* Compares a list or an object of numbers. */
static void compare_vector(struct verdict *v, const char *name, const json_t *want,
                           const json_t *fp32, const json_t *got)
{
    struct family f = {0};
    size_t i;
    const char *key;
    const json_t *x;
    snprintf(f.name, sizeof f.name, "%s", name);
    if (json_is_array(want)) {
        json_array_foreach(want, i, x)
        {
            family_add(&f, x, json_array_get(fp32, i), json_array_get(got, i), "%s[%zu]", name, i);
        }
    } else {
        json_object_foreach((json_t *)want, key, x)
        {
            family_add(&f, x, json_object_get(fp32, key), json_object_get(got, key), "%s.%s", name,
                       key);
        }
    }
    if (f.n)
        family_judge(v, &f, 0, false);
}

static void compare_case(struct verdict *v, const json_t *want, const json_t *fp32,
                         const json_t *got)
{
    static const char *const vectors[] = {"logits_row0", "grad_norms"};
    const json_t *ws = json_object_get(want, "step"), *fs = json_object_get(fp32, "step"),
                 *gs = json_object_get(got, "step");
    struct family params = {.name = "params"};
    if (json_object_get(want, "params")) {
        family_add(&params, json_object_get(want, "params"), NULL, json_object_get(got, "params"),
                   "params");
        family_judge(v, &params, 0, true);
    }
    compare_steps(v, ws, fs, gs);
    for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++)
        compare_vector(v, vectors[k], json_object_get(json_array_get(ws, 0), vectors[k]),
                       json_object_get(json_array_get(fs, 0), vectors[k]),
                       json_object_get(json_array_get(gs, 0), vectors[k]));
    compare_vector(v, "buffer_norms", json_object_get(want, "buffer_norms"),
                   json_object_get(fp32, "buffer_norms"), json_object_get(got, "buffer_norms"));
}

/* `error`: message of the error that ended the case, or NULL. */
static void print_case(const struct verdict *v, const struct oracle_case *c, const char *error)
{
    bool failed = v->failed || error;
    if (!failed && !v->config->verbose)
        return;
    fprintf(v->lines,
            "%s  %s, %d classes, %d px, batch %d, %d %s step%s%s%s%s%s: ", failed ? "FAIL" : "PASS",
            c->arch, c->classes, c->size, c->batch, c->steps, c->train ? "training" : "evaluation",
            c->steps == 1 ? "" : "s", c->label_smoothing > 0 ? ", label smoothing" : "",
            c->mix ? ", mixup" : "", c->clip_grad_norm > 0 ? ", clipped gradient" : "",
            c->norm_weight_decay >= 0 ? ", other decay of norms" : "");
    if (error)
        fprintf(v->lines, "error: %s\n", error);
    else
        fprintf(v->lines, "%d values against %s, worst %.2f of its tolerance (%s)\n", v->n,
                v->exact_reference ? "fp64" : "fp32", v->worst, v->worst_name);
}

static json_t *case_json(const struct verdict *v, const struct oracle_case *c, bool passed,
                         const char *error)
{
    return json_new("{s:s, s:i, s:i, s:i, s:i, s:s, s:s, s:b, s:s*, s:O, s:O}", "arch", c->arch,
                    "classes", c->classes, "size", c->size, "batch", c->batch, "steps", c->steps,
                    "mode", c->train ? "train" : "eval", "against", c->fp64 ? "fp64" : "fp32", "ok",
                    passed, "error", error, "families", v->families, "values", v->values);
}

/* Runs case `number`, and reports it. `fp32`: the same case in PyTorch's fp32, or NULL. */
static void run_case(struct suite *suite, const struct oracle_case *c, size_t number,
                     const json_t *want, const json_t *fp32)
{
    json_t *got = NULL;
    const struct selftest_config *config = suite->config;
    struct verdict v = {.config = config,
                        .lines = suite->lines,
                        .exact_reference = c->fp64,
                        .values = json_array(),
                        .families = json_array()};
    const char *error = NULL;
    enum status st = oracle_compute(suite->dev, c, &got);
    if (st == STATUS_OK) {
        compare_case(&v, want, fp32, got);
        if (v.failed || v.n == 0)
            st = STATUS_MISMATCH;
    } else {
        st = status_context(st, "case %zu", number);
        error = status_message();
    }
    if (config->json)
        json_add(suite->report, case_json(&v, c, st == STATUS_OK, error));
    else
        print_case(&v, c, error);
    suite_end_case(suite, st);
    json_decref(got);
    json_decref(v.families);
    json_decref(v.values);
}

static enum status load_oracles(const struct selftest_config *config, json_t **cases)
{
    const char *name = config->oracle ? config->oracle : "built-in oracles";
    if (config->oracle)
        TRY(json_read(name, (size_t)1 << 28, cases));
    else
        TRY(json_parse((const char *)oracles_json, oracles_json_size, name, cases));
    if (json_array_size(*cases) > 0)
        return STATUS_OK;
    json_decref(*cases);
    *cases = NULL;
    return status_fail(STATUS_DATA, "'%s' is not an oracle file: it has no list of cases", name);
}

/* If case i is an fp64 case and has an fp32 form, sets *fp32 to the fp32 form; otherwise to NULL.
 * Sets *redundant if case i is itself the fp32 form of an fp64 case. A redundant case is not run
 * alone. */
static enum status find_twin(const json_t *cases, size_t i, const struct oracle_case *c,
                             const json_t **fp32, bool *redundant)
{
    size_t j;
    const json_t *x;
    *fp32 = NULL;
    *redundant = false;
    json_array_foreach(cases, j, x)
    {
        struct oracle_case o;
        TRY(oracle_read(x, &o));
        if (j == i || !oracle_same(c, &o) || o.fp64 == c->fp64)
            continue;
        if (o.fp64)
            *redundant = true;
        else
            *fp32 = x;
    }
    return STATUS_OK;
}

/* Reads case i, finds its fp32 form (*fp32; NULL: none), and chooses whether to run the case. */
static enum status choose_case(const struct selftest_config *config, const json_t *cases, size_t i,
                               struct oracle_case *c, const json_t **fp32, bool *chosen)
{
    bool redundant;
    TRY(oracle_read(json_array_get(cases, i), c));
    TRY(find_twin(cases, i, c, fp32, &redundant));
    *chosen = !redundant && !(config->quick && c->size > 64);
    return STATUS_OK;
}

static enum status run_cases(struct suite *suite, void *context)
{
    const json_t *cases = context, *fp32;
    const struct selftest_config *config = suite->config;
    size_t n = json_array_size(cases);
    struct oracle_case c;
    bool chosen;
    int total = 0;
    for (size_t i = 0; i < n; i++) {
        TRY(choose_case(config, cases, i, &c, &fp32, &chosen));
        total += chosen;
    }
    bar_begin(config->bar, total);
    for (size_t i = 0; i < n; i++) {
        TRY(choose_case(config, cases, i, &c, &fp32, &chosen));
        if (chosen && suite_begin_case(suite))
            run_case(suite, &c, i, json_array_get(cases, i), fp32);
    }
    if (suite->ran == 0)
        return status_fail(STATUS_DATA, "no case was run, so none has passed");
    return STATUS_OK;
}

enum status selftest_run(const struct selftest_config *config)
{
    json_t *cases;
    TRY(load_oracles(config, &cases));
    enum status st = suite_run(config, run_cases, cases, "hold");
    json_decref(cases);
    return st;
}
