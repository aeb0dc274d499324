/* How good the gate is. */
#include "report/sections.h"

#include "base/stats.h"
#include "results/text.h"

#include <math.h>

/* "3 of 200", and the rate with its interval; a dash for what the record does not tell. */
static void add_rate(struct table *t, double k, double n)
{
    double low, high;
    if (!(k >= 0 && k <= n && n >= 1 && n <= 1e6) ||
        stats_proportion_interval((int64_t)k, (int64_t)n, 0.95, &low, &high) != STATUS_OK) {
        table_add(t, "-");
        table_add(t, "-");
        return;
    }
    table_add(t, "%.0f of %.0f", k, n);
    table_add(t, "%.1f %% (%.1f to %.1f)", 100 * k / n, 100 * low, 100 * high);
}

static void add_row(struct table *t, const char *what, const char *how, double k, double n)
{
    table_add(t, "%s", what);
    table_add(t, "%s", how);
    add_rate(t, k, n);
}

/* The median of a metric's ratios over the trials; NAN where none tells. */
static double median_ratio(const json_t *trials, const char *arm, const char *metric)
{
    enum { MOST = 10000 };
    double x[MOST];
    int64_t n = 0;
    for (size_t i = 0; i < json_array_size(trials) && n < MOST; i++) {
        const json_t *one = json_object_get(json_array_get(trials, i), arm);
        double r = section_number(json_object_get(one, metric), "ratio");
        if (isfinite(r))
            x[n++] = r;
    }
    if (n == 0)
        return NAN;
    stats_sort(x, n);
    return stats_quantile(x, n, 0.5);
}

static void ratios(struct writer *w, const json_t *trials)
{
    static const char *const headings[] = {"metric that decides", ">unchanged by base",
                                           ">slowed by base"};
    static const char name[] = "images_per_s";
    struct table t = table_begin(3, headings);
    table_add(&t, "%s", name);
    table_add_number(&t, median_ratio(trials, "unchanged", name), 4);
    table_add_number(&t, median_ratio(trials, "slowed", name), 4);
    writer_paragraph(w, "Medians of the trials' ratios:");
    writer_table(w, &t);
}

void section_gate_quality(struct writer *w, const char *name, const json_t *record)
{
    static const char *const headings[] = {"what", "judged", ">trials", ">rate (95 % interval)"};
    static const char pairs[] = "by pairs, as by default", sides[] = "as two sides, --pair never";
    const json_t *trials = json_object_get(record, "outcomes");
    double n = (double)json_array_size(trials);
    const char *inject = json_string_value(json_object_get(record, "inject"));
    char fault[64];
    struct table t = table_begin(4, headings);
    text_clean(fault, sizeof fault, inject ? inject : "");
    writer_heading(w, 3, "Quality of the gate: %s", name);
    writer_paragraph(
        w,
        "Each trial is a comparison of %.0f runs a side by 'ampscale compare' with its defaults: "
        "alpha %g, threshold %g %%. Runs of the base, unchanged ones and ones with --inject %s "
        "took turns of %g ms on one core, as with 'scripts/interleave', in an order drawn anew "
        "each time. A false alarm is a regression found between base and unchanged runs, whichever "
        "of them is named as the base; a slowdown is caught where one is found in the slowed runs.",
        section_number(record, "rounds"), section_number(record, "alpha"),
        100 * section_number(record, "threshold"), fault, section_number(record, "slice_ms"));
    writer_code(w,
                "build/tests/compare/compare_experiment --program build/cli/ampscale --out FILE");
    add_row(&t, "false alarms", pairs, section_number(record, "false_alarms"), n);
    add_row(&t, "slowdowns caught", pairs, section_number(record, "caught"), n);
    add_row(&t, "false alarms", sides, section_number(record, "sides_false_alarms"), n);
    add_row(&t, "slowdowns caught", sides, section_number(record, "sides_caught"), n);
    writer_table(w, &t);
    ratios(w, trials);
}
