/* Writes the sections of records that are one JSON object. */
#include "report/report_sections.h"

#include "base/json.h"
#include "base/stats.h"
#include "base/text_new.h"
#include "base/words.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Writes the command <before><word><after>, with the record's `word` quoted for a shell. */
static void write_command(struct writer *w, const char *before, const char *word, const char *after)
{
    struct text_stream s;
    enum status st = text_stream_open(&s);
    if (st == STATUS_OK) {
        fputs(before, s.out);
        shell_word(s.out, word);
        fputs(after, s.out);
        st = text_stream_close(&s);
    }
    if (st == STATUS_OK)
        writer_code(w, s.text);
    else
        w->st = st;
    free(s.text);
}

static void overlap_headline(struct writer *w, const json_t *rows)
{
    double most = NAN, mb = NAN;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        double hidden = json_number_at(json_object_get(row, "hidden"), "median");
        if (!(most >= hidden)) {
            most = hidden;
            mb = json_number_at(row, "bucket_mb");
        }
    }
    if (!isfinite(most))
        return;
    if (mb > 0)
        writer_headline(w, "Up to %.0f %% of the communication is hidden, with buckets of %g MiB.",
                        100 * most, mb);
    else
        writer_headline(w, "Up to %.0f %% of the communication is hidden, with one bucket.",
                        100 * most);
}

static void overlap(struct writer *w, const char *name, const json_t *record)
{
    struct table t = table_begin(
        ">bucket MiB|>buckets|>gradients complete ms|>busy ms|>exposed ms|>hidden %|>images/s");
    const json_t *rows = json_object_get(record, "sizes"),
                 *config = json_object_get(record, "config");
    size_t ranks = json_array_size(json_object_get(record, "ranks"));
    const char *net = json_text_at(config, "net");
    char before[64], after[128];
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        double mb = json_number_at(row, "bucket_mb");
        if (mb == 0)
            table_add(&t, "all in one");
        else
            table_add_number(&t, mb, 2);
        table_add_number(&t, json_number_at(row, "buckets"), 0);
        table_add_number(&t, 1000 * json_number_at(json_object_get(row, "gradients_s"), "median"),
                         0);
        table_add_number(&t, 1000 * json_number_at(json_object_get(row, "busy_s"), "median"), 0);
        table_add_number(&t, 1000 * json_number_at(json_object_get(row, "exposed_s"), "median"), 0);
        table_add_number(&t, 100 * json_number_at(json_object_get(row, "hidden"), "median"), 1);
        table_add_amount(&t, json_number_at(row, "images_per_s"));
    }
    writer_heading(w, 3, "Communication/backward overlap: %s", name);
    overlap_headline(w, rows);
    writer_paragraph(
        w,
        "Reduction of %.1f MiB of gradients of %s over %zu ranks, by bucket size; medians over "
        "%.0f rounds. The backward pass without communication takes %.0f ms.",
        json_number_at(record, "gradient_bytes") / (1 << 20), net, ranks,
        json_number_at(config, "rounds"),
        1000 * json_number_at(json_object_get(json_object_get(record, "alone"), "backward_s"),
                              "median"));
    snprintf(before, sizeof before, "ampscale launch --nproc %zu -- bench overlap --net ", ranks);
    snprintf(after, sizeof after, " -b %.0f --image-size %.0f --rounds %.0f --json",
             json_number_at(config, "batch_size"), json_number_at(config, "image_size"),
             json_number_at(config, "rounds"));
    write_command(w, before, net, after);
    writer_table(w, &t);
}

static void add_value(struct table *t, const json_t *value)
{
    const char *text = json_string_value(value);
    double x = json_number_value(value);
    if (json_is_number(value)) {
        table_add_number(t, x, x == floor(x) ? 0 : 4);
        return;
    }
    table_add(t, "%s", text ? text : "");
}

/* Writes a table from the list of objects under `key`: a row per object, a column per key. */
static void write_rows(struct writer *w, const json_t *record, const char *key)
{
    enum { MOST = 16 };
    const char *columns[MOST], *name;
    const json_t *rows = json_object_get(record, key), *first = json_array_get(rows, 0);
    json_t *value;
    int n = 0;
    json_object_foreach((json_t *)first, name, value)
    {
        if (n == MOST)
            break;
        columns[n++] = name;
    }
    if (n == 0)
        return;
    struct table t = {.columns = n};
    for (int i = 0; i < n; i++)
        table_add(&t, "%s", columns[i]);
    for (size_t r = 0; r < json_array_size(rows); r++)
        for (int i = 0; i < n; i++)
            add_value(&t, json_object_get(json_array_get(rows, r), columns[i]));
    writer_paragraph(w, "%c%s:", toupper((unsigned char)*key), key + 1);
    writer_table(w, &t);
}

