/* Writes the section of a study: tables and findings. */
#include "report/report_sections.h"

#include "base/text.h"

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

/* Adds a measure with its interval, as in "1234 (1200 to 1250)", or without an interval if it has
 * none. */
static void add_measure(struct table *t, const struct analysis_measure *m)
{
    struct table parts = {0};
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
    struct table t =
        table_begin("cell|>devices|>images per step|>images/s|>runs|>by wall "
                    "clock|>training s|>speed-up|>efficiency %|>by wall clock %|>top-1 %|verdict");
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        table_add(&t, "%s", c->name);
        table_add(&t, "%" PRId64, c->devices);
        table_add(&t, "%" PRId64, c->batch);
        add_measure(&t, &c->images_per_s);
        table_add(&t, "%" PRId64, c->images_per_s.n);
        add_measure(&t, &c->wall);
        add_measure(&t, &c->seconds);
        table_add_number(&t, c->speedup, 2);
        table_add_number(&t, 100 * c->efficiency, 1);
        table_add_number(&t, 100 * c->efficiency_wall, 1);
        table_add_number(&t, c->top1, 2);
        table_add(&t, "%s", *c->missing ? "missing" : c->verdict);
    }
    writer_heading(w, 4, "Throughput");
    writer_paragraph(
        w, "Medians over the runs, with the 95 %% bootstrap interval if there are several. Images "
           "per second are those of the steps after the warm-up; by wall clock, those of the whole "
           "run, including warm-up, validation, checkpoints and waiting. Speed-up and efficiency "
           "are relative to the first cell with the same work.");
    writer_table(w, &t);
}

static void split(struct writer *w, const struct analysis *a)
{
    struct table t = table_begin("cell|>step ms|>data %|>copy %|>forward %|>backward %|>exposed "
                                 "communication %|>optimizer %|>other %");
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        if (*c->missing)
            continue;
        table_add(&t, "%s", c->name);
        table_add_amount(&t, 1000 * step_of(c));
        for (int p = 0; p < ANALYSIS_PARTS; p++)
            table_add_number(&t, 100 * c->split[p] / step_of(c), 1);
    }
    writer_heading(w, 4, "Parts of a step");
    writer_table(w, &t);
}

/* Writes the read throughput of each cell that reads images. */
static void input(struct writer *w, const struct analysis *a)
{
    struct table t = table_begin("cell|>read MB/s|>files/s|>from storage MB/s|>device MB/s|>page "
                                 "cache %");
    bool some = false;
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        if (!isfinite(c->io.bytes_per_s))
            continue;
        some = true;
        table_add(&t, "%s", c->name);
        table_add_amount(&t, 1e-6 * c->io.bytes_per_s);
        table_add_amount(&t, c->io.files_per_s);
        table_add_amount(&t, 1e-6 * c->io.storage_bytes_per_s);
        table_add_amount(&t, 1e-6 * c->io.device_bytes_per_s);
        table_add_number(&t, c->io.cached_percent, 1);
    }
    if (!some) {
        table_free(&t);
        return;
    }
    writer_heading(w, 4, "Input");
    writer_paragraph(w, "'read' and 'files': data that the loaders read. 'from storage': data that "
                        "the processes fetched from storage. 'device': data that all processes of "
                        "the host read from the data's block device. 'page cache': the share of "
                        "the loaders' bytes that came from page caches.");
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
        snprintf(top1, sizeof top1, "; top-1 %.2f %%, at the start of the series %.2f %%",
                 last->top1, base->top1);
    table_add(items,
              "%s, %s, %s on %s, %s scaling at %" PRId64 " images %s: %" PRId64
              " devices reach %.2f times the throughput of %" PRId64
              " (efficiency %.1f %%, by wall clock %.1f %%)%s. Verdict: %s.",
              last->mode, last->precision, last->arch, last->data,
              analysis_scaling_str(last->scaling), weak ? last->batch / last->devices : last->batch,
              weak ? "a device" : "in total", last->devices, last->speedup, base->devices,
              100 * last->efficiency, 100 * last->efficiency_wall, top1, last->verdict);
}

/* Returns the cell that equals `c` except that it has the study's first precision; NULL if there is
 * no such cell or it has no result. */
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

/* Reports the speed-up of c's precision over the study's first precision. If the first precision's
 * cell is not compute-bound, adds that cell's verdict, which explains a small speed-up. */
static void say_precision(struct table *items, const struct analysis *a,
                          const struct analysis_cell *c)
{
    const struct analysis_cell *p = first_precision(a, c);
    if (!p || *c->missing || c->devices > 1)
        return;
    double gain = c->images_per_s.median / p->images_per_s.median;
    bool bound = strcmp(p->verdict, "compute-bound") != 0;
    table_add(items,
              "%s on %s, %" PRId64 " images: %s reaches %.2f times the throughput of %s%s%s%s.",
              c->arch, c->data, c->batch, c->precision, gain, p->precision,
              bound ? "; the cell is " : "", bound ? p->verdict : "",
              bound && gain < 1.05 ? ", so a faster precision gains nothing" : "");
}

/* Reports the number of cells whose repeats differ widely in speed. Other load on the machine is a
 * possible cause. */
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
                  " cells the interval of images/s is at least %.0f %% of the median: smaller "
                  "differences may be noise.",
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
    struct table items = {0};
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
    struct table t = table_begin("cell|verdict|evidence");
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        char evidence[2048] = "";
        for (int e = 0; e < c->n_evidence; e++)
            text_join(evidence, sizeof evidence, "; ", "%s", c->evidence[e]);
        table_add(&t, "%s", c->name);
        table_add(&t, "%s", *c->missing ? "missing" : c->verdict);
        table_add(&t, "%s", *c->missing ? c->missing : evidence);
    }
    writer_heading(w, 4, "Bottleneck of each cell");
    writer_table(w, &t);
}

static void thresholds(struct writer *w, const struct analysis *a)
{
    char text[1024] = "Bottleneck thresholds:";
    const char *key;
    json_t *value;
    json_object_foreach(a->thresholds, key, value)
    {
        text_append(text, sizeof text, " %.40s %.2f;", key, json_number_value(value));
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
    input(w, a);
    verdicts(w, a);
    thresholds(w, a);
}
