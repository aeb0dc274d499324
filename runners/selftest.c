/* Comparing computed values with an oracle's, and saying how far each is. */
#include "runners/selftest.h"

#include "base/file.h"
#include "kernels/backend.h"
#include "runners/oracle.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

extern const unsigned char oracles_json[];
extern const size_t oracles_json_size;

/* The rule by which a value holds. */
#define RELATIVE_FP64    1e-4 /* of the fp64 value */
#define TIMES_FP32_ERROR 3.0  /* or so often PyTorch's own fp32 error */
#define TIMES_FP32_DRIFT 10.0 /* or, for the gradient's norm, so often that */
#define RELATIVE_FP32    1e-3 /* of the fp32 value, where no fp64 value exists */

/* One number on its three sides; fp32 is NaN where there is no such run. */
struct triple {
    char name[96];
    double want, fp32, got;
};

/* Values that are judged together. */
struct family {
    char name[48];
    size_t n, cap;
    struct triple *value;
    bool no_memory;
};

/* The comparison of one case. */
struct verdict {
    const struct selftest_config *config;
    bool exact_reference;      /* the wanted values are fp64 */
    json_t *values, *families; /* what JSON output prints */
    int n, failed;
    double worst; /* largest share of a tolerance that was used */
    char worst_name[48];
};

static double number(const json_t *x)
{
    return json_is_number(x) ? json_number_value(x) : NAN;
}

static void family_add(struct family *f, const json_t *want, const json_t *fp32, const json_t *got,
                       const char *fmt, ...) PRINTF_LIKE(5, 6);

static void family_add(struct family *f, const json_t *want, const json_t *fp32, const json_t *got,
                       const char *fmt, ...)
{
    if (f->n == f->cap) {
        size_t cap = f->cap ? 2 * f->cap : 64;
        struct triple *more = realloc(f->value, cap * sizeof *more);
        if (!more) {
            f->no_memory = true;
            return;
        }
        f->value = more;
        f->cap = cap;
    }
    struct triple *t = &f->value[f->n++];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t->name, sizeof t->name, fmt, ap);
    va_end(ap);
    t->want = number(want);
    t->fp32 = number(fp32);
    t->got = number(got);
}

/* Euclidean norms of a family: of what is wanted, of the error, of PyTorch's own fp32 error. */
struct distance {
    double want, error, fp32;
};

static struct distance measure(const struct family *f)
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