static void peak(struct writer *w, const char *name, const json_t *record)
{
    writer_heading(w, 3, "Peaks of a device: %s", name);
    writer_summary(w, "%s", json_text_at(record, "device"));
    writer_paragraph(w, "%s", json_text_at(record, "device"));
    writer_code(w, "ampscale bench peak --json");
    write_rows(w, record, "copy");
    write_rows(w, record, "flops");
}

/* The names, in a report, of a benchmark and of its reference program. */
static const struct peer_sides {
    const char *bench, *ours, *theirs;
} peer_sides[] = {
    {"memory", "'bench memory'", "a separate program with STREAM's loops"},
    {"conv", "'bench conv'", "oneDNN called directly in its fastest way"},
    {"gemm", "'bench gemm'", "oneDNN called directly in its fastest way"},
};

static void peers_headline(struct writer *w, const json_t *record, const struct peer_sides *sides)
{
    const json_t *rows = json_object_get(record, "rows");
    double least = INFINITY, most = -INFINITY, limit = json_number_at(record, "limit");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        least = fmin(least, json_number_at(json_array_get(rows, i), "ratio"));
        most = fmax(most, json_number_at(json_array_get(rows, i), "ratio"));
    }
    if (least <= most)
        writer_headline(w,
                        "%s takes %.2f to %.2f times the time of %s; %s row is above %.2f in every "
                        "round.",
                        sides->ours, least, most, sides->theirs,
                        json_is_true(json_object_get(record, "passed")) ? "no" : "some", limit);
}

/* Writes the section of a benchmark that took turns with a reference: a library or a program that
 * does the same work. */
static void peers(struct writer *w, const char *name, const json_t *record)
{
    const char *bench = json_text_at(record, "bench"), *peer = json_text_at(record, "peer");
    struct peer_sides sides = {bench, bench, "the reference program"};
    for (size_t i = 0; i < sizeof peer_sides / sizeof *peer_sides; i++)
        if (strcmp(bench, peer_sides[i].bench) == 0)
            sides = peer_sides[i];
    writer_heading(w, 3, "Comparison with a reference program: %s", name);
    peers_headline(w, record, &sides);
    writer_paragraph(w, "%s", json_text_at(record, "device"));
    writer_paragraph(
        w,
        "%s and %s%s%s%s, in turns: medians of %.0f rounds on %.0f threads, and the ratio of times "
        "with its minimum and maximum over the rounds; a ratio above 1 means slower. A row counts "
        "as slower if its ratio is above %.2f in every round: %s.",
        sides.ours, sides.theirs, *peer ? " (" : "", peer, *peer ? ")" : "",
        json_number_at(record, "rounds"), json_number_at(record, "threads"),
        json_number_at(record, "limit"),
        json_is_true(json_object_get(record, "passed")) ? "no row does" : "some rows do");
    write_command(w, "tests/peers/bench_peers.py ", bench, " build/release");
    write_rows(w, record, "rows");
}

/* ---- the gate ---- */

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
static void gate_headline(struct writer *w, const json_t *workloads, double threshold)
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

/* Writes the error rates of `ampscale compare`, which tests/compare/experiment.py measures. */
static void gate_quality(struct writer *w, const char *name, const json_t *record)
{
    const json_t *workloads = json_object_get(record, "workloads");
    struct table t = table_begin("workload|new runs|>ratio|>trials|>regression|>inconclusive|>"
                                 "neither|>regression, sides|>inconclusive, sides");
    struct table items = {0};
    writer_heading(w, 3, "Quality of the gate: %s", name);
    gate_headline(w, workloads, json_number_at(record, "threshold"));
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

static const struct {
    const char *key, *value; /* a record of this kind has `key` with this value */
    void (*write)(struct writer *w, const char *name, const json_t *record);
} kinds[] = {
    {"bench", "overlap", overlap},
    {"bench", "peak", peak},
    {"record", "accept", section_accept},
    {"kind", "gate-quality", gate_quality},
    {"kind", "peers", peers},
    {"kind", "peer-pairs", section_peer_pairs},
    {"kind", "peer-accuracy", section_peer_accuracy},
};

record_section *section_of_record(const json_t *record)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *value = json_string_value(json_object_get(record, kinds[i].key));
        if (value && strcmp(value, kinds[i].value) == 0)
            return kinds[i].write;
    }
    return NULL;
}
