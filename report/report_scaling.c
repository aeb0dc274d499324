/* Writes the table of a study's speed-ups: a row for each mode and precision, a column for each
 * kind of data and of scaling. */
#include "report/report_study.h"

#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS_MAX = 64, COLUMNS_MAX = 6 };

/* A cell of a series, which has a speed-up over the first cell of the series. */
struct step {
    const struct analysis_cell *cell, *base;
    enum analysis_scaling scaling; /* of the series */
};

/* The first step of each row and of each column. */
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

static enum status add_step(struct table *t, const struct analysis *a, const struct step *found)
{
    double ratio = found->cell->images_per_s.median / found->base->images_per_s.median, low, high;
    double per_device = 100 * (double)found->base->devices / (double)found->cell->devices;
    char speedup[DIGITS_SIZE], percent[DIGITS_SIZE], verdict[ANALYSIS_TEXT_SIZE];
    TRY(analysis_ratio_interval(&found->cell->images_per_s, &found->base->images_per_s, &low,
                                &high));
    study_percent(percent, ratio * per_device, low * per_device, high * per_device);
    digits_interval(speedup, ratio, low, high);
    table_add(t, "%.*sx, %s, %s", (int)strcspn(speedup, " "), speedup, percent,
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

void study_scaling_table(struct writer *w, const struct analysis *a)
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
