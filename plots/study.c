/* Figures of scaling: which quantity of which lines, and the bars of cells. */
#include "plots/study.h"

#include "plots/study_line.h"
#include "results/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* plots/templates, compiled in. */
extern const unsigned char plot_scaling[], plot_split[];

enum { PANELS = 2, PARTS = ANALYSIS_PARTS, TICKS_MAX = 64 };

/* An axis that spans less than this has its ticks at powers of 2. */
#define FEW_DECADES 64

/* Ticks nearer than this factor would run into each other. */
#define TICK_DISTANCE 1.18

enum lines_of { LINES_ALL, LINES_WEAK, LINES_STRONG };

struct panel {
    enum quantity quantity; /* QUANTITY_NONE: there is no second panel */
    const char *label;      /* of its axis */
    bool is_log;
    bool from_zero;
};

/* A figure of lines; what `prepare` gets is its first member. */
struct study_figure {
    struct figure figure;
    enum lines_of lines;
    struct panel panel[PANELS];
};

/* The drawing with what it draws from; figures get its first member. */
struct study_drawing {
    struct drawing drawing;
    const struct study_lines *lines;
    const struct analysis *analysis; /* NULL: none */
};

static bool is_drawn(const struct study_line *l, enum lines_of which)
{
    return which == LINES_ALL || (which == LINES_WEAK ? l->is_weak : l->is_strong);
}

/* A cell of a table; x86 would call some NaNs "-nan". */
static void number_write(FILE *table, double x)
{
    if (isfinite(x))
        fprintf(table, " %.9g", x);
    else
        fputs(" nan", table);
}

/* devices, then for each panel middle, low, high and ideal. */
static enum status line_table(const struct study_drawing *d, const struct study_figure *f, int i,
                              bool *has)
{
    const struct study_line *l = &d->lines->line[i];
    struct atomic_file table;
    TRY(figure_table(&d->drawing, &f->figure, i, &table));
    for (int k = 0; k < l->n; k++) {
        const struct study_point *p = &l->point[k];
        fprintf(table.stream, "%.9g", p->devices);
        for (int m = 0; m < PANELS; m++) {
            const struct study_value *v = &p->value[f->panel[m].quantity];
            const double of[] = {v->mid, v->low, v->high, v->ideal};
            for (int c = 0; c < 4; c++)
                number_write(table.stream, of[c]);
            *has = *has || isfinite(v->mid);
        }
        fputc('\n', table.stream);
    }
    enum status st = atomic_file_commit(&table);
    atomic_file_abandon(&table);
    return st;
}

struct range {
    double low, high;
};

static void range_take(struct range *r, double x)
{
    if (!isfinite(x))
        return;
    r->low = fmin(r->low, x);
    r->high = fmax(r->high, x);
}

/* *bars: some value has an interval. */
static struct range range_of(const struct study_lines *l, const bool *has, enum quantity q,
                             bool *bars)
{
    struct range r = {.low = INFINITY, .high = -INFINITY};
    for (int i = 0; i < l->n; i++) {
        for (int k = 0; has[i] && k < l->line[i].n; k++) {
            const struct study_value *v = &l->line[i].point[k].value[q];
            range_take(&r, v->mid);
            range_take(&r, v->low);
            range_take(&r, v->high);
            *bars = *bars || isfinite(v->high);
            range_take(&r, isfinite(v->mid) ? v->ideal : NAN);
        }
    }
    return r;
}

