/* Writes the table of a study's speed-ups: a row for each mode and precision, a column for each
 * kind of data and of scaling. */
#include "report/report_study.h"

#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS_MAX = 64, COLUMNS_MAX = 6 };

/* The first cell of each row and of each column. */
struct grid {
    const struct analysis *a;
    int rows, columns;
    const struct analysis_cell *row[ROWS_MAX], *column[COLUMNS_MAX];
    bool archs; /* several networks: the rows name them */
};

/* The batch that all cells of a column share. */
static int64_t kept(const struct analysis_cell *c)
{
    return c->scaling == ANALYSIS_WEAK ? c->batch / c->devices : c->batch;
}

static bool same_row(const struct analysis_cell *x, const struct analysis_cell *y)
{
    return strcmp(x->mode, y->mode) == 0 && strcmp(x->precision, y->precision) == 0 &&
           strcmp(x->arch, y->arch) == 0 && x->devices == y->devices;
}

static bool same_column(const struct analysis_cell *x, const struct analysis_cell *y)
{
    return strcmp(x->data, y->data) == 0 && x->scaling == y->scaling && kept(x) == kept(y);
}

/* Whether the cell is in the table: it has a speed-up relative to another cell. */
static bool scales(const struct analysis *a, const struct analysis_cell *c)
{
    return isfinite(c->speedup) && analysis_base(a, c);
}

/* Returns the index of the first element that `same` finds, or n. */
static int find(const struct analysis_cell *const *list, int n, const struct analysis_cell *c,
                bool (*same)(const struct analysis_cell *, const struct analysis_cell *))
{
    int i = 0;
    while (i < n && !same(list[i], c))
        i++;
    return i;
}

/* Finds rows and columns. Returns false if there are too many, or none. */
static bool grid_make(struct grid *g, const struct analysis *a)
{
    *g = (struct grid){.a = a};
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        g->archs = g->archs || strcmp(c->arch, a->cell[0].arch) != 0;
        if (!scales(a, c))
            continue;
        int row = find(g->row, g->rows, c, same_row);
        int column = find(g->column, g->columns, c, same_column);
        if (row == ROWS_MAX || column == COLUMNS_MAX)
            return false;
        if (row == g->rows)
            g->row[g->rows++] = c;
        if (column == g->columns)
            g->column[g->columns++] = c;
    }
    return g->rows > 0;
}

static struct table headings(const struct grid *g)
{
    struct table t = {.columns = g->columns + 1};
    table_add(&t, "mode and precision");
    for (int i = 0; i < g->columns; i++) {
        const struct analysis_cell *c = g->column[i];
        bool weak = c->scaling == ANALYSIS_WEAK;
        table_add(&t, "%s, %s, batch %" PRId64 "%s", c->data, analysis_scaling_str(c->scaling),
                  kept(c), weak ? " per device" : " in total");
    }
    return t;
}

static void add_name(struct table *t, const struct grid *g, const struct analysis_cell *c)
{
    char precision[ANALYSIS_TEXT_SIZE];
    table_add(t, "%s %s%s%s, %" PRId64 " devices", c->mode, analysis_precision_label(c, precision),
              g->archs ? " " : "", g->archs ? c->arch : "", c->devices);
}

static enum status add_cell(struct table *t, const struct grid *g, const struct analysis_cell *c)
{
    struct scaling s;
    char speedup[DIGITS_SIZE], percent[DIGITS_SIZE], verdict[ANALYSIS_TEXT_SIZE];
    TRY(analysis_scaling(g->a, c, false, &s));
    study_percent(percent, s.efficiency, s.efficiency_low, s.efficiency_high);
    digits_interval(speedup, s.speedup, s.low, s.high);
    table_add(t, "%.*sx, %s, %s", (int)strcspn(speedup, " "), speedup, percent,
              analysis_verdict_label(g->a, c, verdict));
    return STATUS_OK;
}

static enum status add_row(struct table *t, const struct grid *g, const struct analysis_cell *row)
{
    add_name(t, g, row);
    for (int k = 0; k < g->columns; k++) {
        const struct analysis_cell *found = NULL;
        for (int64_t i = 0; i < g->a->n_cells && !found; i++) {
            const struct analysis_cell *c = &g->a->cell[i];
            if (same_row(c, row) && same_column(c, g->column[k]) && scales(g->a, c))
                found = c;
        }
        if (found)
            TRY(add_cell(t, g, found));
        else
            table_add(t, "\u2013");
    }
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
        st = add_row(&t, &g, g.row[i]);
    writer_heading(w, 4, "Scaling");
    writer_paragraph(w, "Speed-up over the series' first cell, efficiency with its 95 %% bootstrap "
                        "interval, and bottleneck.");
    writer_table(w, &t);
    w->st = w->st == STATUS_OK ? st : w->st;
}
