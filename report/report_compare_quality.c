/* Writes the section on the error rates of `ampscale compare`. */
#include "report/report_sections.h"

#include "base/json.h"
#include "base/stats.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the median, over the trials, of the ratio of this arm's throughput to the base's; NAN if
 * no trial has the arm. */
static double median_ratio(const json_t *trials, const char *arm)
{
    enum { MOST = 10000 };
    double x[MOST];
    int64_t n = 0;
    for (size_t i = 0; i < json_array_size(trials) && n < MOST; i++) {
        const json_t *one = json_object_get(json_array_get(trials, i), arm);
        double r = json_number_at(one, "ratio");
        if (isfinite(r))
            x[n++] = r;
    }
    return n > 0 ? stats_median(x, n) : NAN;
}

/* Returns the number of trials with this verdict. `counts` is {"REGRESSION": 3, ...}; a verdict
 * that no trial gave is absent. */
static double verdict_count(const json_t *counts, const char *verdict)
{
    return json_object_get(counts, verdict) ? json_number_at(counts, verdict) : 0;
}

/* Adds a cell such as "3 (0.6 to 8.5 %)": the count k, and the 95 % interval of the rate k / n. */
static void add_rate(struct table *t, double k, double n)
{
    double low, high;
    if (!(k >= 0 && k <= n && n >= 1 && n <= 1e6) ||
        stats_proportion_interval((int64_t)k, (int64_t)n, 0.95, &low, &high) != STATUS_OK)
        table_add(t, "–");
    else
        table_add(t, "%.0f (%.1f to %.1f %%)", k, 100 * low, 100 * high);
}

static void arm_row(struct table *t, const json_t *workload, const json_t *arm)
{
    const json_t *pairs = json_object_get(arm, "pairs"), *sides = json_object_get(arm, "sides");
    const json_t *trials = json_object_get(workload, "trials");
    const char *name = json_text_at(arm, "arm");
    double n = (double)json_array_size(trials), found = verdict_count(pairs, "REGRESSION");
    double open = verdict_count(pairs, "inconclusive");
    table_add(t, "%s", json_text_at(workload, "workload"));
    table_add(t, "%s", name);
    table_add_number(t, median_ratio(trials, name), 4);
    table_add(t, "%.0f", n);
    add_rate(t, found, n);
    add_rate(t, open, n);
    add_rate(t, n - found - open, n);
    table_add(t, "%.0f", verdict_count(sides, "REGRESSION"));
    table_add(t, "%.0f", verdict_count(sides, "inconclusive"));
}

/* Describes a workload: its number of steps, how its runs took turns, and which runs its trials
 * compare. */
static void add_workload(struct table *items, const json_t *workload)
{
    double slice = json_number_at(workload, "slice_ms");
    double pool = json_number_at(workload, "pool_rounds");
    char turns[64] = "whole runs in turns", from[96] = "each trial trains its own runs";
    if (slice > 0)
        snprintf(turns, sizeof turns, "turns of %g ms on one core", slice);
    if (pool > 0)
        snprintf(from, sizeof from, "trials draw from a pool of %g rounds of runs", pool);
    table_add(items, "%s: %s, %g steps a run, %s; %s.", json_text_at(workload, "workload"),
              json_text_at(workload, "about"), json_number_at(workload, "steps"), turns, from);
}

/* Counts false alarms in unchanged runs, and the slowdowns above the threshold that were found. */
static void headline(struct writer *w, const json_t *workloads, double threshold)
{
    double same = 0, alarms = 0, slower = 0, found = 0;
    for (size_t i = 0; i < json_array_size(workloads); i++) {
        const json_t *workload = json_array_get(workloads, i);
        const json_t *arms = json_object_get(workload, "arms");
        double trials = (double)json_array_size(json_object_get(workload, "trials"));
        for (size_t k = 0; k < json_array_size(arms); k++) {
            const json_t *arm = json_array_get(arms, k);
            bool unchanged = strcmp(json_text_at(arm, "arm"), "unchanged") == 0;
            double n = verdict_count(json_object_get(arm, "pairs"), "REGRESSION");
            if (!unchanged && !(strtod(json_text_at(arm, "arm"), NULL) > 100 * threshold))
                continue;
            *(unchanged ? &same : &slower) += trials;
            *(unchanged ? &alarms : &found) += n;
        }
    }
    writer_headline(w,
                    "False alarms: %.0f of %.0f comparisons of unchanged runs. Found: %.0f of %.0f "
                    "slowdowns of more than %g %%.",
                    alarms, same, found, slower, 100 * threshold);
}

void section_gate_quality(struct writer *w, const char *name, const json_t *record)
{
    const json_t *workloads = json_object_get(record, "workloads");
    struct table t = table_begin("workload|new runs|>ratio|>trials|>regression|>inconclusive|>"
                                 "neither|>regression, sides|>inconclusive, sides");
    struct table items = {0};
    writer_heading(w, 3, "Quality of the gate: %s", name);
    headline(w, workloads, json_number_at(record, "threshold"));
    writer_paragraph(
        w,
        "Each trial compares %.0f runs a side by 'ampscale compare --metric %s': alpha %g, "
        "threshold %g %%. All runs are of one program: runs of the base, unchanged runs, and runs "
        "that '--inject' slows down. They trained in turns, as with 'scripts/interleave', in a new "
        "random order for each round. For unchanged runs, 'regression' counts false alarms in "
        "either direction; for slower runs, it counts slowdowns that were found. Each count has "
        "the 95 %% interval of its rate. Trials that draw from one pool share runs: their true "
        "interval is wider. 'Sides': verdicts without pairs ('--pair never'). 'Ratio': throughput "
        "divided by the base's, as the median over the trials.",
        json_number_at(record, "rounds"), json_text_at(record, "metric"),
        json_number_at(record, "alpha"), 100 * json_number_at(record, "threshold"));
    writer_code(w, "tests/compare/experiment.py --program build/cli/ampscale --out FILE");
    for (size_t i = 0; i < json_array_size(workloads); i++) {
        const json_t *workload = json_array_get(workloads, i);
        const json_t *arms = json_object_get(workload, "arms");
        add_workload(&items, workload);
        for (size_t k = 0; k < json_array_size(arms); k++)
            arm_row(&t, workload, json_array_get(arms, k));
    }
    writer_list(w, &items);
    writer_table(w, &t);
}