/* y_low1, y_high1, y_log1, y_label1: how panel m (from 0) is drawn. */
static void panel_set(FILE *vars, const struct panel *p, int m, struct range r)
{
    static const char *const names[PANELS][4] = {{"y_low1", "y_high1", "y_log1", "y_label1"},
                                                 {"y_low2", "y_high2", "y_log2", "y_label2"}};
    double margin = fmax(0.08 * (r.high - r.low), 0.02 * r.high);
    double base = r.high < FEW_DECADES * r.low ? 2 : 10; /* a decade has too few ticks */
    if (p->is_log) {
        r.low /= 1.4;
        r.high *= 1.4;
    } else {
        r.low = p->from_zero ? 0 : fmax(0, r.low - margin);
        r.high += margin;
    }
    figure_set(vars, names[m][0], isfinite(r.low) ? r.low : 0);
    figure_set(vars, names[m][1], isfinite(r.high) ? r.high : 1);
    figure_set(vars, names[m][2], p->is_log ? base : 0);
    figure_set_text(vars, names[m][3], p->label ? p->label : "");
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* x_low, x_high, and ticks = "'1' 1, '2' 2": numbers of devices that were measured. */
static enum status devices_set(FILE *vars, const struct study_lines *l, const bool *has)
{
    int n = 0, most = 0, written = 0;
    for (int i = 0; i < l->n; i++)
        most += has[i] ? l->line[i].n : 0;
    double *x = malloc((size_t)(most + 1) * sizeof *x), last = 0;
    if (!x)
        return status_fail(STATUS_OOM, "no memory for the axis of a figure");
    for (int i = 0; i < l->n; i++)
        for (int k = 0; has[i] && k < l->line[i].n; k++)
            x[n++] = l->line[i].point[k].devices;
    qsort(x, (size_t)n, sizeof *x, compare_doubles);
    fputs("ticks = \"", vars);
    for (int i = 0; i < n && written < TICKS_MAX; i++) {
        if (x[i] < TICK_DISTANCE * last)
            continue;
        fprintf(vars, "%s'%.0f' %.0f", written++ > 0 ? ", " : "", x[i], x[i]);
        last = x[i];
    }
    fputs("\"\n", vars);
    figure_set(vars, "x_low", n > 0 ? x[0] / 1.25 : 1);
    figure_set(vars, "x_high", n > 0 ? x[n - 1] * 1.25 : 2);
    free(x);
    return STATUS_OK;
}

static enum status figure_lines(const struct drawing *drawing, const struct figure *figure,
                                FILE *vars, bool *some)
{
    const struct study_drawing *d = (const struct study_drawing *)drawing;
    const struct study_figure *f = (const struct study_figure *)figure;
    bool has[STUDY_LINES_MAX] = {false}, bars = false;
    for (int i = 0; i < d->lines->n; i++) {
        if (is_drawn(&d->lines->line[i], f->lines))
            TRY(line_table(d, f, i, &has[i]));
        *some = *some || has[i];
    }
    for (int m = 0; m < PANELS; m++)
        panel_set(vars, &f->panel[m], m, range_of(d->lines, has, f->panel[m].quantity, &bars));
    TRY(devices_set(vars, d->lines, has));
    figure_set(vars, "panels", f->panel[1].quantity == QUANTITY_NONE ? 1 : 2);
    figure_set(vars, "has_bars", bars);
    figure_set(vars, "has_ideal", f->panel[0].quantity < QUANTITY_TOP1);
    figure_set_runs(vars, "all_runs", has, d->lines->n);
    return STATUS_OK;
}

static const struct study_figure figures[] = {
    {.figure = {.name = "training_throughput",
                .title = "Training throughput",
                .script = plot_scaling,
                .prepare = figure_lines},
     .panel = {{QUANTITY_RATE, "Images per second", .is_log = true}}},
    {.figure = {.name = "training_time",
                .title = "Training time",
                .script = plot_scaling,
                .prepare = figure_lines},
     .panel = {{QUANTITY_TIME, "Time of the whole training (s)", .is_log = true}}},
    {.figure = {.name = "efficiency",
                .title = "Efficiency of scaling",
                .script = plot_scaling,
                .prepare = figure_lines},
     .panel = {{QUANTITY_EFFICIENCY, "By throughput (%)", .from_zero = true},
               {QUANTITY_EFFICIENCY_WALL, "By the whole training's time (%)", .from_zero = true}}},
    {.figure = {.name = "scaling_weak",
                .title = "Weak scaling (a device's batch is kept)",
                .script = plot_scaling,
                .prepare = figure_lines},
     .lines = LINES_WEAK,
     .panel = {{QUANTITY_PER_DEVICE, "Images per second and device", .from_zero = true}}},
    {.figure = {.name = "scaling_strong",
                .title = "Strong scaling (the whole batch is kept)",
                .script = plot_scaling,
                .prepare = figure_lines},
     .lines = LINES_STRONG,
     .panel = {{QUANTITY_SPEEDUP, "Speed-up", .is_log = true}}},
    {.figure = {.name = "accuracy",
                .title = "Accuracy of the last validation",
                .script = plot_scaling,
                .prepare = figure_lines},
     .panel = {{QUANTITY_TOP1, "Top-1 (%)"}, {QUANTITY_TOP5, "Top-5 (%)"}}},
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
    struct study_drawing d = *common;
    char label[STUDY_LINES_MAX][FIGURE_LABEL_MAX];
    d.drawing.n = d.lines->n;
    d.drawing.label = label;
    for (int i = 0; i < d.lines->n; i++)
        memcpy(label[i], d.lines->line[i].label, FIGURE_LABEL_MAX);
    for (int k = 0; k < N_FIGURES; k++)
        TRY(figure_make(&d.drawing, &figures[k].figure, out, any));
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
