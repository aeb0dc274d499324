/* Writes the section on runs that are compared with each other. */
#include "report/report_sections.h"

#include "base/json.h"
#include "base/text_new.h"
#include "base/words.h"
#include "report/report_figures.h"
#include "report/report_groups.h"
#include "report/report_quality.h"
#include "results/noise.h"
#include "results/outcome.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    const char *state = run->summary ? "complete" : run_state_str(outcome_recorded(run));
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
        table_begin("run|network|precision|mode|>batch|>epochs|>top-1 %|>top-5 %|state");
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
    groups_free(&groups);
    return st;
}
