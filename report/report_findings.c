/* Writes the findings of a study: speed-ups, bottlenecks, precision and accuracy. */
#include "report/report_sections.h"

#include "base/digits.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- speed-ups ---- */

enum { ROWS_MAX = 64, COLUMNS_MAX = 6 };

/* A cell of a series, which has a speed-up over the first cell of the series. */
struct step {
    const struct analysis_cell *cell, *base;
    enum analysis_scaling scaling; /* of the series */
};

/* The table of speed-ups: a row for each mode and precision, a column for each kind of data and of
 * scaling. It has the first step of each row and of each column. */
struct grid {
    const struct analysis *a;
    int rows, columns;
    struct step row[ROWS_MAX], column[COLUMNS_MAX];
    bool archs; /* several networks: the rows name them */
};

/* The batch that all cells of a column share. */
static int64_t kept(const struct step *s)
{
    return s->scaling == ANALYSIS_WEAK ? s->cell->batch / s->cell->devices : s->cell->batch;
}

static bool same_row(const struct step *a, const struct step *b)
{
    const struct analysis_cell *x = a->cell, *y = b->cell;
    return strcmp(x->mode, y->mode) == 0 && strcmp(x->precision, y->precision) == 0 &&
           strcmp(x->arch, y->arch) == 0 && x->devices == y->devices;
}

static bool same_column(const struct step *x, const struct step *y)
{
    return strcmp(x->cell->data, y->cell->data) == 0 && x->scaling == y->scaling &&
           kept(x) == kept(y);
}

/* Sets *s to cell k of series i. Returns whether it is in the table: it has a speed-up. */
static bool step_at(const struct analysis *a, int64_t i, int64_t k, struct step *s)
{
    const int64_t *cell = a->series[i].cell;
    *s = (struct step){&a->cell[cell[k]], &a->cell[cell[0]], analysis_series_scaling(a, i)};
    return isfinite(s->cell->images_per_s.median / s->base->images_per_s.median);
}

/* Returns the index of the first element that `same` finds, or n. */
static int find(const struct step *list, int n, const struct step *s,
                bool (*same)(const struct step *, const struct step *))
{
    int i = 0;
    while (i < n && !same(&list[i], s))
        i++;
    return i;
}

/* Adds the row and the column of a step. Returns false if there are too many. */
static bool grid_add(struct grid *g, const struct step *s)
{
    int row = find(g->row, g->rows, s, same_row);
    int column = find(g->column, g->columns, s, same_column);
    if (row == ROWS_MAX || column == COLUMNS_MAX)
        return false;
    if (row == g->rows)
        g->row[g->rows++] = *s;
    if (column == g->columns)
        g->column[g->columns++] = *s;
    return true;
}

/* Finds rows and columns. Returns false if there are too many, or none. */
static bool grid_make(struct grid *g, const struct analysis *a)
{
    struct step s;
    *g = (struct grid){.a = a};
    for (int64_t i = 0; i < a->n_cells; i++)
        g->archs = g->archs || strcmp(a->cell[i].arch, a->cell[0].arch) != 0;
    for (int64_t i = 0; i < a->n_series; i++)
        for (int64_t k = 1; k < a->series[i].n; k++)
            if (step_at(a, i, k, &s) && !grid_add(g, &s))
                return false;
    return g->rows > 0;
}

static struct table headings(const struct grid *g)
{
    struct table t = {.columns = g->columns + 1};
    table_add(&t, "mode and precision");
    for (int i = 0; i < g->columns; i++) {
        const struct step *c = &g->column[i];
        bool weak = c->scaling == ANALYSIS_WEAK;
        table_add(&t, "%s, %s, batch %" PRId64 "%s", c->cell->data,
                  analysis_scaling_str(c->scaling), kept(c), weak ? " per device" : " in total");
    }
    return t;
}

static void add_name(struct table *t, const struct grid *g, const struct analysis_cell *c)
{
    char precision[ANALYSIS_TEXT_SIZE];
    table_add(t, "%s %s%s%s, %" PRId64 " devices", c->mode, analysis_precision_label(c, precision),
              g->archs ? " " : "", g->archs ? c->arch : "", c->devices);
}

/* Writes "96 %", and "96 % (88 to 98 %)" if there is an interval. */
static void percent(char out[DIGITS_SIZE], double x, double low, double high)
{
    char text[DIGITS_SIZE];
    digits_interval(text, x, low, high);
    size_t n = strcspn(text, " ");
    if (text[n])
        snprintf(out, DIGITS_SIZE, "%.*s %% %.*s %%)", (int)n, text, (int)strlen(text + n) - 2,
                 text + n + 1);
    else
        snprintf(out, DIGITS_SIZE, "%.100s %%", text);
}

