/* Writes the section of a study: headline and tables. */
#include "base/digits.h"
#include "base/text.h"
#include "report/report_quality.h"
#include "report/report_scan.h"
#include "report/report_sections.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define POOR "The data are poor, see their quality. "

static int rank_of_mode(const struct analysis_cell *c)
{
    static const char *const modes[] = {"ddp", "ddp2", "dp"};
    int i = 0;
    while (i < 3 && strcmp(modes[i], c->mode) != 0)
        i++;
    return i;
}

/* Whether `c` goes before `other` in the choice of the headline. */
static bool is_before(const struct analysis_cell *c, const struct analysis_cell *other)
{
    int mode = rank_of_mode(c) - rank_of_mode(other);
    int precision = (strcmp(c->precision, "fp32") != 0) - (strcmp(other->precision, "fp32") != 0);
    if (mode != 0 || precision != 0)
        return mode != 0 ? mode < 0 : precision < 0;
    if (c->devices != other->devices)
        return c->devices > other->devices;
    return c->scaling == ANALYSIS_WEAK && other->scaling == ANALYSIS_STRONG;
}

/* The cell of the headline; NULL: none has a speed-up on such data. */
static const struct analysis_cell *choose(const struct analysis *a, bool real)
{
    const struct analysis_cell *best = NULL;
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        if (c->real == real && isfinite(c->speedup) && analysis_base(a, c) &&
            (!best || is_before(c, best)))
            best = c;
    }
    return best;
}

/* Appends "1.92x the throughput of one (efficiency 96 %; 95 % interval 88 to 98 %)". */
static enum status say_scaling(char *text, size_t size, const struct analysis *a,
                               const struct analysis_cell *c, bool whole)
{
    char interval[DIGITS_SIZE];
    struct scaling s;
    int64_t base = analysis_base(a, c)->devices;
    TRY(analysis_scaling(a, c, false, &s));
    digits_interval(interval, s.speedup, s.low, s.high);
    text_append(text, size, "%.*sx", (int)strcspn(interval, " "), interval);
    if (whole && base == 1)
        text_append(text, size, " the throughput of one");
    else if (whole)
        text_append(text, size, " the throughput of %" PRId64, base);
    digits_interval(interval, s.efficiency, s.efficiency_low, s.efficiency_high);
    size_t n = strcspn(interval, " ");
    text_append(text, size, " (%s%.*s %%", whole ? "efficiency " : "", (int)n, interval);
    if (interval[n])
        text_append(text, size, ", %s%.*s %%", whole ? "95 % interval " : "",
                    (int)strlen(interval + n) - 3, interval + n + 2);
    text_append(text, size, ")");
    return STATUS_OK;
}

/* The headline of a study without a speed-up. */
static void say_fastest(struct writer *w, const struct analysis *a, bool poor)
{
    const struct analysis_cell *best = NULL;
    char rate[DIGITS_SIZE], precision[ANALYSIS_TEXT_SIZE], verdict[ANALYSIS_TEXT_SIZE];
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        if (!*c->missing && (!best || c->images_per_s.median > best->images_per_s.median))
            best = c;
    }
    if (!best) {
        writer_headline(w, "No result: all %" PRId64 " cells are missing.", a->n_cells);
        return;
    }
    const struct analysis_measure *m = &best->images_per_s;
    digits_interval(rate, m->median, m->low, m->high);
    writer_headline(w, "%s%" PRId64 " device%s: %s images/s, %s %s %s on %s: %s.", poor ? POOR : "",
                    best->devices, best->devices == 1 ? "" : "s", rate, best->mode,
                    analysis_precision_label(best, precision), best->arch, best->data,
                    analysis_verdict_label(a, best, verdict));
}

/* Writes the main result of the study: the speed-up and the efficiency on synthetic data, which
 * show what scaling alone costs, and then those on real data with the verdict. Without a speed-up,
 * it is the throughput of the fastest cell. `poor`: it warns of the quality of the data. */
static void headline(struct writer *w, const struct analysis *a, bool poor)
{
    const struct analysis_cell *plain = choose(a, false), *real = choose(a, true);
    const struct analysis_cell *c = plain ? plain : real;
    char text[2048] = "", precision[ANALYSIS_TEXT_SIZE], verdict[ANALYSIS_TEXT_SIZE];
    enum status st = STATUS_OK;
    if (!c) {
        say_fastest(w, a, poor);
        return;
    }
    text_append(text, sizeof text, "%" PRId64 " devices: ", c->devices);
    CHECK(say_scaling(text, sizeof text, a, c, true));
    text_append(text, sizeof text, ", %s %s %s on %s: %s", c->mode,
                analysis_precision_label(c, precision), c->arch, c->data,
                analysis_verdict_label(a, c, verdict));
    if (plain && real) {
        text_append(text, sizeof text, ". On %s: ", real->data);
        if (real->devices != c->devices)
            text_append(text, sizeof text, "%" PRId64 " devices, ", real->devices);
        if (strcmp(real->mode, c->mode) != 0)
            text_append(text, sizeof text, "%s, ", real->mode);
        CHECK(say_scaling(text, sizeof text, a, real, false));
        text_append(text, sizeof text, ", %s", analysis_verdict_label(a, real, verdict));
    }
    writer_headline(w, "%s%s.", poor ? POOR : "", text);
done:
    w->st = w->st == STATUS_OK ? st : w->st;
}

