/* Figures of scaling: which quantity of which lines, and the bars of cells. */
#include "plots/study.h"

#include "plots/study_axis.h"
#include "plots/study_panels.h"
#include "results/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* plots/templates, compiled in. */
extern const unsigned char plot_scaling[], plot_split[];

enum { AXES = 2, PARTS = ANALYSIS_PARTS };

enum lines_of { LINES_ALL, LINES_WEAK, LINES_STRONG };

/* A figure of lines; what `prepare` gets is its first member. */
struct study_figure {
    struct figure figure;
    enum lines_of lines;
    enum study_key cut;   /* the key by which it is cut first, should it have many lines */
    bool is_side_by_side; /* values are often the same */
    struct axis axis[AXES];
};

/* The drawing with what it draws from; figures get its first member. */
struct study_drawing {
    struct drawing drawing;
    const struct study_lines *lines;
    const bool *drawn; /* (lines) in this figure */
    const struct study_panels *panels;
    const struct analysis *analysis; /* NULL: none */
};

static bool is_drawn(const struct study_line *l, const struct study_figure *f)
{
    if ((f->lines == LINES_WEAK && !l->is_weak) || (f->lines == LINES_STRONG && !l->is_strong))
        return false;
    for (int k = 0; k < l->n; k++)
        for (int m = 0; m < AXES; m++)
            if (isfinite(l->point[k].value[f->axis[m].quantity].mid))
                return true;
    return false;
}

/* A cell of a table; x86 would call some NaNs "-nan". */
static void number_write(FILE *table, double x)
{
    if (isfinite(x))
        fprintf(table, " %.9g", x);
    else
        fputs(" nan", table);
}

/* devices, then for each axis middle, low, high and ideal. */
static enum status line_table(const struct study_drawing *d, const struct study_figure *f, int i)
{
    const struct study_line *l = &d->lines->line[i];
    struct atomic_file table;
    TRY(figure_table(&d->drawing, &f->figure, i, &table));
    for (int k = 0; k < l->n; k++) {
        const struct study_point *p = &l->point[k];
        fprintf(table.stream, "%.9g", p->devices);
        for (int m = 0; m < AXES; m++) {
            const struct study_value *v = &p->value[f->axis[m].quantity];
            const double of[] = {v->mid, v->low, v->high, v->ideal};
            for (int c = 0; c < 4; c++)
                number_write(table.stream, of[c]);
        }
        fputc('\n', table.stream);
    }
    enum status st = atomic_file_commit(&table);
    atomic_file_abandon(&table);
    return st;
}

/* panel_title[p], panel_lines[p] and panel_ideals[p], the lines whose ideals are drawn. */
static void panels_set(FILE *vars, const struct study_drawing *d, const struct study_figure *f)
{
    const struct study_panels *p = d->panels;
    int n = d->lines->n;
    figure_set(vars, "panels", p->n);
    fprintf(vars, "array panel_title[%d]\narray panel_lines[%d]\narray panel_ideals[%d]\n", p->n,
            p->n, p->n);
    for (int k = 0; k < p->n; k++) {
        char name[32];
        bool is_in[STUDY_LINES_MAX], ideal[STUDY_LINES_MAX];
        for (int i = 0; i < n; i++) {
            is_in[i] = p->panel[i] == k || p->panel[i] == STUDY_EVERY_PANEL;
            ideal[i] = is_in[i] && study_panels_ideal(p, d->lines, i, f->axis[0].quantity);
        }
        snprintf(name, sizeof name, "panel_title[%d]", k + 1);
        figure_set_text(vars, name, p->title[k]);
        snprintf(name, sizeof name, "panel_lines[%d]", k + 1);
        figure_set_runs(vars, name, is_in, n);
        snprintf(name, sizeof name, "panel_ideals[%d]", k + 1);
        figure_set_runs(vars, name, ideal, n);
    }
}

/* all_runs, the entries of the legend that are in use; of each line its entry, as a word of
 * `entries`, and the place among these, as a word of `places`. */
static void entries_set(FILE *vars, const struct study_drawing *d)
{
    bool used[STUDY_LINES_MAX] = {false};
    int place[STUDY_LINES_MAX], n = 0;
    for (int i = 0; i < d->lines->n; i++)
        if (d->drawn[i])
            used[d->panels->entry[i]] = true;
    for (int e = 0; e < d->panels->n_entries; e++)
        place[e] = n += used[e];
    figure_set_runs(vars, "all_runs", used, d->panels->n_entries);
    fputs("entries = '", vars);
    for (int i = 0; i < d->lines->n; i++)
        fprintf(vars, " %d", d->drawn[i] ? d->panels->entry[i] + 1 : 0);
    fputs("'\nplaces = '", vars);
    for (int i = 0; i < d->lines->n; i++)
        fprintf(vars, " %d", d->drawn[i] ? place[d->panels->entry[i]] : 0);
    fputs("'\n", vars);
}