static json_t *real_or_null(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static void print_values(struct verdict *v, const struct family *f)
{
    for (size_t i = 0; i < f->n && (v->config->json || v->config->verbose); i++) {
        const struct triple *t = &f->value[i];
        double error = fabs(t->got - t->want);
        if (v->config->json)
            json_array_append_new(v->values,
                                  json_pack("{s:s, s:s, s:o, s:o, s:o}", "name", t->name, "family",
                                            f->name, "got", real_or_null(t->got), "want",
                                            real_or_null(t->want), "error", real_or_null(error)));
        else
            fprintf(v->config->out, "    %-46s got %- 15.9g want %- 15.9g error %.1e\n", t->name,
                    t->got, t->want, error);
    }
}

static void print_family(struct verdict *v, const struct family *f, const struct distance *d,
                         double tolerance, bool ok)
{
    print_values(v, f);
    if (v->config->json)
        json_array_append_new(v->families,
                              json_pack("{s:s, s:i, s:o, s:o, s:o, s:b}", "name", f->name, "values",
                                        (int)f->n, "norm", real_or_null(d->want), "error",
                                        real_or_null(d->error), "tolerance",
                                        real_or_null(tolerance), "ok", ok));
    else if (v->config->verbose || !ok)
        fprintf(
            v->config->out, "  %-4s %-14s %4zu value%s of norm %.6g, error %.2e, tolerance %.2e\n",
            ok ? "ok" : "FAIL", f->name, f->n, f->n == 1 ? " " : "s", d->want, d->error, tolerance);
}

/* Judges a family and frees its memory. drift: relative error that is allowed in any case; exact:
 * none is. */
static void judge(struct verdict *v, struct family *f, double drift, bool exact)
{
    struct distance d = measure(f);
    double tolerance = (v->exact_reference ? RELATIVE_FP64 : RELATIVE_FP32) * d.want;
    if (v->exact_reference && isfinite(d.fp32))
        tolerance = fmax(tolerance, TIMES_FP32_ERROR * d.fp32);
    tolerance = fmax(tolerance, drift * d.want);
    if (exact)
        tolerance = 0;
    bool ok = !f->no_memory && f->n > 0 && d.error <= tolerance; /* false for NaN */
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

/* Gathers a key of the steps from `first` up to, not including, `end`. */
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

/* How far PyTorch's fp32 gradient norms have drifted from its fp64 ones; 0 when not known. */
static double gradient_drift(const json_t *want, const json_t *fp32)
{
    struct family f = {0};
    gather_series(&f, "grad_norm", 0, SIZE_MAX, want, fp32, NULL);
    struct distance d = measure(&f);
    free(f.value);
    return f.n && d.want > 0 && isfinite(d.fp32) ? d.fp32 / d.want : 0;
}

/* The steps' top-1, top-5, losses and norms. */
static void compare_steps(struct verdict *v, const json_t *want, const json_t *fp32,
                          const json_t *got)
{
    static const struct {
        const char *key;
        bool counts;        /* exact, and judged at the first step only */
        double times_drift; /* of PyTorch's fp32 that are allowed besides */
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
            judge(v, &f, series[k].times_drift * drift, series[k].counts);
        gather_series(&later, series[k].key, judged, SIZE_MAX, want, fp32, got);
        if (later.n)
            print_values(v, &later);
        free(later.value);
    }
}

/* A list or an object of numbers. */
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
        judge(v, &f, 0, false);
}

static void compare(struct verdict *v, const json_t *want, const json_t *fp32, const json_t *got)
{
    static const char *const vectors[] = {"logits_row0", "grad_norms"};
    const json_t *ws = json_object_get(want, "step"), *fs = json_object_get(fp32, "step"),
                 *gs = json_object_get(got, "step");
    struct family params = {.name = "params"};
    if (json_object_get(want, "params")) {
        family_add(&params, json_object_get(want, "params"), NULL, json_object_get(got, "params"),
                   "params");
        judge(v, &params, 0, true);
    }
    compare_steps(v, ws, fs, gs);
    for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++)
        compare_vector(v, vectors[k], json_object_get(json_array_get(ws, 0), vectors[k]),
                       json_object_get(json_array_get(fs, 0), vectors[k]),
                       json_object_get(json_array_get(gs, 0), vectors[k]));
    compare_vector(v, "buffer_norms", json_object_get(want, "buffer_norms"),
                   json_object_get(fp32, "buffer_norms"), json_object_get(got, "buffer_norms"));
}

static void print_case(const struct selftest_config *config, const struct verdict *v,
                       const struct oracle_case *c)
{
    fprintf(config->out,
            "%s  %s, %d classes, %d px, batch %d, %d %s step%s%s: %d values against %s, worst %.2f "
            "of its tolerance (%s)\n",
            v->failed ? "FAIL" : "PASS", c->arch, c->classes, c->size, c->batch, c->steps,
            c->train ? "training" : "evaluation", c->steps == 1 ? "" : "s",
            c->label_smoothing > 0 ? ", label smoothing" : "", v->n,
            v->exact_reference ? "fp64" : "fp32", v->worst, v->worst_name);
    fflush(config->out);
}

