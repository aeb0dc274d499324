/* Writes the section of an acceptance: its checks, and a table for each check with many metrics.
 * accept/accept_read.h lists the names of metrics. */
#include "report/report_sections.h"

#include "base/json.h"
#include "results/noise.h"
#include "results/verdict.h"

#include <math.h>
#include <string.h>

enum { NAME_SIZE = 128, TEXT_SIZE = 512 };

/* --- metrics of a check --- */

/* Returns the part of the metric's name after the prefix; NULL if the name has another prefix. */
static const char *rest_of(const json_t *metric, const char *prefix)
{
    const char *name = json_text_at(metric, "name");
    size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 ? name + n : NULL;
}

/* Returns the metric with the name <prefix><of>; NULL if it was not measured. */
static const json_t *metric_of(const json_t *check, const char *prefix, const char *of)
{
    const json_t *list = json_object_get(check, "metrics");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *m = json_array_get(list, i);
        const char *rest = rest_of(m, prefix);
        if (rest && strcmp(rest, of) == 0)
            return m;
    }
    return NULL;
}

static double number_of(const json_t *check, const char *prefix, const char *of)
{
    return json_number_at(metric_of(check, prefix, of), "median");
}

static const char *text_of(const json_t *check, const char *prefix, const char *of)
{
    const json_t *values = json_object_get(metric_of(check, prefix, of), "values");
    const char *text = json_string_value(json_array_get(values, 0));
    return text ? text : "";
}

/* --- throughput --- */

static const char *const sides[][2] = {{"files_", "ampscale, from files"},
                                       {"peer_eager_", "PyTorch eager"},
                                       {"peer_compile_", "PyTorch compile"},
                                       {"", "ampscale"}};

/* Splits a metric's name: for "peer_eager_amp_256" returns "PyTorch eager", and sets *work to
 * "amp_256". */
static const char *side_of(const char *of, const char **work)
{
    for (size_t i = 0;; i++) {
        size_t n = strlen(sides[i][0]);
        *work = of + n;
        if (strncmp(of, sides[i][0], n) == 0)
            return sides[i][1];
    }
}

/* Splits "amp_256_fuse-none_no-graph" into precision, batch and mode. */
static void add_work(struct table *t, const char *work)
{
    char text[NAME_SIZE], *rest = text;
    snprintf(text, sizeof text, "%s", work);
    for (int i = 0; i < 2; i++) {
        char *part = strsep(&rest, "_");
        table_add(t, "%s", part ? part : "");
    }
    for (char *c = rest; c && *c; c++)
        *c = *c == '_' ? ',' : *c;
    table_add(t, "%s", rest ? rest : "");
}

/* Returns the highest throughput in images/s that the measured peaks allow, at the precision and
 * batch of `work`; NAN if no check timed the step's operations. */
static double bound_of(const json_t *checks, const char *work)
{
    for (size_t i = 0; i < json_array_size(checks); i++) {
        const json_t *check = json_array_get(checks, i);
        char key[NAME_SIZE];
        if (strcmp(json_text_at(check, "kind"), "step") != 0)
            continue;
        snprintf(key, sizeof key, "%.16s_%.0f", text_of(check, "precision", ""),
                 number_of(check, "batch", ""));
        if (strncmp(work, key, strlen(key)) == 0 && strchr("_", work[strlen(key)]))
            return number_of(check, "bound_images_per_s", "");
    }
    return NAN;
}

/* Adds the rung (fallback level) on which the run succeeded, and the reason for it, such as "no
 * graph (auto: the capture failed)". If nothing was measured, adds only the reason for that. */
static void add_rung(struct table *t, const json_t *check, const char *of)
{
    char text[TEXT_SIZE];
    const char *rung = text_of(check, "rung_", of), *why = text_of(check, "why_", of);
    snprintf(text, sizeof text, *rung && *why ? "%s (%s)" : "%s%s", rung, why);
    table_add(t, "%s", text);
}

