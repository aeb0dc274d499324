/* Groups runs by their configuration, and compares the means over the seeds. */
#include "report/report_groups.h"

#include "base/array.h"
#include "base/digits.h"
#include "base/json.h"
#include "base/stats.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct epoch_record *run_last_validated(const struct run *run)
{
    for (int64_t i = run->n_epochs - 1; i >= 0; i--)
        if (run->epoch[i].val_images > 0)
            return &run->epoch[i];
    return NULL;
}

void run_precision(const struct run *run, char *out, size_t size)
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

enum status groups_make(struct run *const *runs, int n, struct groups *groups)
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

double groups_apart(const struct groups *groups)
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

void groups_free(struct groups *groups)
{
    free(groups->v);
    *groups = (struct groups){0};
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

void groups_compare(struct writer *w, const struct groups *all)
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

void groups_headline(struct writer *w, const struct groups *groups)
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
