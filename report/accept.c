/* What an acceptance measured: its checks, and tables of those that measure much. Names of metrics
 * are those of accept/read.h. */
#include "report/sections.h"

#include "base/text.h"

#include <math.h>
#include <string.h>

enum { NAME_SIZE = 128, TEXT_SIZE = 512 };

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void add_clean(struct table *t, const char *text)
{
    char clean[TEXT_SIZE];
    text_clean(clean, sizeof clean, text);
    table_add(t, "%s", clean);
}

/* --- metrics of a check --- */

/* The metric <prefix><of>; NULL where it was not measured. */
static const json_t *metric_of(const json_t *check, const char *prefix, const char *of)
{
    const json_t *list = json_object_get(check, "metrics");
    size_t n = strlen(prefix);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *m = json_array_get(list, i);
        const char *name = text_at(m, "name");
        if (strncmp(name, prefix, n) == 0 && strcmp(name + n, of) == 0)
            return m;
    }
    return NULL;
}

static double number_of(const json_t *check, const char *prefix, const char *of)
{
    return section_number(metric_of(check, prefix, of), "median");
}

static const char *text_of(const json_t *check, const char *prefix, const char *of)
{
    const json_t *values = json_object_get(metric_of(check, prefix, of), "values");
    const char *text = json_string_value(json_array_get(values, 0));
    return text ? text : "";
}

/* What follows the prefix in the metric's name; NULL for another metric. */
static const char *rest_of(const json_t *metric, const char *prefix)
{
    const char *name = text_at(metric, "name");
    size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 ? name + n : NULL;
}

/* --- throughput --- */

static const char *const sides[][2] = {{"files_", "ampscale, from files"},
                                       {"peer_eager_", "PyTorch eager"},
                                       {"peer_compile_", "PyTorch compile"},
                                       {"", "ampscale"}};

/* Who trained, and at what: "peer_eager_amp_256" is PyTorch's "amp_256". */
static const char *side_of(const char *of, const char **work)
{
    for (size_t i = 0;; i++) {
        size_t n = strlen(sides[i][0]);
        *work = of + n;
        if (strncmp(of, sides[i][0], n) == 0)
            return sides[i][1];
    }
}

/* "amp_256_fuse-none_no-graph" as precision, batch and way. */
static void add_work(struct table *t, const char *work)
{
    char text[NAME_SIZE], *rest = text;
    text_clean(text, sizeof text, work);
    for (int i = 0; i < 2; i++) {
        char *part = strsep(&rest, "_");
        table_add(t, "%s", part ? part : "");
    }
    for (char *c = rest; c && *c; c++)
        *c = *c == '_' ? ',' : *c;
    table_add(t, "%s", rest ? rest : "");
}

/* Images/s that the measured peaks allow at this precision and batch; NAN where no check timed the
 * step's operations. */
static double bound_of(const json_t *checks, const char *work)
{
    for (size_t i = 0; i < json_array_size(checks); i++) {
        const json_t *check = json_array_get(checks, i);
        char key[NAME_SIZE];
        if (strcmp(text_at(check, "kind"), "step") != 0)
            continue;
        snprintf(key, sizeof key, "%.16s_%.0f", text_of(check, "precision", ""),
                 number_of(check, "batch", ""));
        if (strncmp(work, key, strlen(key)) == 0 && strchr("_", work[strlen(key)]))
            return number_of(check, "bound_images_per_s", "");
    }
    return NAN;
}

/* "no graph (auto: the capture failed)"; of what was not measured, why. */
static void add_rung(struct table *t, const json_t *check, const char *of)
{
    char text[TEXT_SIZE];
    const char *rung = text_of(check, "rung_", of), *why = text_of(check, "why_", of);
    snprintf(text, sizeof text, *rung && *why ? "%s (%s)" : "%s%s", rung, why);
    add_clean(t, text);
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

static void throughput(struct writer *w, const json_t *checks, const json_t *check)
{
    static const char *const headings[] = {"precision",      ">batch",     "way",      "",
                                           ">images/s",      ">lowest",    ">highest", "rung",
                                           ">times PyTorch", ">% of bound"};
    const json_t *list = json_object_get(check, "metrics");
    struct table t = table_begin(10, headings);
    char net[NAME_SIZE], peer[TEXT_SIZE];
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *rate = rest_of(json_array_get(list, i), "images_per_s_");
        const char *why = rest_of(json_array_get(list, i), "why_");
        if (rate || (why && !metric_of(check, "images_per_s_", why)))
            add_row(&t, checks, check, rate ? rate : why);
    }
    text_clean(net, sizeof net, text_of(check, "net", ""));
    text_clean(peer, sizeof peer, text_of(check, "peer", ""));
    writer_paragraph(
        w,
        "Training %s on images of %.0f px: images per second, medians of the rounds%s%s. "
        "'Times PyTorch' is the ratio to the fastest of its ways at the same precision "
        "and batch. The bound is the least time that the measured peaks allow the "
        "step's operations.",
        net, number_of(check, "image_size", ""), *peer ? ", in turns with " : "", peer);
    writer_table(w, &t);
}

/* --- numbers --- */

static void accuracy(struct writer *w, const json_t *checks, const json_t *check)
{
    static const char *const headings[] = {"precision", ">top-1 %", ">CPU %", ">points apart",
                                           "rung"};
    (void)checks;
    const json_t *list = json_object_get(check, "metrics");
    struct table t = table_begin(5, headings);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *of = rest_of(json_array_get(list, i), "top1_");
        if (!of)
            of = rest_of(json_array_get(list, i), "why_");
        if (!of || (metric_of(check, "top1_", of) && !rest_of(json_array_get(list, i), "top1_")))
            continue;
        add_clean(&t, of);
        table_add_number(&t, number_of(check, "top1_", of), 2);
        table_add_number(&t, number_of(check, "cpu_top1_", of), 2);
        table_add_number(&t, number_of(check, "off_cpu_", of), 2);
        add_rung(&t, check, of);
    }
    writer_paragraph(w,
                     "Validation top-1 after the same training in each precision, and the mean of "
                     "the runs recorded on a CPU:");
    writer_table(w, &t);
}