static void add_name(struct table *t, const struct analysis_cell *c)
{
    char label[ANALYSIS_TEXT_SIZE];
    table_add(t, "%s", analysis_name_label(c, label));
}

static void add_measure(struct table *t, const struct analysis_measure *m)
{
    table_add_interval(t, m->median, m->low, m->high);
}

/* Adds the speed-up and the efficiency of a cell. */
static enum status add_scaling(struct table *t, const struct analysis *a,
                               const struct analysis_cell *c, bool wall)
{
    struct scaling s;
    TRY(analysis_scaling(a, c, wall, &s));
    table_add_interval(t, s.speedup, s.low, s.high);
    table_add_interval(t, s.efficiency, s.efficiency_low, s.efficiency_high);
    return STATUS_OK;
}

static enum status throughput(struct writer *w, const struct analysis *a)
{
    struct table t = table_begin("cell|~>devices|>images/s|>speed-up|>efficiency %|verdict");
    enum status st = STATUS_OK;
    char verdict[ANALYSIS_TEXT_SIZE];
    for (int64_t i = 0; st == STATUS_OK && i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        add_name(&t, c);
        table_add(&t, "%" PRId64, c->devices);
        add_measure(&t, &c->images_per_s);
        st = add_scaling(&t, a, c, false);
        table_add(&t, "%s", analysis_verdict_label(a, c, verdict));
    }
    writer_heading(w, 4, "Throughput");
    writer_paragraph(w,
                     "Medians over the runs of the steps after the warm-up, with 95 %% bootstrap "
                     "intervals.");
    writer_table(w, &t);
    return st;
}

static enum status more_columns(struct writer *w, const struct analysis *a)
{
    struct table t = table_begin("cell|>images per step|>runs|>by wall clock|>s of a run|"
                                 ">speed-up by wall clock|>efficiency by wall clock %|>top-1 %");
    enum status st = STATUS_OK;
    for (int64_t i = 0; st == STATUS_OK && i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        add_name(&t, c);
        table_add(&t, "%" PRId64, c->batch);
        table_add(&t, "%" PRId64, c->images_per_s.n);
        add_measure(&t, &c->wall);
        add_measure(&t, &c->seconds);
        st = add_scaling(&t, a, c, true);
        table_add_interval(&t, c->real ? c->top1 : NAN, c->top1_runs.low, c->top1_runs.high);
    }
    writer_fold(w, "By wall clock, and more columns");
    writer_paragraph(
        w, "By wall clock: images per second of the whole run, with warm-up, validation, "
           "checkpoints and waiting. A run has a fixed number of steps. Top-1: the median over the "
           "runs; not for synthetic data, whose classes are random.");
    writer_table(w, &t);
    writer_fold_end(w);
    return st;
}

static void split(struct writer *w, const struct analysis *a)
{
    struct table t = table_begin("cell|>step ms|>data %|>copy %|>forward %|>backward %|>exposed "
                                 "communication %|>optimizer %|>other %");
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        if (*c->missing)
            continue;
        add_name(&t, c);
        table_add_amount(&t, 1000 * analysis_step_s(c));
        for (int p = 0; p < ANALYSIS_PARTS; p++)
            table_add_number(&t, 100 * c->split[p] / analysis_step_s(c), 1);
    }
    writer_fold(w, "Parts of a step");
    writer_table(w, &t);
    writer_fold_end(w);
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
        add_name(&t, c);
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
    writer_fold(w, "Input");
    writer_paragraph(w, "'read' and 'files': data that the loaders read. 'from storage': data that "
                        "the processes fetched from storage. 'device': data that all processes of "
                        "the host read from the data's block device. 'page cache': the share of "
                        "the loaders' bytes that came from page caches.");
    writer_table(w, &t);
    writer_fold_end(w);
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

static void verdicts(struct writer *w, const struct analysis *a)
{
    struct table t = table_begin("cell|verdict|evidence");
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        char evidence[ANALYSIS_MAX_EVIDENCE * ANALYSIS_TEXT_SIZE] = "", verdict[ANALYSIS_TEXT_SIZE];
        for (int e = 0; e < c->n_evidence; e++)
            text_join(evidence, sizeof evidence, "; ", "%s", c->evidence[e]);
        add_name(&t, c);
        table_add(&t, "%s", analysis_verdict_label(a, c, verdict));
        table_add(&t, "%s", *c->missing ? c->missing : evidence);
    }
    writer_fold(w, "Evidence for each verdict");
    writer_table(w, &t);
    thresholds(w, a);
    writer_fold_end(w);
}

static void origin(struct writer *w, const struct analysis *a)
{
    writer_fold(w, "How the study was made");
    writer_paragraph(w, "%s.", a->about);
    writer_code(w, a->command);
    writer_fold_end(w);
}

void section_study(struct writer *w, const struct analysis *a, const struct item *item)
{
    const struct quality q = quality_of_study(a);
    writer_heading(w, 3, "Study %s", a->study);
    headline(w, a, quality_is_poor(&q));
    figures_first(w, item);
    section_quality(w, &q);
    study_findings(w, a);
    enum status st = throughput(w, a);
    st = st == STATUS_OK ? more_columns(w, a) : st;
    w->st = w->st == STATUS_OK ? st : w->st;
    split(w, a);
    input(w, a);
    verdicts(w, a);
    figures_rest(w, item);
    origin(w, a);
}
