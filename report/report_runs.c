/* Writes the section on runs: groups them by their configuration, and compares the means over the
 * seeds. */
#include "report/report_sections.h"

#include "base/array.h"
#include "base/digits.h"
#include "base/json.h"
#include "base/stats.h"
#include "base/text.h"
#include "base/text_new.h"
#include "base/words.h"
#include "report/report_quality.h"
#include "report/report_scan.h"
#include "results/noise.h"
#include "results/outcome.h"
#include "results/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Runs that differ only in their seeds. */
struct group {
    char key[RUN_KEY_SIZE];
    char precision[64]; /* the precision, then ", emulated" if it was emulated */
    int n;
    double top1[REPORT_MAX_RUNS];
    double mean; /* of top1; NAN: no run was validated */
    int rates;
    double rate[REPORT_MAX_RUNS]; /* (rates) images/s of the median step */
    const struct run *first;
};

struct groups {
    int n, runs;
    struct group *v; /* (n) fp32 first, then by precision; owned */
};

/* Returns the last epoch with a validation; NULL if no epoch was validated. */
static const struct epoch_record *run_last_validated(const struct run *run)
{
    for (int64_t i = run->n_epochs - 1; i >= 0; i--)
        if (run->epoch[i].val_images > 0)
            return &run->epoch[i];
    return NULL;
}

static void run_precision(const struct run *run, char *out, size_t size)
{
    bool emulated = json_is_true(run_config(run, "emulated"));
    snprintf(out, size, "%s%s", run_config_text(run, "precision", "fp32"),
             emulated ? ", emulated" : "");
}

static void group_add(struct groups *groups, const struct run *run)
{
    char key[RUN_KEY_SIZE];
    const struct epoch_record *e = run_last_validated(run);
    int at = 0;
    run_key(run, key, sizeof key);
    while (at < groups->n && strcmp(groups->v[at].key, key) != 0)
        at++;
    struct group *g = &groups->v[at];
    if (at == groups->n) {
        *g = (struct group){.first = run};
        snprintf(g->key, sizeof g->key, "%s", key);
        run_precision(run, g->precision, sizeof g->precision);
        groups->n++;
    }
    double rate = json_number_at(json_object_get(run->summary, "images_per_s"), "median");
    if (rate > 0 && isfinite(rate))
        g->rate[g->rates++] = rate;
    if (run->summary && e && isfinite(e->val_top1))
        g->top1[g->n++] = e->val_top1;
}

static int by_precision(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    bool x_fp32 = strcmp(x->precision, "fp32") == 0, y_fp32 = strcmp(y->precision, "fp32") == 0;
    return x_fp32 != y_fp32 ? y_fp32 - x_fp32 : strcmp(x->precision, y->precision);
}

static enum status groups_make(struct run *const *runs, int n, struct groups *groups)
{
    *groups = (struct groups){.runs = n};
    TRY(array_new(&groups->v, n));
    for (int i = 0; i < n; i++)
        group_add(groups, runs[i]);
    qsort(groups->v, (size_t)groups->n, sizeof *groups->v, by_precision);
    for (int i = 0; i < groups->n; i++) {
        struct group *g = &groups->v[i];
        g->mean = g->n ? stats_mean(g->top1, g->n) : NAN;
    }
    return STATUS_OK;
}

/* Returns how far images/s of the runs of a group differ, divided by their median: the largest of
 * all groups; NAN: no group has two runs. */
static double groups_apart(const struct groups *groups)
{
    double apart = NAN;
    for (int i = 0; i < groups->n; i++) {
        struct group *g = &groups->v[i];
        if (g->rates < 2)
            continue;
        double median = stats_median(g->rate, g->rates); /* sorts */
        apart = fmax(apart, (g->rate[g->rates - 1] - g->rate[0]) / median);
    }
    return apart;
}

/* Compares two means over seeds. If all runs differed only in their seeds, the means would differ
 * by more than two standard errors with a probability of 5 %. */
static void say_difference(struct table *items, const struct group *first, const struct group *g)
{
    double difference = g->mean - first->mean;
    if (g->n < 2 || first->n < 2)
        return;
    double a = stats_stddev(first->top1, first->n), b = stats_stddev(g->top1, g->n);
    double chance = 2 * sqrt(a * a / first->n + b * b / g->n);
    bool more = fabs(difference) > chance * (1 + 1e-6); /* the factor allows for rounding errors */
    table_add(items,
              "%s ends %.2f points %s %s, %s the difference that seeds alone explain (%.2f).",
              g->precision, fabs(difference), difference < 0 ? "below" : "above", first->precision,
              more ? "more than" : "within", chance);
}