static void operations(struct writer *w, const json_t *checks, const json_t *check)
{
    static const char *const headings[] = {"operation", ">cases passed", "ended"};
    (void)checks;
    const json_t *list = json_object_get(check, "metrics");
    struct table t = table_begin(3, headings);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *of = rest_of(json_array_get(list, i), "passed_");
        if (!of)
            continue;
        add_clean(&t, of);
        table_add_number(&t, number_of(check, "passed_", of), 0);
        add_clean(&t, text_of(check, "ended_", of));
    }
    writer_paragraph(
        w,
        "Operations against the reference: %.0f cases, %.0f passed, %.0f skipped, %.0f "
        "wrong, %.0f not done in time.",
        number_of(check, "cases", ""), number_of(check, "passed", ""),
        number_of(check, "skipped", ""), number_of(check, "wrong", ""),
        number_of(check, "late", ""));
    writer_table(w, &t);
}

static void profile(struct writer *w, const json_t *checks, const json_t *check)
{
    static const char *const headings[] = {"kernel", ">us", ">% of DRAM", ">% of tensor pipes"};
    (void)checks;
    struct table t = table_begin(4, headings);
    char tool[NAME_SIZE];
    for (int i = 1; i < 100; i++) {
        char of[8];
        snprintf(of, sizeof of, "%02d", i);
        if (!metric_of(check, "kernel_", of))
            break;
        add_clean(&t, text_of(check, "kernel_", of));
        for (size_t k = 0; k < 3; k++) {
            static const char *const what[] = {"_us", "_dram", "_tensor"};
            char name[16];
            snprintf(name, sizeof name, "%s%s", of, what[k]);
            table_add_number(&t, number_of(check, "kernel_", name), 1);
        }
    }
    text_clean(tool, sizeof tool, text_of(check, "tool", ""));
    writer_paragraph(w, "Kernels of a step that take longest, of %.0f us in all, by %s:",
                     number_of(check, "step_us", ""), tool);
    writer_table(w, &t);
}

/* --- all checks --- */

static const struct {
    const char *kind;
    void (*tell)(struct writer *w, const json_t *checks, const json_t *check);
} told[] = {{"throughput", throughput},
            {"accuracy", accuracy},
            {"operations", operations},
            {"profile", profile}};

static bool is_told(const json_t *check)
{
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (strcmp(text_at(check, "kind"), told[i].kind) == 0)
            return true;
    return false;
}

static void add_metric(struct table *t, const json_t *check, const json_t *metric)
{
    const json_t *text = json_array_get(json_object_get(metric, "values"), 0);
    add_clean(t, text_at(check, "name"));
    add_clean(t, text_at(metric, "name"));
    if (json_is_string(text))
        add_clean(t, json_string_value(text));
    else
        table_add_amount(t, section_number(metric, "median"));
    add_clean(t, text_at(metric, "unit"));
    add_clean(t, *text_at(metric, "limit") ? text_at(metric, "verdict") : "");
}

/* What no table above has: metrics of other checks, and of those that have a table what has a
 * limit. */
static void add_metrics(struct table *t, const json_t *check)
{
    const json_t *list = json_object_get(check, "metrics");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *m = json_array_get(list, i);
        if (!is_told(check) || *text_at(m, "limit"))
            add_metric(t, check, m);
    }
}

static void verdicts(struct writer *w, const json_t *checks)
{
    static const char *const headings[] = {"verdict", "check", ">seconds", "why"};
    struct table t = table_begin(4, headings);
    for (size_t i = 0; i < json_array_size(checks); i++) {
        const json_t *check = json_array_get(checks, i);
        add_clean(&t, text_at(check, "verdict"));
        add_clean(&t, text_at(check, "name"));
        table_add_amount(&t, section_number(check, "seconds"));
        add_clean(&t, text_at(check, "reason"));
    }
    writer_table(w, &t);
}

static void introduce(struct writer *w, const json_t *record)
{
    static const char *const keys[] = {"spec", "device", "node", "begun", "ended"};
    char text[5][TEXT_SIZE];
    for (size_t i = 0; i < 5; i++)
        text_clean(text[i], sizeof text[i], text_at(record, keys[i]));
    writer_heading(w, 3, "Acceptance by '%s'", text[0]);
    writer_paragraph(w, "%s on %s, %s to %s: %s.", *text[1] ? text[1] : "No device", text[2],
                     text[3], text[4],
                     json_is_true(json_object_get(record, "passed")) ? "accepted" : "not accepted");
}

void section_accept(struct writer *w, const char *name, const json_t *record)
{
    static const char *const headings[] = {"check", "metric", ">value", "unit", "verdict"};
    const json_t *checks = json_object_get(record, "checks");
    struct table rest = table_begin(5, headings);
    (void)name;
    introduce(w, record);
    verdicts(w, checks);
    for (size_t i = 0; i < json_array_size(checks); i++) {
        const json_t *check = json_array_get(checks, i);
        for (size_t k = 0; k < sizeof told / sizeof *told; k++)
            if (strcmp(text_at(check, "kind"), told[k].kind) == 0 &&
                json_array_size(json_object_get(check, "metrics")) > 0)
                told[k].tell(w, checks, check);
        add_metrics(&rest, check);
    }
    writer_table(w, &rest);
}