/* fp32: the same case in PyTorch's fp32, or NULL. */
static enum status run_case(const struct selftest_config *config, struct device *dev,
                            const struct oracle_case *c, const json_t *want, const json_t *fp32,
                            json_t *report, bool *passed)
{
    enum status st;
    json_t *got = NULL;
    struct verdict v = {.config = config,
                        .exact_reference = c->fp64,
                        .values = json_array(),
                        .families = json_array()};
    CHECK(oracle_compute(dev, c, &got));
    if (!config->json && config->verbose)
        fprintf(config->out, "%s, %d px, batch %d\n", c->arch, c->size, c->batch);
    compare(&v, want, fp32, got);
    *passed = v.failed == 0 && v.n > 0;
    if (config->json)
        json_array_append_new(
            report,
            json_pack("{s:s, s:i, s:i, s:i, s:i, s:s, s:s, s:b, s:O, s:O}", "arch", c->arch,
                      "classes", c->classes, "size", c->size, "batch", c->batch, "steps", c->steps,
                      "mode", c->train ? "train" : "eval", "against", c->fp64 ? "fp64" : "fp32",
                      "ok", *passed, "families", v.families, "values", v.values));
    else
        print_case(config, &v, c);
done:
    json_decref(got);
    json_decref(v.families);
    json_decref(v.values);
    return st;
}

static enum status load(const struct selftest_config *config, json_t **cases)
{
    json_error_t e;
    char *text = NULL;
    size_t size = oracles_json_size;
    if (config->oracle)
        TRY(file_read(config->oracle, (size_t)1 << 28, &text, &size));
    *cases = json_loadb(text ? text : (const char *)oracles_json, size, 0, &e);
    free(text);
    const char *name = config->oracle ? config->oracle : "built-in oracles";
    if (!*cases)
        return status_fail(STATUS_DATA, "'%s' is not JSON: line %d: %s", name, e.line, e.text);
    if (json_is_array(*cases) && json_array_size(*cases) > 0)
        return STATUS_OK;
    json_decref(*cases);
    *cases = NULL;
    return status_fail(STATUS_DATA, "'%s' is not an oracle file: it is no list of cases", name);
}

/* The fp32 twin of case i, or NULL. A case in fp32 that has an fp64 twin is that twin's business:
 * *redundant says so. */
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

/* What ran and how it went. */
struct tally {
    int ran, failed;
};

static enum status run_all(const struct selftest_config *config, struct device *dev,
                           const json_t *cases, json_t *report, struct tally *t)
{
    size_t i;
    const json_t *x;
    json_array_foreach(cases, i, x)
    {
        struct oracle_case c;
        const json_t *fp32;
        bool redundant, passed = false;
        TRY(oracle_read(x, &c));
        TRY(find_twin(cases, i, &c, &fp32, &redundant));
        if (redundant || (config->quick && c.size > 64))
            continue;
        enum status st = run_case(config, dev, &c, x, fp32, report, &passed);
        if (st != STATUS_OK)
            return status_context(st, "case %zu", i);
        t->ran++;
        t->failed += !passed;
    }
    if (t->ran == 0)
        return status_fail(STATUS_DATA, "no case was run: what was not computed did not pass");
    return STATUS_OK;
}

enum status selftest_run(const struct selftest_config *config)
{
    enum status st;
    struct device *dev = NULL;
    struct tally t = {0};
    json_t *cases = NULL, *report = json_array();
    char about[256];
    CHECK(load(config, &cases));
    CHECK(device_open(config->devices, config->threads, &dev));
    dev->backend->describe(dev, about, sizeof about);
    if (!config->json)
        fprintf(config->out, "device: %s\n", about);
    CHECK(run_all(config, dev, cases, report, &t));
    if (config->json) {
        json_t *all = json_pack("{s:i, s:s, s:b, s:O}", "schema", 1, "device", about, "ok",
                                t.failed == 0, "cases", report);
        json_dumpf(all, config->out, JSON_INDENT(1));
        fputc('\n', config->out);
        json_decref(all);
    } else {
        fprintf(config->out, "%d of %d cases hold\n", t.ran - t.failed, t.ran);
    }
    if (t.failed)
        st = status_fail(STATUS_MISMATCH,
                         "selftest: %d of %d cases do not hold on this device; its numbers cannot "
                         "be trusted",
                         t.failed, t.ran);
done:
    json_decref(cases);
    json_decref(report);
    device_close(dev);
    return st;
}
