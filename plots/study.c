/* Draws the figures of a study: lines of a quantity by number of devices, learning curves, and bars
 * of the parts of a step. */
#include "base/text.h"
#include "plots/study_axis.h"
#include "plots/study_panels.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* plots/templates, compiled in. */
extern const unsigned char plot_scaling[], plot_split[];

enum { AXES = 2, CELLS_MAX = FIGURE_BARS_MAX };
_Static_assert((int)ANALYSIS_PARTS == (int)FIGURE_PARTS,
               "a bar must have the same parts as a step");

enum lines_of { LINES_ALL, LINES_WEAK, LINES_STRONG };

/* A figure of lines. `prepare` receives a pointer to the member `figure`, and casts it to a pointer
 * to this struct. */
struct study_figure {
    struct figure figure;
    enum lines_of lines;
    bool is_side_by_side; /* points of different lines are drawn side by side, because their values
                           * often coincide */
    bool is_curve;        /* the x axis is of epochs, and there is a line for each cell */
    bool is_sloped;       /* the ideal varies with the number of devices. Points are not moved
                           * sideways, because they could cross the line of the ideal */
    struct axis axis[AXES];
};

/* A drawing and its data. Figures receive a pointer to the member `drawing`, and cast it to a
 * pointer to this struct. */
struct study_drawing {
    struct drawing drawing;
    const struct study_lines *lines;
    const bool *drawn; /* (lines) whether this figure has the line */
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

/* Writes rows: the number of devices or of epochs, then for each axis the middle, low, high and
 * ideal value. */
static enum status line_table(const struct study_drawing *d, const struct study_figure *f, int i)
{
    const struct study_line *l = &d->lines->line[i];
    struct atomic_file table;
    TRY(figure_table(&d->drawing, &f->figure, i, &table));
    for (int k = 0; k < l->n; k++) {
        const struct study_point *p = &l->point[k];
        fprintf(table.stream, "%.9g", p->x);
        for (int m = 0; m < AXES; m++) {
            const struct study_value *v = &p->value[f->axis[m].quantity];
            const double of[] = {v->mid, v->low, v->high, v->ideal};
            for (int c = 0; c < 4; c++)
                figure_number(table.stream, of[c]);
        }
        fputc('\n', table.stream);
    }
    return atomic_file_commit(&table);
}

/* Writes panel_title[p], panel_lines[p] and panel_ideals[p] for each panel. panel_ideals[p] are the
 * numbers of those lines whose ideal is drawn too. */
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
            is_in[i] = p->panel[i] == k;
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

/* Sets has[] to true for the entries of the legend that this figure uses. Writes two lists with a
 * number for each line: `entries`, the line's entry in the whole legend, and `places`, the place of
 * that entry among the entries in use. */
static void entries_set(FILE *vars, const struct study_drawing *d, bool has[])
{
    int place[STUDY_LINES_MAX], n = 0;
    for (int i = 0; i < d->lines->n; i++)
        if (d->drawn[i])
            has[d->panels->entry[i]] = true;
    for (int e = 0; e < d->panels->n_entries; e++)
        place[e] = n += has[e];
    fputs("entries = '", vars);
    for (int i = 0; i < d->lines->n; i++)
        fprintf(vars, " %d", d->drawn[i] ? d->panels->entry[i] + 1 : 0);
    fputs("'\nplaces = '", vars);
    for (int i = 0; i < d->lines->n; i++)
        fprintf(vars, " %d", d->drawn[i] ? place[d->panels->entry[i]] : 0);
    fputs("'\n", vars);
}

static enum status figure_lines(const struct drawing *drawing, const struct figure *figure,
                                FILE *vars, bool has[FIGURE_BARS_MAX])
{
    const struct study_drawing *d = (const struct study_drawing *)drawing;
    const struct study_figure *f = (const struct study_figure *)figure;
    int axes = 0;
    bool bars = false;
    for (int i = 0; i < d->lines->n; i++)
        if (d->drawn[i])
            TRY(line_table(d, f, i));
    for (int m = 0; m < AXES; m++) {
        struct range r = axis_range(d->lines, d->drawn, f->axis[m].quantity, &bars);
        axis_set(vars, &f->axis[m], m, r);
        axes += m == 0 || isfinite(r.high); /* a second axis without values is not drawn */
    }
    figure_set(vars, "mark_every", 1);
    figure_set(vars, "is_curve", f->is_curve);
    if (f->is_curve)
        axis_epochs_set(vars, d->lines, d->drawn);
    else
        TRY(axis_devices_set(vars, d->lines, d->drawn, axes * d->panels->n > 1));
    figure_set(vars, "axes", axes);
    figure_set(vars, "has_bars", bars);
    figure_set(vars, "is_side_by_side", !f->is_sloped && (bars || f->is_side_by_side));
    figure_set(vars, "has_ideal", f->axis[0].quantity < QUANTITY_READ);
    panels_set(vars, d, f);
    entries_set(vars, d, has);
    return STATUS_OK;
}

#define LINES(file, text)                                                                          \
    .figure = {.name = file,                                                                       \
               .title = text,                                                                      \
               .script = plot_scaling,                                                             \
               .prepare = figure_lines,                                                            \
               .fits_half = true}

#define CURVES(which, file, text)                                                                  \
    {                                                                                              \
        LINES(file, text), .is_curve = true, .axis = {                                             \
            {QUANTITY_ACCURACY + ANALYSIS_##which, "Accuracy (%)"}                                 \
        }                                                                                          \
    }

static const struct study_figure figures[] = {
    {LINES("training_throughput", "Training throughput"), .is_sloped = true,
     .axis = {{QUANTITY_RATE, "Images per second", AXIS_LOG}}},
    {LINES("training_time", "Time of a run"), .is_sloped = true,
     .axis = {{QUANTITY_TIME, "Time of the whole run (s)", AXIS_LOG}}},
    {LINES("efficiency", "Scaling efficiency"),
     .axis = {{QUANTITY_EFFICIENCY, "By throughput (%)", AXIS_FROM_ZERO},
              {QUANTITY_EFFICIENCY_WALL, "By wall-clock time (%)", AXIS_FROM_ZERO}}},
    {LINES("scaling_weak", "Weak scaling (fixed batch per device)"), .lines = LINES_WEAK,
     .axis = {{QUANTITY_PER_DEVICE, "Images per second and device", AXIS_FROM_ZERO}}},
    {LINES("scaling_strong", "Strong scaling (fixed global batch)"), .lines = LINES_STRONG,
     .is_sloped = true, .axis = {{QUANTITY_SPEEDUP, "Speed-up", AXIS_POWERS}}},
    {LINES("IO", "Input: read by the loaders, fetched from storage"), .is_side_by_side = true,
     .axis = {{QUANTITY_READ, "Loaders (MB/s)", AXIS_FROM_ZERO},
              {QUANTITY_STORAGE, "Storage (MB/s)", AXIS_FROM_ZERO}}},
    CURVES(TOP1_TRAIN, "top1_train", "Top-1 accuracy of training"),
    CURVES(TOP1_VAL, "top1_val", "Top-1 accuracy of validation"),
    CURVES(TOP5_TRAIN, "top5_train", "Top-5 accuracy of training"),
    CURVES(TOP5_VAL, "top5_val", "Top-5 accuracy of validation"),
};
enum { N_FIGURES = sizeof figures / sizeof *figures };

static enum status figure_cells(const struct drawing *drawing, const struct figure *f, FILE *vars,
                                bool has[FIGURE_BARS_MAX])
{
    const struct study_drawing *d = (const struct study_drawing *)drawing;
    struct bars bars = {.longest_ms = 0};
    fprintf(vars, "array total_ms[%d]\n", drawing->n);
    for (int i = 0; i < drawing->n; i++) {
        const double *known = d->analysis->cell[i].split;
        double part[FIGURE_PARTS];
        for (int p = 0; p < FIGURE_PARTS; p++)
            part[p] = isfinite(known[p]) ? fmax(0, known[p]) : 0;
        TRY(bar_write(drawing, f, i, part, vars, &has[i], &bars));
    }
    bars_set(vars, &bars, "Time of a step (ms)");
    return STATUS_OK;
}

static const struct figure cells_figure = {.name = "cell_split",
                                           .title = "Parts of a step, by cell of the study",
                                           .script = plot_split,
                                           .prepare = figure_cells,
                                           .fits_half = true};

/* Draws one figure. If the figure has no data, removes its earlier picture and reports the figure
 * as skipped. */
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
        fprintf(d->options->left_out, "%s: skipped, nothing was measured for it\n", f->name);
    return STATUS_OK;
}

static void panels_of_all(const struct study_lines *l, struct study_panels *p)
{
    bool all[STUDY_LINES_MAX];
    for (int i = 0; i < l->n; i++)
        all[i] = true;
    study_panels_choose(l, all, STUDY_ARCH, p);
}

/* Divides all lines of the study into panels. The division is the same for all figures of the
 * study, so a colour has the same meaning in all of them. Then removes the lines that this figure
 * does not draw, and panels without a line. */
static void panels_make(const struct study_lines *l, const bool drawn[], struct study_panels *p)
{
    bool used[STUDY_LINES_MAX] = {false};
    int place[STUDY_LINES_MAX], n = 0;
    panels_of_all(l, p);
    for (int i = 0; i < l->n; i++)
        used[p->panel[i]] = used[p->panel[i]] || drawn[i];
    for (int k = 0; k < p->n; k++) {
        place[k] = n;
        if (used[k])
            memmove(p->title[n++], p->title[k], FIGURE_LABEL_MAX);
    }
    for (int i = 0; i < l->n; i++)
        p->panel[i] = drawn[i] ? place[p->panel[i]] : STUDY_NO_PANEL;
    p->n = n > 0 ? n : 1;
}

/* `lines` are those of the series, `curves` those of the cells. */
static enum status lines_make(const struct study_drawing *common, const struct study_lines *lines,
                              const struct study_lines *curves, const char *out, bool *any)
{
    for (int k = 0; k < N_FIGURES; k++) {
        struct study_drawing d = *common;
        d.lines = figures[k].is_curve ? curves : lines;
        /* An analysis of an earlier version has no curves: pictures of its runs stay. */
        if (figures[k].is_curve && curves->n == 0)
            continue;
        struct study_panels panels;
        bool drawn[STUDY_LINES_MAX];
        for (int i = 0; i < d.lines->n; i++)
            drawn[i] = is_drawn(&d.lines->line[i], &figures[k]);
        panels_make(d.lines, drawn, &panels);
        d.drawn = drawn;
        d.panels = &panels;
        d.drawing.n = panels.n_entries;
        d.drawing.label = panels.label;
        labels_look(&d.drawing);
        TRY(figure_make(&d.drawing, &figures[k].figure, out, any));
    }
    return STATUS_OK;
}

static enum status cells_make(const struct study_drawing *common, const char *out, bool *any)
{
    struct study_drawing d = *common;
    char label[CELLS_MAX][FIGURE_LABEL_MAX];
    int64_t n = d.analysis ? d.analysis->n_cells : 0;
    d.drawing.n = (int)(n < CELLS_MAX ? n : CELLS_MAX);
    d.drawing.label = label;
    if (n == 0)
        return figure_remove(&cells_figure, out);
    for (int i = 0; i < d.drawing.n; i++)
        text_clean(label[i], sizeof label[i], d.analysis->cell[i].name);
    return figure_make(&d.drawing, &cells_figure, out, any);
}

static void say_left_out(const struct study_lines *lines, const struct study_lines *curves,
                         const struct analysis *a, FILE *out)
{
    int64_t cells = a ? a->n_cells : 0;
    if (out && lines->left_out > 0)
        fprintf(out, "%" PRId64 " of %" PRId64 " series are not drawn\n", lines->left_out,
                lines->left_out + lines->n);
    if (out && a && curves->n == 0)
        fprintf(out,
                "top1_train, top1_val, top5_train, top5_val: skipped, the analysis has no curves; "
                "if it is of an earlier version, the study's command with --analyse adds them\n");
    if (out && curves->left_out > 0)
        fprintf(out, "curves: %" PRId64 " of %" PRId64 " cells are not drawn\n", curves->left_out,
                curves->left_out + curves->n);
    if (out && cells > CELLS_MAX)
        fprintf(out, "cell_split: %" PRId64 " of %" PRId64 " cells are not drawn\n",
                cells - CELLS_MAX, cells);
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

enum status study_entries(const struct analysis *a, const struct published_series *const *published,
                          int n, char entry[STUDY_LINES_MAX][FIGURE_LABEL_MAX])
{
    struct study_lines lines = {.n = 0};
    struct study_panels p;
    enum status st = lines_of(&lines, a, published, n);
    if (st == STATUS_OK)
        panels_of_all(&lines, &p);
    for (int i = 0; st == STATUS_OK && i < lines.n; i++)
        memcpy(entry[i], p.label[p.entry[i]], FIGURE_LABEL_MAX);
    study_lines_free(&lines);
    return st;
}

enum status plot_published(const char *path, const char *out, const struct plot_options *options)
{
    struct published table;
    const struct published_series *series[STUDY_LINES_MAX];
    TRY(published_load(path, &table));
    int n = table.n < STUDY_LINES_MAX ? table.n : STUDY_LINES_MAX;
    if (options->left_out && n < table.n)
        fprintf(options->left_out, "%d of %d series are not drawn\n", table.n - n, table.n);
    for (int i = 0; i < n; i++)
        series[i] = &table.series[i];
    enum status st = plot_study(NULL, series, n, out, options);
    published_free(&table);
    return st;
}

enum status plot_study(const struct analysis *a, const struct published_series *const *published,
                       int n, const char *out, const struct plot_options *options)
{
    enum status st;
    struct study_lines lines = {.n = 0}, curves = {.n = 0};
    struct study_drawing d = {.drawing = {.options = options, .title = options->title},
                              .analysis = a};
    bool any = false;
    CHECK(path_format(d.drawing.data, sizeof d.drawing.data, "%s/data", out));
    CHECK(dir_make(d.drawing.data));
    CHECK(lines_of(&lines, a, published, n));
    if (a)
        CHECK(study_lines_add_cells(&curves, a));
    CHECK(figure_remove(&(struct figure){.name = "accuracy"}, out)); /* of earlier versions */
    say_left_out(&lines, &curves, a, options->left_out);
    CHECK(lines_make(&d, &lines, &curves, out, &any));
    CHECK(cells_make(&d, out, &any));
    if (!any)
        st = status_fail(STATUS_DATA, "nothing to draw: no cell of the study has a result");
done:
    study_lines_free(&lines);
    study_lines_free(&curves);
    return st;
}
