/* A study in tables and words. */
#include "report/sections.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static double step_of(const struct analysis_cell *c)
{
    double step = 0;
    for (int p = 0; p < ANALYSIS_PARTS; p++)
        step += c->split[p];
    return step;
}

/* "1234 (1200 to 1250)"; without an interval the number alone. */
static void add_measure(struct table *t, const struct analysis_measure *m)
{
    struct table parts = table_begin(3, NULL);
    table_add_amount(&parts, m->median);
    table_add_amount(&parts, m->low);
    table_add_amount(&parts, m->high);
    if (parts.n < 3)
        t->failed = true;
    else if (isnan(m->low))
        table_add(t, "%s", parts.text[0]);
    else
        table_add(t, "%s (%s to %s)", parts.text[0], parts.text[1], parts.text[2]);
    table_free(&parts);
}

static void throughput(struct writer *w, const struct analysis *a)
{
    static const char *const headings[] = {
        "cell",      ">devices",      ">images a step",   ">images/s", ">runs",  ">by wall clock",
        ">speed-up", ">efficiency %", ">by wall clock %", ">top-1 %",  "verdict"};
    struct table t = table_begin(11, headings);
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        table_add(&t, "%s", c->name);
        table_add(&t, "%" PRId64, c->devices);
        table_add(&t, "%" PRId64, c->batch);
        add_measure(&t, &c->images_per_s);
        table_add(&t, "%" PRId64, c->images_per_s.n);
        add_measure(&t, &c->wall);
        table_add_number(&t, c->speedup, 2);
        table_add_number(&t, 100 * c->efficiency, 1);
        table_add_number(&t, 100 * c->efficiency_wall, 1);
        table_add_number(&t, c->top1, 2);
        table_add(&t, "%s", *c->missing ? "missing" : c->verdict);
    }
    writer_heading(w, 4, "Throughput");
    writer_paragraph(w, "Medians over the runs, with the 95 %% bootstrap interval where there are "
                        "several. Images per second are those of the steps after the warm-up; by "
                        "wall clock, those of the whole run: warm-up, validation, checkpoints and "
                        "waiting included. Speed-up and efficiency are against the first cell with "
                        "the same work.");
    writer_table(w, &t);
}

static void split(struct writer *w, const struct analysis *a)
{
    static const char *const headings[] = {"cell",
                                           ">step ms",
                                           ">data %",
                                           ">copy %",
                                           ">forward %",
                                           ">backward %",
                                           ">exposed communication %",
                                           ">optimizer %",
                                           ">other %"};
    struct table t = table_begin(9, headings);
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        if (*c->missing)
            continue;
        table_add(&t, "%s", c->name);
        table_add_amount(&t, 1000 * step_of(c));
        for (int p = 0; p < ANALYSIS_PARTS; p++)
            table_add_number(&t, 100 * c->split[p] / step_of(c), 1);
    }
    writer_heading(w, 4, "Where a step's time goes");
    writer_table(w, &t);
}

/* ---- findings ---- */

static void say_series(struct table *items, const struct analysis *a,
                       const struct analysis_series *s)
{
    const struct analysis_cell *base = &a->cell[s->cell[0]], *last = &a->cell[s->cell[s->n - 1]];
    if (!isfinite(last->speedup) || base == last)
        return;
    bool weak = last->scaling == ANALYSIS_WEAK;
    char top1[64] = "";
    if (isfinite(base->top1) && isfinite(last->top1))
        snprintf(top1, sizeof top1, "; top-1 %.2f %% against %.2f %%", last->top1, base->top1);
    table_add(items,
              "%s, %s, %s on %s, %s scaling at %" PRId64 " images %s: %" PRId64
              " devices do %.2f times what %" PRId64 " does (efficiency %.1f %%, by wall clock "
              "%.1f %%)%s. The verdict: %s.",
              last->mode, last->precision, last->arch, last->data,
              analysis_scaling_str(last->scaling), weak ? last->batch / last->devices : last->batch,
              weak ? "a device" : "in all", last->devices, last->speedup, base->devices,
              100 * last->efficiency, 100 * last->efficiency_wall, top1, last->verdict);
}