static enum status add_step(struct table *t, const struct analysis *a, const struct step *found)
{
    double ratio = found->cell->images_per_s.median / found->base->images_per_s.median, low, high;
    double per_device = 100 * (double)found->base->devices / (double)found->cell->devices;
    char speedup[DIGITS_SIZE], efficiency[DIGITS_SIZE], verdict[ANALYSIS_TEXT_SIZE];
    TRY(analysis_ratio_interval(&found->cell->images_per_s, &found->base->images_per_s, &low,
                                &high));
    percent(efficiency, ratio * per_device, low * per_device, high * per_device);
    digits_interval(speedup, ratio, low, high);
    table_add(t, "%.*sx, %s, %s", (int)strcspn(speedup, " "), speedup, efficiency,
              analysis_verdict_label(a, found->cell, verdict));
    return STATUS_OK;
}

/* Adds the step of a row and a column to the table. */
static enum status add_found(struct table *t, const struct grid *g, const struct step *row,
                             const struct step *column)
{
    struct step s;
    for (int64_t i = 0; i < g->a->n_series; i++)
        for (int64_t k = 1; k < g->a->series[i].n; k++)
            if (step_at(g->a, i, k, &s) && same_row(&s, row) && same_column(&s, column))
                return add_step(t, g->a, &s);
    table_add(t, "\u2013");
    return STATUS_OK;
}

static enum status add_row(struct table *t, const struct grid *g, const struct step *row)
{
    add_name(t, g, row->cell);
    for (int k = 0; k < g->columns; k++)
        TRY(add_found(t, g, row, &g->column[k]));
    return STATUS_OK;
}

/* Writes a heading and the table of speed-ups. Writes nothing if no cell has a speed-up, or if the
 * study has more rows or columns than a reader can survey: the table of all cells has the numbers
 * then. */
static void scaling_table(struct writer *w, const struct analysis *a)
{
    struct grid g;
    enum status st = STATUS_OK;
    if (!grid_make(&g, a))
        return;
    struct table t = headings(&g);
    for (int i = 0; i < g.rows && st == STATUS_OK; i++)
        st = add_row(&t, &g, &g.row[i]);
    writer_heading(w, 4, "Scaling");
    writer_paragraph(w, "Speed-up over the series' first cell, efficiency with its 95 %% bootstrap "
                        "interval, and bottleneck.");
    writer_table(w, &t);
    w->st = w->st == STATUS_OK ? st : w->st;
}

/* ---- ranges ---- */

/* The values of several cells, and what their intervals cover together. */
struct range {
    int64_t n;
    double least, most, low, high;
    double last_low, first_high; /* the intervals have a common part if last_low <= first_high */
    bool whole;                  /* each value has an interval */
};

static void range_add(struct range *r, double x, double low, double high)
{
    if (!isfinite(x))
        return;
    bool first = r->n++ == 0;
    r->least = first ? x : fmin(r->least, x);
    r->most = first ? x : fmax(r->most, x);
    r->low = first ? low : fmin(r->low, low);
    r->high = first ? high : fmax(r->high, high);
    r->last_low = first ? low : fmax(r->last_low, low);
    r->first_high = first ? high : fmin(r->first_high, high);
    r->whole = (first || r->whole) && isfinite(low) && isfinite(high);
}

/* Writes "16 to 20 % (95 % intervals within 5 and 28 %)", or with `unit` "x" for " %". */
static void range_say(const struct range *r, int decimals, const char *unit, char *text,
                      size_t size)
{
    char least[64], most[64];
    snprintf(least, sizeof least, "%.*f", decimals, r->least + 0.0);
    snprintf(most, sizeof most, "%.*f", decimals, r->most + 0.0);
    if (strcmp(least, most) == 0)
        text_append(text, size, "%s%s", least, unit);
    else
        text_append(text, size, "%s to %s%s", least, most, unit);
    if (r->whole)
        text_append(text, size, " (95 %% interval%s %.*f to %.*f%s)", r->n > 1 ? "s within" : "",
                    decimals, r->low, decimals, r->high, unit);
    else
        text_append(text, size, " (without an interval)");
}

/* ---- bottlenecks ---- */

/* The verdict of a cell without the number of the rank that is slow. */
static const char *kind_of(const struct analysis_cell *c)
{
    return strncmp(c->verdict, "slow rank", 9) == 0 ? "slow rank" : c->verdict;
}

/* Whether a cell has a result, and this verdict. */
static bool is_of(const struct analysis_cell *c, const char *kind)
{
    return !*c->missing && strcmp(kind_of(c), kind) == 0;
}