static void add_row(struct table *t, const json_t *checks, const json_t *check, const char *of)
{
    const char *work, *side = side_of(of, &work);
    double rate = number_of(check, "images_per_s_", of);
    bool ours = work == of;
    add_work(t, work);
    table_add(t, "%s", side);
    table_add_amount(t, rate);
    table_add_amount(t, number_of(check, "lowest_", of));
    table_add_amount(t, number_of(check, "highest_", of));
    add_rung(t, check, of);
    table_add_number(t, ours ? number_of(check, "of_peer_", work) : NAN, 2);
    table_add_number(t, ours ? 100 * rate / bound_of(checks, work) : NAN, 1);
}

/* Names the rows whose ratio is not to PyTorch's best, because one of its modes has no result. */
static void missing_modes(struct writer *w, const json_t *check)
{
    const json_t *list = json_object_get(check, "metrics");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *of = rest_of(json_array_get(list, i), "peer_mode_");
        const char *mode = of ? text_of(check, "peer_mode_", of) : "";
        int precision = of ? (int)strcspn(of, "_") : 0;
        if (strstr(mode, " only; "))
            writer_paragraph(w, "At %.*s, batch %s, the ratio is to %s.", precision, of,
                             of + precision + 1, mode);
    }
}

static void throughput(struct writer *w, const json_t *checks, const json_t *check)
{
    const json_t *list = json_object_get(check, "metrics");
    struct table t = table_begin(
        "precision|>batch|way||>images/s|>lowest|>highest|rung|>ratio to PyTorch|>% of bound");
    const char *peer = text_of(check, "peer", "");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *rate = rest_of(json_array_get(list, i), "images_per_s_");
        const char *why = rest_of(json_array_get(list, i), "why_");
        if (rate || (why && !metric_of(check, "images_per_s_", why)))
            add_row(&t, checks, check, rate ? rate : why);
    }
    writer_paragraph(
        w,
        "Training %s on images of %.0f px: images per second, medians of the rounds%s%s. The ratio "
        "to PyTorch compares with PyTorch's faster mode at the same precision and batch. The bound "
        "is the throughput that the step's operations could reach at the measured peaks.",
        text_of(check, "net", ""), number_of(check, "image_size", ""),
        *peer ? ", in turns with " : "", peer);
    missing_modes(w, check);
    writer_table(w, &t);
}

/* --- numbers --- */

static void accuracy(struct writer *w, const json_t *checks, const json_t *check)
{
    (void)checks;
    const json_t *list = json_object_get(check, "metrics");
    struct table t = table_begin("precision|>top-1 %|>CPU %|>difference in points|rung");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *of = rest_of(json_array_get(list, i), "top1_");
        const char *why = rest_of(json_array_get(list, i), "why_");
        if (!of && (!why || metric_of(check, "top1_", why)))
            continue;
        of = of ? of : why;
        table_add(&t, "%s", of);
        table_add_number(&t, number_of(check, "top1_", of), 2);
        table_add_number(&t, number_of(check, "cpu_top1_", of), 2);
        table_add_number(&t, number_of(check, "off_cpu_", of), 2);
        add_rung(&t, check, of);
    }
    writer_paragraph(w, "Validation top-1 after the same training in each precision, compared with "
                        "the mean of the runs recorded on a CPU:");
    writer_table(w, &t);
}

static void operations(struct writer *w, const json_t *checks, const json_t *check)
{
    (void)checks;
    const json_t *list = json_object_get(check, "metrics");
    struct table t = table_begin("operation|>cases passed|ended");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *of = rest_of(json_array_get(list, i), "passed_");
        if (!of)
            continue;
        table_add(&t, "%s", of);
        table_add_number(&t, number_of(check, "passed_", of), 0);
        table_add(&t, "%s", text_of(check, "ended_", of));
    }
    writer_paragraph(w,
                     "Operations compared with the reference: %.0f cases, %.0f passed, %.0f "
                     "skipped, %.0f wrong, %.0f not done in time.",
                     number_of(check, "cases", ""), number_of(check, "passed", ""),
                     number_of(check, "skipped", ""), number_of(check, "wrong", ""),
                     number_of(check, "late", ""));
    writer_table(w, &t);
}

/* --- all checks --- */

static const struct {
    const char *kind;
    void (*write)(struct writer *w, const json_t *checks, const json_t *check);
} sections[] = {{"throughput", throughput}, {"accuracy", accuracy}, {"operations", operations}};

