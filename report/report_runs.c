/* Writes the section on runs that are compared with each other: a table of the runs, and means over
 * the seeds. */
#include "report/report_sections.h"

#include "base/array.h"
#include "base/json.h"
#include "base/stats.h"
#include "base/text.h"
#include "base/text_new.h"
#include "base/words.h"
#include "results/noise.h"
#include "results/outcome.h"
#include "results/run_key.h"

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
    double mean;
    const struct run *first;
};

static const struct epoch_record *last_validated(const struct run *run)
{
    for (int64_t i = run->n_epochs - 1; i >= 0; i--)
        if (run->epoch[i].val_images > 0)
            return &run->epoch[i];
    return NULL;
}

static void say_precision(const struct run *run, char *out, size_t size)
{
    bool emulated = json_is_true(run_config(run, "emulated"));
    snprintf(out, size, "%s%s", run_config_text(run, "precision", "fp32"),
             emulated ? ", emulated" : "");
}

static void group_add(struct group *groups, int *n, const struct run *run)
{
    char key[sizeof groups->key];
    const struct epoch_record *e = last_validated(run);
    int at = 0;
    run_key(run, key, sizeof key);
    while (at < *n && strcmp(groups[at].key, key) != 0)
        at++;
    struct group *g = &groups[at];
    if (at == *n) {
        *g = (struct group){.first = run};
        snprintf(g->key, sizeof g->key, "%s", key);
        say_precision(run, g->precision, sizeof g->precision);
        (*n)++;
    }
    if (run->summary && e && isfinite(e->val_top1))
        g->top1[g->n++] = e->val_top1;
}

static void add_run(struct table *t, const struct run *run)
{
    char text[64], noise[NOISE_TEXT_MAX];
    const struct epoch_record *e = last_validated(run);
    table_add(t, "%s", run->name);
    table_add(t, "%s", run_config_text(run, "arch", ""));
    say_precision(run, text, sizeof text);
    table_add(t, "%s", text);
    table_add(t, "%s", run_config_text(run, "mode", "nd"));
    table_add(t, "%" PRId64, run_config_count(run, "batch_size", 0));
    table_add(t, "%" PRId64, run->n_epochs);
    table_add_number(t, e ? e->val_top1 : NAN, 2);
    table_add_number(t, e ? e->val_top5 : NAN, 2);
    int64_t left_out = run_left_out(run);
    const char *state = run->summary ? "complete" : run_state_str(outcome_recorded(run));
    const char *disturbed = noise_recorded(run->summary, noise) ? ", disturbed: " : "";
    if (left_out > 0)
        table_add(t, "%s, %" PRId64 " undecodable images skipped%s%s", state, left_out, disturbed,
                  noise);
    else
        table_add(t, "%s%s%s", state, disturbed, noise);
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
    table_add_number(t, run->elapsed, 1);
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
    struct table t = table_begin("run|>training s|>images/s|>by wall clock|time to accuracy|>read "
                                 "MB/s|>files/s|>from storage MB/s|>page cache %");
    for (int i = 0; i < n; i++)
        add_cost(&t, runs[i]);
    writer_paragraph(
        w, "'training s': the whole training. 'images/s': the median step. 'by wall clock': images "
           "per second of the whole training. 'read' and 'files': data that the loaders read. "
           "'from storage': data that the processes fetched from storage. 'page cache': the share "
           "of the read bytes that came from page caches.");
    writer_table(w, &t);
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

static void each_run(struct writer *w, struct run *const *runs, int n)
{
    struct table t =
        table_begin("run|network|precision|mode|>batch|>epochs|>top-1 %|>top-5 %|state");
    for (int i = 0; i < n; i++)
        add_run(&t, runs[i]);
    writer_table(w, &t);
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
    size_t n = json_array_size(run->commands);
    TRY(text_stream_open(&s));
    for (size_t i = 0; i < n; i++) {
        const json_t *attempt = json_array_get(run->commands, i);
        const json_t *next = json_array_get(run->commands, i + 1);
        print_command(s.out, json_object_get(attempt, "argv"), n > 1);
        if (next)
            fprintf(s.out, "   # stopped; resumed after step %.0f\n", json_number_at(next, "step"));
    }
    TRY(text_stream_close(&s));
    writer_code(w, s.text);
    free(s.text);
    return STATUS_OK;
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

static void compare(struct writer *w, struct group *groups, int n)
{
    struct table t =
        table_begin("precision|>seeds|>mean top-1 %|>standard deviation|>difference to first row");
    for (int i = 0; i < n; i++) {
        struct group *g = &groups[i];
        if (g->n == 0 && n > 1)
            continue;
        g->mean = g->n ? stats_mean(g->top1, g->n) : NAN;
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

static int by_precision(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    bool x_fp32 = strcmp(x->precision, "fp32") == 0, y_fp32 = strcmp(y->precision, "fp32") == 0;
    return x_fp32 != y_fp32 ? y_fp32 - x_fp32 : strcmp(x->precision, y->precision);
}

enum status section_runs(struct writer *w, struct run *const *runs, int n)
{
    struct group *groups;
    enum status st = STATUS_OK;
    int n_groups = 0;
    TRY(array_new(&groups, REPORT_MAX_RUNS));
    for (int i = 0; i < n; i++)
        group_add(groups, &n_groups, runs[i]);
    qsort(groups, (size_t)n_groups, sizeof *groups, by_precision);
    if (n > n_groups)
        compare(w, groups, n_groups);
    writer_paragraph(w, "%s",
                     n > n_groups ? "Command of the run with the first seed:" : "Command:");
    for (int i = 0; i < n_groups; i++)
        CHECK(say_command(w, groups[i].first));
    each_run(w, runs, n);
    each_cost(w, runs, n);
done:
    free(groups);
    return st;
}