static void groups_compare(struct writer *w, const struct groups *all)
{
    const struct group *groups = all->v;
    int n = all->n;
    struct table t =
        table_begin("precision|>seeds|>mean top-1 %|>standard deviation|>difference to first row");
    for (int i = 0; i < n; i++) {
        const struct group *g = &groups[i];
        if (g->n == 0 && n > 1)
            continue;
        table_add(&t, "%s", g->precision);
        table_add(&t, "%d", g->n);
        table_add_number(&t, g->mean, 2);
        table_add_number(&t, g->n > 1 ? stats_stddev(g->top1, g->n) : NAN, 2);
        table_add_number(&t, i ? g->mean - groups[0].mean : NAN, 2);
    }
    writer_paragraph(
        w, "Last validation, mean over the seeds; difference to the first row in points.");
    writer_table(w, &t);
    struct table items = {0};
    for (int i = 1; i < n; i++)
        say_difference(&items, &groups[0], &groups[i]);
    writer_list(w, &items);
}

/* The headline of runs of which none was validated. */
static void say_speed(struct writer *w, const struct groups *groups)
{
    const struct run *run = groups->v[0].first;
    char amount[DIGITS_SIZE], recorded[512];
    digits_amount(amount, run_images_per_s(run));
    if (run_recorded(run, recorded, sizeof recorded))
        writer_headline(w, "%s: %s in run %s.", run_config_text(run, "name", "?"),
                        *recorded ? recorded : "not complete", run->name);
    else if (run->summary)
        writer_headline(w, "%s, %s: %s images/s (mean) in run %s; no validation.",
                        run_config_text(run, "arch", "?"), groups->v[0].precision, amount,
                        run->name);
    else
        writer_headline(w, "%s, %s: run %s is not complete.", run_config_text(run, "arch", "?"),
                        groups->v[0].precision, run->name);
}

/* Writes the accuracy of each group as a headline; without a validation, the throughput. */
static void groups_headline(struct writer *w, const struct groups *groups)
{
    enum { SHOWN = 5 };
    char text[1024] = "";
    int more = 0, shown = 0;
    for (int i = 0; i < groups->n; i++) {
        const struct group *g = &groups->v[i];
        if (g->n == 0)
            continue;
        if (shown++ == SHOWN) {
            more++;
            shown--;
            continue;
        }
        text_join(text, sizeof text, "; ", "%s %.2f %%", g->precision, g->mean);
        if (g->n > 1)
            text_append(text, sizeof text, " (mean of %d seeds)", g->n);
    }
    if (shown == 0) {
        say_speed(w, groups);
        return;
    }
    if (more > 0)
        text_append(text, sizeof text, "; %d more configurations", more);
    writer_headline(w, "Top-1 of %s: %s.", run_config_text(groups->v[0].first, "arch", "?"), text);
}

static void add_run(struct table *t, const struct run *run)
{
    char text[64], noise[NOISE_TEXT_MAX], recorded[512];
    bool other = run_recorded(run, recorded, sizeof recorded);
    const struct epoch_record *e = run_last_validated(run);
    table_add(t, "%s", run->name);
    table_add(t, "%s", run_config_text(run, other ? "name" : "arch", ""));
    run_precision(run, text, sizeof text);
    table_add(t, "%s", other ? "\u2013" : text);
    table_add(t, "%s", run_config_text(run, "mode", other ? "\u2013" : "nd"));
    table_add_number(t, other ? NAN : (double)run_config_count(run, "batch_size", 0), 0);
    table_add_number(t, other ? NAN : (double)run->n_epochs, 0);
    table_add_number(t, e ? e->val_top1 : NAN, 2);
    table_add_number(t, e ? e->val_top5 : NAN, 2);
    int64_t left_out = run_left_out(run);
    const char *state = !run->summary       ? run_state_str(outcome_recorded(run))
                        : run_is_whole(run) ? "complete"
                                            : "rows are missing";
    const char *disturbed = noise_recorded(run->summary, noise) ? ", disturbed: " : "";
    if (left_out > 0)
        table_add(t, "%s, %" PRId64 " undecodable images skipped%s%s", state, left_out, disturbed,
                  noise);
    else
        table_add(t, "%s%s%s%s%s", state, *recorded ? ": " : "", recorded, disturbed, noise);
}

/* Returns the epoch with the best validation; NULL if no epoch was validated. */
static const struct epoch_record *best_validated(const struct run *run)
{
    const struct epoch_record *best = NULL;
    for (int64_t i = 0; i < run->n_epochs; i++)
        if (run->epoch[i].val_images > 0 && (!best || run->epoch[i].val_top1 > best->val_top1))
            best = &run->epoch[i];
    return best;
}

/* Adds a cell such as "61.2 s to 75 %": the time until the run reached --desired-acc or, without
 * that setting, its best validation. */
static void add_time_to_accuracy(struct table *t, const struct run *run)
{
    double target = json_number_value(run_config(run, "desired_acc"));
    const struct epoch_record *e = target > 0 ? run_reached(run) : best_validated(run);
    if (!e)
        table_add(t, "%s", target > 0 ? "not reached" : "\u2013");
    else if (target > 0)
        table_add(t, "%.1f s to %.4g %%", e->elapsed, target);
    else
        table_add(t, "%.1f s to its best, %.2f %%", e->elapsed, e->val_top1);
}

