/* Comparing computed values with an oracle's, and saying how far each is. */
#include "runners/selftest.h"

#include "base/file.h"
#include "kernels/backend.h"
#include "runners/oracle.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const unsigned char oracles_json[];
extern const size_t oracles_json_size;

/* The rule by which a value holds. */
#define RELATIVE_FP64    1e-4 /* of the fp64 value */
#define TIMES_FP32_ERROR 3.0  /* or so often PyTorch's own fp32 error */
#define RELATIVE_FP32    1e-3 /* of the fp32 value, where no fp64 value exists */

/* The comparison of one case. `values` collects what JSON output prints. */
struct verdict {
    const struct selftest_config *config;
    bool exact_reference; /* the wanted values are fp64 */
    json_t *values;
    int n, failed;
    double worst; /* largest error / tolerance */
    char worst_name[160];
};

/* One value. `scale` is what "relative" refers to: the value, or its vector's largest. */
static void judge(struct verdict *v, const char *name, const json_t *want, const json_t *fp32,
                  const json_t *got, double scale)
{
    double w = json_number_value(want), g = json_is_number(got) ? json_number_value(got) : NAN;
    double tolerance = json_is_integer(want) ? 0
                       : v->exact_reference  ? RELATIVE_FP64 * scale
                                             : RELATIVE_FP32 * scale;
    if (v->exact_reference && json_is_number(fp32))
        tolerance = fmax(tolerance, TIMES_FP32_ERROR * fabs(json_number_value(fp32) - w));
    double error = fabs(g - w);
    bool ok = error <= tolerance; /* false for NaN */
    double share = ok && tolerance == 0 ? 0 : error / tolerance;
    v->n++;
    v->failed += !ok;
    if (!(share <= v->worst)) {
        v->worst = share;
        snprintf(v->worst_name, sizeof v->worst_name, "%s", name);
    }
    if (v->config->json)
        json_array_append_new(v->values,
                              json_pack("{s:s, s:o, s:f, s:o, s:f, s:b}", "name", name, "got",
                                        isfinite(g) ? json_real(g) : json_null(), "want", w,
                                        "error", isfinite(error) ? json_real(error) : json_null(),
                                        "tolerance", tolerance, "ok", ok));
    else if (v->config->verbose || !ok)
        fprintf(v->config->out,
                "  %-4s %-44s got %- 16.9g want %- 16.9g error %.2e tolerance %.2e\n",
                ok ? "ok" : "FAIL", name, g, w, error, tolerance);
}

static double largest(const json_t *list)
{
    double m = 0;
    size_t i;
    const json_t *x;
    json_array_foreach(list, i, x)
    {
        m = fmax(m, fabs(json_number_value(x)));
    }
    return m;
}

/* Walks what the oracle holds; what is computed and the fp32 twin have the same form. */
static void compare(struct verdict *v, const char *name, const json_t *want, const json_t *fp32,
                    const json_t *got, double scale)
{
    char inner[160];
    if (json_is_number(want)) {
        judge(v, name, want, fp32, got, scale > 0 ? scale : fabs(json_number_value(want)));
    } else if (json_is_object(want)) {
        const char *key;
        const json_t *x;
        json_object_foreach((json_t *)want, key, x)
        {
            snprintf(inner, sizeof inner, "%s%s%s", name, *name ? "." : "", key);
            compare(v, inner, x, json_object_get(fp32, key), json_object_get(got, key), 0);
        }
    } else if (json_is_array(want)) {
        size_t i;
        const json_t *x;
        json_array_foreach(want, i, x)
        {
            snprintf(inner, sizeof inner, "%s[%zu]", name, i);
            compare(v, inner, x, json_array_get(fp32, i), json_array_get(got, i),
                    json_is_number(x) ? largest(want) : 0);
        }
    }
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

/* The parts of a case that are values, not settings. */
static json_t *values_of(const json_t *json)
{
    json_t *out = json_object();
    static const char *const keys[] = {"params", "step", "buffer_norms"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *v = json_object_get(json, keys[i]);
        if (v)
            json_object_set(out, keys[i], v);
    }
    return out;
}

/* fp32: the same case in PyTorch's fp32, or NULL. */
static enum status run_case(const struct selftest_config *config, struct device *dev,
                            const struct oracle_case *c, const json_t *want, const json_t *fp32,
                            json_t *report, bool *passed)
{
    enum status st;
    json_t *got = NULL, *values = values_of(want);
    struct verdict v = {.config = config, .exact_reference = c->fp64, .values = json_array()};
    CHECK(oracle_compute(dev, c, &got));
    if (!config->json && config->verbose)
        fprintf(config->out, "%s, %d px, batch %d\n", c->arch, c->size, c->batch);
    compare(&v, "", values, fp32, got, 0);
    *passed = v.failed == 0 && v.n > 0;
    if (config->json)
        json_array_append_new(
            report, json_pack("{s:s, s:i, s:i, s:i, s:i, s:s, s:s, s:b, s:O}", "arch", c->arch,
                              "classes", c->classes, "size", c->size, "batch", c->batch, "steps",
                              c->steps, "mode", c->train ? "train" : "eval", "against",
                              c->fp64 ? "fp64" : "fp32", "ok", *passed, "values", v.values));
    else
        print_case(config, &v, c);
done:
    json_decref(got);
    json_decref(values);
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