/* The properties of cells by which a finding describes them. */
enum property { MODE, PRECISION, DATA, DEVICES, PROPERTIES };

static const char *value_of(const struct analysis_cell *c, enum property p,
                            char out[ANALYSIS_TEXT_SIZE])
{
    if (p == PRECISION)
        return analysis_precision_label(c, out);
    snprintf(out, ANALYSIS_TEXT_SIZE, "%" PRId64, c->devices);
    return p == MODE ? c->mode : p == DATA ? c->data : out;
}

/* Appends the different values of a property of the cells with a verdict: "dp, ddp". */
static void join_values(char *text, size_t size, const struct analysis *a, const char *kind,
                        enum property p)
{
    char all[1024] = "";
    for (int64_t i = 0; i < a->n_cells; i++) {
        char own[ANALYSIS_TEXT_SIZE], padded[400], seen[1100];
        const struct analysis_cell *c = &a->cell[i];
        if (!is_of(c, kind))
            continue;
        const char *name = value_of(c, p, own);
        snprintf(padded, sizeof padded, ", %s,", name);
        snprintf(seen, sizeof seen, ", %s,", all);
        if (!strstr(seen, padded))
            text_join(all, sizeof all, ", ", "%s", name);
    }
    text_join(text, size, "; ", "%s", all);
    if (p == DEVICES)
        text_append(text, size, " device%s", strcmp(all, "1") == 0 ? "" : "s");
}

/* The loss of a ratio of throughputs, percent; 0 for a gain. */
static double lost(double ratio)
{
    return ratio >= 1 ? 0 : 100 - 100 * ratio;
}

/* Adds the loss of throughput of a cell, percent: of a loader-bound cell, relative to the same cell
 * with synthetic data; of another, relative to ideal scaling. */
static enum status add_loss(struct range *r, const struct analysis *a,
                            const struct analysis_cell *c, bool loader)
{
    struct scaling s;
    double low, high;
    if (loader) {
        const struct analysis_cell *p = analysis_synthetic(a, c);
        if (!p)
            return STATUS_OK;
        TRY(analysis_ratio_interval(&c->images_per_s, &p->images_per_s, &low, &high));
        range_add(r, lost(c->images_per_s.median / p->images_per_s.median), lost(high), lost(low));
        return STATUS_OK;
    }
    if (!analysis_base(a, c))
        return STATUS_OK;
    TRY(analysis_scaling(a, c, false, &s));
    range_add(r, lost(s.efficiency / 100), lost(s.efficiency_high / 100),
              lost(s.efficiency_low / 100));
    return STATUS_OK;
}

/* Adds a line on the cells with a verdict. */
static enum status say_verdict(struct table *items, const struct analysis *a, const char *kind)
{
    struct range loss = {0};
    int64_t n = 0;
    char text[1024] = "", cells[512] = "";
    bool loader = strncmp(kind, "loader", 6) == 0;
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        if (!is_of(c, kind))
            continue;
        n++;
        TRY(add_loss(&loss, a, c, loader));
    }
    for (enum property p = 0; p < PROPERTIES; p++)
        join_values(cells, sizeof cells, a, kind, p);
    text_append(text, sizeof text, "%s: %" PRId64 " of %" PRId64 " cells (%s)", kind, n, a->n_cells,
                cells);
    if (loss.n > 0) {
        text_append(text, sizeof text, ". Lost against %s: ",
                    loader ? "the same cells on synthetic data" : "ideal scaling");
        range_say(&loss, 0, " %", text, sizeof text);
    }
    table_add(items, "%s.", text);
    return STATUS_OK;
}

static enum status bottlenecks(struct writer *w, const struct analysis *a)
{
    struct table items = {0};
    enum status st = STATUS_OK;
    for (int64_t i = 0; st == STATUS_OK && i < a->n_cells; i++) {
        const char *kind = kind_of(&a->cell[i]);
        bool first = !*a->cell[i].missing;
        for (int64_t k = 0; k < i; k++)
            first = first && !is_of(&a->cell[k], kind);
        if (first)
            st = say_verdict(&items, a, kind);
    }
    if (items.n > 0)
        writer_heading(w, 4, "Bottlenecks");
    writer_list(w, &items);
    return st;
}

/* ---- precision ---- */

/* Returns the cell that equals `c` except that it has the study's first precision; NULL if there is
 * no such cell or it has no result. */