static void add_cost(struct table *t, const struct run *run)
{
    const json_t *io = json_object_get(run->summary, "io");
    const json_t *rate = json_object_get(run->summary, "images_per_s");
    table_add(t, "%s", run->name);
    table_add_amount(t, run->elapsed);
    table_add_amount(t, run_images_per_s(run));
    table_add_amount(t, json_number_at(rate, "median"));
    table_add_amount(t, json_number_at(run->summary, "images_per_s_wall"));
    add_time_to_accuracy(t, run);
    table_add_amount(t, 1e-6 * json_number_at(io, "bytes_per_s"));
    table_add_amount(t, json_number_at(io, "files_per_s"));
    table_add_amount(t, 1e-6 * json_number_at(io, "storage_bytes_per_s"));
    table_add_number(t, json_number_at(io, "cached_percent"), 1);
}

/* Writes the time, the throughput and the input rates of each run. */
static void each_cost(struct writer *w, struct run *const *runs, int n)
{
    struct table t =
        table_begin("run|>training s|>images/s|>median step|>by wall clock|time to accuracy|>read "
                    "MB/s|>files/s|>from storage MB/s|>page cache %");
    for (int i = 0; i < n; i++)
        add_cost(&t, runs[i]);
    writer_fold(w, "Time and input");
    writer_paragraph(
        w, "'training s': the whole training. 'images/s': all steps after warm-up, without "
           "validation and checkpoints; 'median step', 'by wall clock': images/s of the median "
           "step, and of the whole training. 'read' and 'files': data that the loaders read. "
           "'from storage': data that the processes fetched from storage. 'page cache': the share "
           "of the read bytes that came from page caches.");
    writer_table(w, &t);
    writer_fold_end(w);
}

/* Adds the reason why a run is not complete, if the run recorded the reason. */
static void say_failure(struct table *items, const struct run *run)
{
    char text[STATUS_MESSAGE_MAX + 256];
    enum run_state state = outcome_recorded(run);
    if (run->summary || state == RUN_UNKNOWN)
        return;
    outcome_sentence(run, state, text, sizeof text);
    table_add(items, "%s: %s", run->name, text);
}

static void each_run(struct writer *w, struct run *const *runs, int n, bool folded)
{
    struct table t =
        table_begin("run|network|precision|mode|>batch|>epochs|>last top-1 %|>last top-5 %|state");
    for (int i = 0; i < n; i++)
        add_run(&t, runs[i]);
    if (folded)
        writer_fold(w, "Each run");
    writer_table(w, &t);
    if (folded)
        writer_fold_end(w);
    struct table items = {0};
    for (int i = 0; i < n; i++)
        say_failure(&items, runs[i]);
    writer_list(w, &items);
}

/* Prints a command line. Leaves out --out if `out` is false, because only a resumed run needs it.
 */
static void print_command(FILE *to, const json_t *argv, bool out)
{
    static const char name[] = "ampscale train"; /* the record's argv[0] is this whole string */
    for (size_t i = 0; i < json_array_size(argv); i++) {
        const char *value = json_string_value(json_array_get(argv, i));
        const char *word = value ? value : "?";
        if (!out && strcmp(word, "--out") == 0) {
            i++;
            continue;
        }
        if (i == 0 && strcmp(word, name) == 0) {
            fputs(name, to);
            continue;
        }
        if (i > 0)
            fputc(' ', to);
        shell_word(to, word);
    }
}

/* Writes the command lines of a run's attempts. */
static enum status say_command(struct writer *w, const struct run *run)
{
    struct text_stream s;
    size_t n = json_array_size(run->infos);
    TRY(text_stream_open(&s));
    for (size_t i = 0; i < n; i++) {
        const json_t *attempt = json_array_get(run->infos, i);
        const json_t *next = json_array_get(run->infos, i + 1);
        print_command(s.out, json_object_get(attempt, "argv"), n > 1);
        if (next)
            fprintf(s.out, "   # stopped; resumed after step %.0f\n", json_number_at(next, "step"));
    }
    TRY(text_stream_close(&s));
    writer_code(w, s.text);
    free(s.text);
    return STATUS_OK;
}

static enum status commands(struct writer *w, const struct groups *groups)
{
    enum status st = STATUS_OK;
    writer_fold(w, "%s", groups->n > 1 || groups->runs > 1 ? "Commands" : "Command");
    if (groups->runs > groups->n)
        writer_paragraph(w, "Of the run with the first seed:");
    for (int i = 0; st == STATUS_OK && i < groups->n; i++)
        st = say_command(w, groups->v[i].first);
    writer_fold_end(w);
    return st;
}

enum status section_runs(struct writer *w, struct run *const *runs, int n, const struct item *item)
{
    struct quality q = quality_of_runs(runs, n);
    struct groups groups;
    TRY(groups_make(runs, n, &groups));
    q.apart = groups_apart(&groups);
    groups_headline(w, &groups);
    figures_first(w, item);
    section_quality(w, &q);
    if (n > groups.n)
        groups_compare(w, &groups);
    each_run(w, runs, n, n > groups.n);
    each_cost(w, runs, n);
    figures_rest(w, item);
    enum status st = commands(w, &groups);
    free(groups.v);
    return st;
}