/* The same cell at the study's first precision; NULL: it is that one, or there is none. */
static const struct analysis_cell *first_precision(const struct analysis *a,
                                                   const struct analysis_cell *c)
{
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *p = &a->cell[i];
        if (strcmp(p->precision, c->precision) != 0 && strcmp(p->mode, c->mode) == 0 &&
            strcmp(p->arch, c->arch) == 0 && strcmp(p->data, c->data) == 0 &&
            p->scaling == c->scaling && p->devices == c->devices && p->batch == c->batch)
            return p < c && !*p->missing ? p : NULL;
    }
    return NULL;
}

/* What another precision gains, which is little where computing is not what holds a cell back. */
static void say_precision(struct table *items, const struct analysis *a,
                          const struct analysis_cell *c)
{
    const struct analysis_cell *p = first_precision(a, c);
    if (!p || *c->missing || c->devices > 1)
        return;
    double gain = c->images_per_s.median / p->images_per_s.median;
    bool bound = strcmp(p->verdict, "compute-bound") != 0;
    table_add(items, "%s on %s, %" PRId64 " images: %s does %.2f times what %s does%s%s%s.",
              c->arch, c->data, c->batch, c->precision, gain, p->precision,
              bound ? ", which is " : "", bound ? p->verdict : "",
              bound && gain < 1.05 ? ": a faster precision gains nothing there" : "");
}

/* How many cells a machine that was busy with other things may have touched. */
static void say_noise(struct table *items, const struct analysis *a)
{
    double limit = json_number_value(json_object_get(a->thresholds, "noise"));
    int64_t noisy = 0, several = 0;
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_measure *m = &a->cell[i].images_per_s;
        several += m->n > 1;
        noisy += m->n > 1 && limit > 0 && (m->high - m->low) / m->median >= limit;
    }
    if (noisy > 0)
        table_add(items,
                  "In %" PRId64 " of %" PRId64
                  " cells the runs spread over %.0f %% of their median "
                  "or more: what these say of speed is no more exact than that.",
                  noisy, several, 100 * limit);
}

static void say_missing(struct table *items, const struct analysis *a)
{
    int64_t missing = 0;
    for (int64_t i = 0; i < a->n_cells; i++)
        missing += *a->cell[i].missing != '\0';
    if (missing > 0)
        table_add(items, "%" PRId64 " of %" PRId64 " cells are missing.", missing, a->n_cells);
}

static void findings(struct writer *w, const struct analysis *a)
{
    struct table items = table_begin(1, NULL);
    for (int64_t i = 0; i < a->n_series; i++)
        say_series(&items, a, &a->series[i]);
    for (int64_t i = 0; i < a->n_cells; i++)
        say_precision(&items, a, &a->cell[i]);
    say_noise(&items, a);
    say_missing(&items, a);
    writer_heading(w, 4, "Findings");
    writer_list(w, &items);
}

static void verdicts(struct writer *w, const struct analysis *a)
{
    static const char *const headings[] = {"cell", "verdict", "evidence"};
    struct table t = table_begin(3, headings);
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        char evidence[2048] = "";
        for (int e = 0; e < c->n_evidence; e++) {
            size_t used = strlen(evidence);
            snprintf(evidence + used, sizeof evidence - used, "%s%s", e ? "; " : "",
                     c->evidence[e]);
        }
        table_add(&t, "%s", c->name);
        table_add(&t, "%s", *c->missing ? "missing" : c->verdict);
        table_add(&t, "%s", *c->missing ? c->missing : evidence);
    }
    writer_heading(w, 4, "What holds each cell back");
    writer_table(w, &t);
}

static void thresholds(struct writer *w, const struct analysis *a)
{
    char text[1024] = "Bottleneck thresholds:";
    const char *key;
    json_t *value;
    json_object_foreach(a->thresholds, key, value)
    {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, " %.40s %.2f;", key, json_number_value(value));
    }
    text[strlen(text) - 1] = '.';
    writer_paragraph(w, "%s", text);
}

void section_study(struct writer *w, const struct analysis *a)
{
    writer_heading(w, 3, "Study %s", a->study);
    writer_paragraph(w, "%s.", a->about);
    writer_code(w, a->command);
    findings(w, a);
    throughput(w, a);
    split(w, a);
    verdicts(w, a);
    thresholds(w, a);
}