static enum status figure_lines(const struct drawing *drawing, const struct figure *figure,
                                FILE *vars, bool *some)
{
    const struct study_drawing *d = (const struct study_drawing *)drawing;
    const struct study_figure *f = (const struct study_figure *)figure;
    int axes = f->axis[1].quantity == QUANTITY_NONE ? 1 : 2;
    bool bars = false;
    for (int i = 0; i < d->lines->n; i++) {
        if (d->drawn[i])
            TRY(line_table(d, f, i));
        *some = *some || d->drawn[i];
    }
    for (int m = 0; m < AXES; m++)
        axis_set(vars, &f->axis[m], m, axis_range(d->lines, d->drawn, f->axis[m].quantity, &bars));
    TRY(axis_devices_set(vars, d->lines, d->drawn, axes * d->panels->n > 1));
    figure_set(vars, "axes", axes);
    figure_set(vars, "has_bars", bars);
    figure_set(vars, "is_side_by_side", bars || f->is_side_by_side);
    figure_set(vars, "has_ideal", f->axis[0].quantity < QUANTITY_TOP1);
    panels_set(vars, d, f);
    entries_set(vars, d);
    return STATUS_OK;
}

static const struct study_figure figures[] = {
    {.figure = {.name = "training_throughput",
                .title = "Training throughput",
                .script = plot_scaling,
                .prepare = figure_lines},
     .cut = STUDY_ARCH,
     .axis = {{QUANTITY_RATE, "Images per second", AXIS_LOG}}},
    {.figure = {.name = "training_time",
                .title = "Training time",
                .script = plot_scaling,
                .prepare = figure_lines},
     .cut = STUDY_SCALING, /* ideals of weak and of strong scaling differ */
     .axis = {{QUANTITY_TIME, "Time of the whole training (s)", AXIS_LOG}}},
    {.figure = {.name = "efficiency",
                .title = "Efficiency of scaling",
                .script = plot_scaling,
                .prepare = figure_lines},
     .cut = STUDY_ARCH,
     .axis = {{QUANTITY_EFFICIENCY, "By throughput (%)", AXIS_FROM_ZERO},
              {QUANTITY_EFFICIENCY_WALL, "By the training's time (%)", AXIS_FROM_ZERO}}},
    {.figure = {.name = "scaling_weak",
                .title = "Weak scaling (a device's batch is kept)",
                .script = plot_scaling,
                .prepare = figure_lines},
     .lines = LINES_WEAK,
     .cut = STUDY_ARCH,
     .axis = {{QUANTITY_PER_DEVICE, "Images per second and device", AXIS_FROM_ZERO}}},
    {.figure = {.name = "scaling_strong",
                .title = "Strong scaling (the whole batch is kept)",
                .script = plot_scaling,
                .prepare = figure_lines},
     .lines = LINES_STRONG,
     .cut = STUDY_ARCH,
     .axis = {{QUANTITY_SPEEDUP, "Speed-up", AXIS_POWERS}}},
    {.figure = {.name = "accuracy",
                .title = "Accuracy of the last validation",
                .script = plot_scaling,
                .prepare = figure_lines},
     .is_side_by_side = true,
     .cut = STUDY_ARCH,
     .axis = {{QUANTITY_TOP1, "Top-1 (%)"}, {QUANTITY_TOP5, "Top-5 (%)"}}},
};
enum { N_FIGURES = sizeof figures / sizeof *figures };

/* part, left end, right end in ms, left end, right end in percent: a row a part. */
static enum status bar_table(const struct drawing *d, const struct figure *f, int i,
                             const double part[PARTS], double sum_s)
{
    struct atomic_file table;
    double left = 0;
    TRY(figure_table(d, f, i, &table));
    for (int p = 0; p < PARTS; p++) {
        double right = left + part[p];
        fprintf(table.stream, "%d %.9g %.9g %.9g %.9g\n", p + 1, 1e3 * left, 1e3 * right,
                100 * left / sum_s, 100 * right / sum_s);
        left = right;
    }
    enum status st = atomic_file_commit(&table);
    atomic_file_abandon(&table);
    return st;
}

/* A cell's parts, 0 where one is not known; returns their sum. */
static double parts_of(const struct analysis_cell *c, double part[PARTS])
{
    double sum = 0;
    for (int p = 0; p < PARTS; p++) {
        part[p] = isfinite(c->split[p]) ? fmax(0, c->split[p]) : 0;
        sum += part[p];
    }
    return sum;
}

