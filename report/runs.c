/* Runs that were trained to be compared: each of them, and means over the seeds. */
#include "report/sections.h"

#include "base/shell.h"
#include "base/stats.h"
#include "results/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Runs that differ in their seeds alone. */
struct group {
    char key[1024];
    char precision[64]; /* with ", emulated" */
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
    char text[48];
    text_clean(text, sizeof text, run_config_text(run, "precision", "fp32"));
    bool emulated = json_is_true(json_object_get(json_object_get(run->info, "config"), "emulated"));
    snprintf(out, size, "%s%s", text, emulated ? ", emulated" : "");
}

/* Settings that results depend on, as JSON; records from before there was a setting mean what it is
 * by default. The same data may lie in another folder: it is told by its number of images. */
static void group_key(const struct run *run, char *out, size_t size)
{
    static const char *const setting[][2] = {{"arch", ""},
                                             {"precision", ""},
                                             {"emulated", ""},
                                             {"batch_size", ""},
                                             {"image_size", ""},
                                             {"epochs", ""},
                                             {"steps", ""},
                                             {"lr", ""},
                                             {"lr_schedule", ""},
                                             {"momentum", ""},
                                             {"classes", ""},
                                             {"weight_decay", ""},
                                             {"warmup_epochs", ""},
                                             {"label_smoothing", ""},
                                             {"mode", "\"nd\""},
                                             {"world_size", "1"},
                                             {"devices_per_rank", "1"},
                                             {"accumulate", "1"},
                                             {"sync_bn", "false"},
                                             {"lars", "0.0"},
                                             {"lr_scale", "\"none\""},
                                             {"grad_compress", "\"fp32\""}};
    const json_t *config = json_object_get(run->info, "config");
    snprintf(out, size, "%" PRId64, run->n_epochs ? run->epoch[0].train_images : 0);
    for (size_t i = 0; i < sizeof setting / sizeof *setting; i++) {
        char *text = json_dumps(json_object_get(config, setting[i][0]), JSON_ENCODE_ANY);
        size_t used = strlen(out);
        snprintf(out + used, size - used, " %s", text ? text : setting[i][1]);
        free(text);
    }
}

static void group_add(struct group *groups, int *n, const struct run *run)
{
    char key[sizeof groups->key];
    const struct epoch_record *e = last_validated(run);
    int at = 0;
    group_key(run, key, sizeof key);
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
    char text[64];
    const struct epoch_record *e = last_validated(run);
    table_add(t, "%s", run->name);
    text_clean(text, sizeof text, run_config_text(run, "arch", ""));
    table_add(t, "%s", text);
    say_precision(run, text, sizeof text);
    table_add(t, "%s", text);
    text_clean(text, sizeof text, run_config_text(run, "mode", "nd"));
    table_add(t, "%s", text);
    table_add(t, "%" PRId64, run_config_count(run, "batch_size", 0));
    table_add(t, "%" PRId64, run->n_epochs);
    table_add_number(t, e ? e->val_top1 : NAN, 2);
    table_add_number(t, e ? e->val_top5 : NAN, 2);
    int64_t left_out = run_left_out(run);
    const char *state = run->summary ? "complete" : "did not end in order";
    if (left_out > 0)
        table_add(t, "%s, %" PRId64 " images left out", state, left_out);
    else
        table_add(t, "%s", state);
}

static void each_run(struct writer *w, struct run *const *runs, int n)
{
    static const char *const headings[] = {"run",     "network",  "precision", "mode", ">batch",
                                           ">epochs", ">top-1 %", ">top-5 %",  "state"};
    struct table t = table_begin(9, headings);
    for (int i = 0; i < n; i++)
        add_run(&t, runs[i]);
    writer_table(w, &t);
}

/* The command line that a run was started with, without the folder that it was kept in. */
static void say_command(struct writer *w, const struct run *run)
{
    char *line = NULL;
    size_t size;
    FILE *out = open_memstream(&line, &size);
    const json_t *argv = json_object_get(run->info, "argv");
    if (!out) {
        w->st = status_fail(STATUS_OOM, "no memory for a command line");
        return;
    }
    for (size_t i = 0; i < json_array_size(argv); i++) {
        const char *value = json_string_value(json_array_get(argv, i));
        const char *word = value ? value : "?";
        char clean[512];
        if (strcmp(word, "--out") == 0) {
            i++;
            continue;
        }
        text_clean(clean, sizeof clean, word);
        if (i == 0) { /* "ampscale train", in one */
            char *rest = clean, *part;
            for (bool first = true; (part = strsep(&rest, " ")); first = false) {
                if (!first)
                    fputc(' ', out);
                shell_word(out, part);
            }
            continue;
        }
        fputc(' ', out);
        shell_word(out, clean);
    }
    if (fclose(out) == 0)
        writer_code(w, line);
    else
        w->st = status_fail(STATUS_OOM, "no memory for a command line");
    free(line);
}

/* Means of seeds differ by chance: by two standard errors, in one case of twenty. */
static void say_difference(struct table *items, const struct group *first, const struct group *g)
{
    double difference = g->mean - first->mean;
    if (g->n < 2 || first->n < 2)
        return;
    double a = stats_stddev(first->top1, first->n), b = stats_stddev(g->top1, g->n);
    double chance = 2 * sqrt(a * a / first->n + b * b / g->n);
    bool more = fabs(difference) > chance * (1 + 1e-6); /* whatever the last bits are */
    table_add(items, "%s ends %.2f points %s %s, which is %s what seeds alone make (%.2f).",
              g->precision, fabs(difference), difference < 0 ? "below" : "above", first->precision,
              more ? "more than" : "within", chance);
}

static void compare(struct writer *w, struct group *groups, int n)
{
    static const char *const headings[] = {"precision", ">seeds", ">mean top-1 %",
                                           ">standard deviation", ">against the first"};
    struct table t = table_begin(5, headings);
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
    writer_paragraph(w, "Means over the seeds, of the last validation; the difference to the first "
                        "line in points.");
    writer_table(w, &t);
    struct table items = table_begin(1, NULL);
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

void section_runs(struct writer *w, struct run *const *runs, int n)
{
    struct group *groups = calloc(REPORT_MAX_RUNS, sizeof *groups);
    int n_groups = 0;
    if (!groups) {
        w->st = status_fail(STATUS_OOM, "no memory for %d runs", n);
        return;
    }
    for (int i = 0; i < n; i++)
        group_add(groups, &n_groups, runs[i]);
    qsort(groups, (size_t)n_groups, sizeof *groups, by_precision);
    if (n > n_groups)
        compare(w, groups, n_groups);
    writer_paragraph(w, "%s", n > n_groups ? "Started with, and other seeds:" : "Started with:");
    for (int i = 0; i < n_groups; i++)
        if (groups[i].n > 0 || n_groups == 1)
            say_command(w, groups[i].first);
    each_run(w, runs, n);
    free(groups);
}