static const struct analysis_cell *first_precision(const struct analysis *a,
                                                   const struct analysis_cell *c)
{
    const char *first = a->cell[0].precision;
    for (int64_t i = 0; i < a->n_cells && strcmp(c->precision, first) != 0; i++) {
        const struct analysis_cell *p = &a->cell[i];
        if (strcmp(p->precision, first) == 0 && strcmp(p->mode, c->mode) == 0 &&
            strcmp(p->arch, c->arch) == 0 && strcmp(p->data, c->data) == 0 &&
            p->scaling == c->scaling && p->devices == c->devices && p->batch == c->batch)
            return *p->missing ? NULL : p;
    }
    return NULL;
}

/* Adds a line on the throughput of c's precision on one device, relative to the first precision. */
static enum status say_precision(struct table *items, const struct analysis *a,
                                 const struct analysis_cell *c)
{
    struct range gain = {0};
    int64_t loader = 0, disturbed = 0, alike = 0;
    double low, high;
    char text[1024] = "", precision[ANALYSIS_TEXT_SIZE];
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *x = &a->cell[i], *p = first_precision(a, x);
        if (!p || *x->missing || x->devices > 1 || strcmp(x->precision, c->precision) != 0)
            continue;
        TRY(analysis_ratio_interval(&x->images_per_s, &p->images_per_s, &low, &high));
        range_add(&gain, x->images_per_s.median / p->images_per_s.median, low, high);
        loader += strcmp(p->verdict, "loader-bound") == 0;
        alike += !(low > 1 || high < 1);
        disturbed += x->conditions.disturbed > 0 || p->conditions.disturbed > 0;
    }
    if (gain.n == 0)
        return STATUS_OK;
    range_say(&gain, 2, "x", text, sizeof text);
    if (alike + disturbed > 0)
        text_append(text, sizeof text,
                    "; %" PRId64 " of %" PRId64 " pairs cannot be told apart, %" PRId64
                    " were disturbed",
                    alike, gain.n, disturbed);
    if (c->emulated)
        text_append(text, sizeof text, "; emulated: the speed is not the type's");
    if (loader > 0)
        text_append(text, sizeof text,
                    "; %" PRId64 " of %" PRId64 " %s cells are loader-bound: a faster precision "
                    "gains little there",
                    loader, gain.n, a->cell[0].precision);
    table_add(items, "%s: images/s relative to %s on one device: %s.",
              analysis_precision_label(c, precision), a->cell[0].precision, text);
    return STATUS_OK;
}

static enum status precisions(struct writer *w, const struct analysis *a)
{
    struct table items = {0};
    enum status st = STATUS_OK;
    for (int64_t i = 1; st == STATUS_OK && i < a->n_cells; i++) {
        bool first = true;
        for (int64_t k = 0; k < i; k++)
            first = first && strcmp(a->cell[k].precision, a->cell[i].precision) != 0;
        if (first)
            st = say_precision(&items, a, &a->cell[i]);
    }
    if (items.n > 0)
        writer_heading(w, 4, "Precision");
    writer_list(w, &items);
    return st;
}

/* ---- accuracy ---- */

/* Adds a line on the top-1 of cells with the data of `c`. Accuracy on random tensors means nothing.
 */
static void say_accuracy(struct table *items, const struct analysis *a,
                         const struct analysis_cell *c)
{
    struct range top1 = {0};
    for (int64_t i = 0; i < a->n_cells; i++)
        if (strcmp(a->cell[i].data, c->data) == 0)
            range_add(&top1, a->cell[i].top1, a->cell[i].top1_runs.low, a->cell[i].top1_runs.high);
    if (top1.n == 0)
        return;
    char text[256] = "";
    bool apart = top1.whole && top1.last_low > top1.first_high;
    range_say(&top1, 1, " %", text, sizeof text);
    table_add(items, "%s: top-1 of the last validation %s, median over the runs of a cell%s.",
              c->data, text, apart || top1.n == 1 ? "" : "; the cells cannot be told apart");
}

static void accuracy(struct writer *w, const struct analysis *a)
{
    struct table items = {0};
    for (int64_t i = 0; i < a->n_cells; i++) {
        bool first = a->cell[i].real;
        for (int64_t k = 0; k < i; k++)
            first = first && strcmp(a->cell[k].data, a->cell[i].data) != 0;
        if (first)
            say_accuracy(&items, a, &a->cell[i]);
    }
    if (items.n > 0)
        writer_heading(w, 4, "Accuracy");
    writer_list(w, &items);
}

void study_findings(struct writer *w, const struct analysis *a)
{
    scaling_table(w, a);
    enum status st = bottlenecks(w, a);
    st = st == STATUS_OK ? precisions(w, a) : st;
    accuracy(w, a);
    w->st = w->st == STATUS_OK ? st : w->st;
}