/* The index of the check's section; -1: it has none. */
static int section_of(const json_t *check)
{
    for (int i = 0; i < (int)(sizeof sections / sizeof *sections); i++)
        if (strcmp(json_text_at(check, "kind"), sections[i].kind) == 0)
            return i;
    return -1;
}

static void add_metric(struct table *t, const json_t *check, const json_t *metric)
{
    const json_t *text = json_array_get(json_object_get(metric, "values"), 0);
    table_add(t, "%s", json_text_at(check, "name"));
    table_add(t, "%s", json_text_at(metric, "name"));
    if (json_is_string(text))
        table_add(t, "%s", json_string_value(text));
    else
        table_add_amount(t, json_number_at(metric, "median"));
    table_add(t, "%s", json_text_at(metric, "unit"));
    table_add(t, "%s", *json_text_at(metric, "limit") ? json_text_at(metric, "verdict") : "");
}

/* Adds metrics of a check to the last table. If the check has a table of its own, adds only the
 * metrics with a limit; else adds all metrics. */
static void add_metrics(struct table *t, const json_t *check)
{
    const json_t *list = json_object_get(check, "metrics");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *m = json_array_get(list, i);
        if (section_of(check) < 0 || *json_text_at(m, "limit"))
            add_metric(t, check, m);
    }
}

static void table_of_verdicts(struct writer *w, const json_t *checks)
{
    /* Earlier versions recorded no noise. */
    bool known = json_object_get(json_array_get(checks, 0), "noise");
    struct table t =
        table_begin(known ? "verdict|check|>seconds|other work|why" : "verdict|check|>seconds|why");
    char text[NOISE_TEXT_MAX];
    for (size_t i = 0; i < json_array_size(checks); i++) {
        const json_t *check = json_array_get(checks, i);
        table_add(&t, "%s", json_text_at(check, "verdict"));
        table_add(&t, "%s", json_text_at(check, "name"));
        struct host_noise noise = host_noise_read(check);
        table_add_amount(&t, json_number_at(check, "seconds"));
        if (known && host_noise_judge(&noise, text))
            table_add(&t, "disturbed: %s", text);
        else if (known)
            table_add(&t, isnan(noise.others) ? "" : "%.1f %%", 100 * noise.others);
        table_add(&t, "%s", json_text_at(check, "reason"));
    }
    writer_table(w, &t);
}

static void introduce(struct writer *w, const json_t *record)
{
    const char *device = json_text_at(record, "device");
    const json_t *checks = json_object_get(record, "checks");
    int n[VERDICTS] = {0};
    for (size_t i = 0; i < json_array_size(checks); i++)
        for (int v = 0; v < VERDICTS; v++)
            n[v] += !strcmp(json_text_at(json_array_get(checks, i), "verdict"),
                            verdict_str((enum verdict)v));
    writer_heading(w, 3, "Acceptance by '%s'", json_text_at(record, "spec"));
    writer_headline(w,
                    "%s. Checks: %d passed, %d warned, %d failed, %d not judged, %d missing. "
                    "%s on %s.",
                    json_is_true(json_object_get(record, "passed")) ? "Accepted" : "Not accepted",
                    n[VERDICT_PASS], n[VERDICT_WARN], n[VERDICT_FAIL], n[VERDICT_SKIP],
                    n[VERDICT_MISSING], *device ? device : "No device",
                    json_text_at(record, "node"));
    writer_paragraph(w, "%s to %s.", json_text_at(record, "begun"), json_text_at(record, "ended"));
}

void section_accept(struct writer *w, const char *name, const json_t *record)
{
    const json_t *checks = json_object_get(record, "checks");
    struct table rest = table_begin("check|metric|>value|unit|verdict");
    (void)name;
    introduce(w, record);
    table_of_verdicts(w, checks);
    for (size_t i = 0; i < json_array_size(checks); i++) {
        const json_t *check = json_array_get(checks, i);
        int k = section_of(check);
        if (k >= 0 && json_array_size(json_object_get(check, "metrics")) > 0)
            sections[k].write(w, checks, check);
        add_metrics(&rest, check);
    }
    writer_table(w, &rest);
}