static enum status figure_cells(const struct drawing *drawing, const struct figure *f, FILE *vars,
                                bool *some)
{
    const struct study_drawing *d = (const struct study_drawing *)drawing;
    bool has[STUDY_CELLS_MAX] = {false}, used[PARTS] = {false};
    double longest = 0;
    fprintf(vars, "array total_ms[%d]\n", drawing->n);
    for (int i = 0; i < drawing->n; i++) {
        double part[PARTS], sum = parts_of(&d->analysis->cell[i], part);
        has[i] = sum > 0;
        if (has[i])
            TRY(bar_table(drawing, f, i, part, sum));
        for (int p = 0; p < PARTS; p++)
            used[p] = used[p] || part[p] > FIGURE_VISIBLE_SHARE * sum;
        fprintf(vars, "total_ms[%d] = %.9g\n", i + 1, 1e3 * sum);
        longest = fmax(longest, 1e3 * sum);
        *some = *some || has[i];
    }
    figure_set(vars, "x_max", longest);
    figure_set_text(vars, "time_label", "Time of a step (ms)");
    figure_set_runs(vars, "all_runs", has, drawing->n);
    figure_set_runs(vars, "used_parts", used, PARTS);
    return STATUS_OK;
}

static const struct figure cells_figure = {.name = "cell_split",
                                           .title = "Parts of a step, cell by cell",
                                           .script = plot_split,
                                           .prepare = figure_cells};

/* Draws one figure, or removes what an earlier drawing left of it and says that it is left out. */
static enum status figure_make(const struct drawing *d, const struct figure *f, const char *out,
                               bool *any)
{
    bool some;
    TRY(figure_remove(f, out));
    TRY(figure_write(d, f, &some));
    *any = *any || some;
    if (some)
        return figure_draw(d, f, out);
    if (d->options->left_out)
        fprintf(d->options->left_out, "%s: left out, nothing was measured for it\n", f->name);
    return STATUS_OK;
}

static enum status lines_make(const struct study_drawing *common, const char *out, bool *any)
{
    for (int k = 0; k < N_FIGURES; k++) {
        struct study_drawing d = *common;
        struct study_panels panels;
        bool drawn[STUDY_LINES_MAX];
        for (int i = 0; i < d.lines->n; i++)
            drawn[i] = is_drawn(&d.lines->line[i], &figures[k]);
        study_panels_choose(d.lines, drawn, figures[k].cut, &panels);
        d.drawn = drawn;
        d.panels = &panels;
        d.drawing.n = panels.n_entries;
        d.drawing.label = panels.label;
        TRY(figure_make(&d.drawing, &figures[k].figure, out, any));
    }
    return STATUS_OK;
}

static enum status cells_make(const struct study_drawing *common, const char *out, bool *any)
{
    struct study_drawing d = *common;
    char label[STUDY_CELLS_MAX][FIGURE_LABEL_MAX];
    int64_t n = d.analysis ? d.analysis->n_cells : 0;
    d.drawing.n = (int)(n < STUDY_CELLS_MAX ? n : STUDY_CELLS_MAX);
    d.drawing.label = label;
    if (n == 0)
        return figure_remove(&cells_figure, out);
    for (int i = 0; i < d.drawing.n; i++)
        text_clean(label[i], sizeof label[i], d.analysis->cell[i].name);
    return figure_make(&d.drawing, &cells_figure, out, any);
}

static void say_left_out(const struct analysis *a, int published, FILE *out)
{
    int64_t series = (a ? a->n_series : 0) + published, cells = a ? a->n_cells : 0;
    if (out && series > STUDY_LINES_MAX)
        fprintf(out, "%" PRId64 " of %" PRId64 " series are left out\n", series - STUDY_LINES_MAX,
                series);
    if (out && cells > STUDY_CELLS_MAX)
        fprintf(out, "cell_split: %" PRId64 " of %" PRId64 " cells are left out\n",
                cells - STUDY_CELLS_MAX, cells);
}

static enum status lines_of(struct study_lines *lines, const struct analysis *a,
                            const struct published_series *const *published, int n)
{
    if (a)
        TRY(study_lines_add(lines, a));
    for (int i = 0; i < n; i++)
        TRY(study_lines_add_published(lines, published[i]));
    return STATUS_OK;
}

enum status plot_study(const struct analysis *a, const struct published_series *const *published,
                       int n, const char *out, const struct plot_options *options)
{
    enum status st;
    struct study_lines lines = {.n = 0};
    struct study_drawing d = {.drawing = {.options = options}, .lines = &lines, .analysis = a};
    bool any = false;
    CHECK(path_format(d.drawing.data, sizeof d.drawing.data, "%s/data", out));
    CHECK(dir_make(d.drawing.data));
    CHECK(lines_of(&lines, a, published, n));
    say_left_out(a, n, options->left_out);
    CHECK(lines_make(&d, out, &any));
    CHECK(cells_make(&d, out, &any));
    if (!any)
        st = status_fail(STATUS_DATA, "nothing to draw: no cell of the study has a result");
done:
    study_lines_free(&lines);
    return st;
}
