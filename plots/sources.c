/* Draws runs, a study, a record or a published table, depending on the given folders and files. */
#include "plots/sources.h"

#include "base/file.h"
#include "base/folder.h"
#include "base/text.h"
#include "plots/study_panels.h"
#include "results/outcome.h"

#include <string.h>
#include <unistd.h>

enum source { SOURCE_RUNS, SOURCE_STUDY, SOURCE_RECORD, SOURCE_PUBLISHED };

/* Sets *source to SOURCE_STUDY for a folder or a file that `ampscale study` has written, to
 * SOURCE_PUBLISHED for a published table (results/published.h), to SOURCE_RECORD for another file,
 * and to SOURCE_RUNS for anything else; *is_file to whether it is a file. */
static enum status look_at(const char *path, enum source *source, bool *is_file)
{
    char inside[4096];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    bool is_dir, has = false;
    TRY(path_look_dir(path, &is_dir));
    TRY(path_format(inside, sizeof inside, "%s%s", path, is_dir ? "/" ANALYSIS_FILE : ""));
    TRY(path_look(inside, &has));
    *is_file = has && !is_dir;
    *source = !has                                               ? SOURCE_RUNS
              : is_dir || strcmp(name, ANALYSIS_FILE) == 0       ? SOURCE_STUDY
              : strlen(path) > 4 && text_ends_with(path, ".csv") ? SOURCE_PUBLISHED
                                                                 : SOURCE_RECORD;
    return STATUS_OK;
}

static enum status check(const struct plot_sources *c, enum source source, bool is_file)
{
    if (c->n == 0)
        return status_fail(STATUS_USAGE, "no run to draw: give the folder of a run");
    if (c->n > 1 && !c->out)
        return status_fail(STATUS_USAGE,
                           "several runs need a folder for their figures: give --out DIR");
    if (is_file && source != SOURCE_PUBLISHED && !c->out)
        return status_fail(STATUS_USAGE, "a record needs a folder for its figure: give --out DIR");
    if (c->n_published > 0 && source != SOURCE_STUDY)
        return status_fail(STATUS_USAGE, "'%s' is not a study: --published applies to studies only",
                           c->dir[0]);
    if (c->n > 1 && source == SOURCE_STUDY)
        return status_fail(STATUS_USAGE,
                           "'%s' and other sources were given: studies are drawn one at a time",
                           c->dir[0]);
    return STATUS_OK;
}

/* Loads the series of "FILE.csv:SERIES"; the caller frees `set`. */
static enum status load_published(const char *arg, struct published *set,
                                  const struct published_series **series)
{
    char path[4096];
    const char *colon = strrchr(arg, ':');
    if (!colon)
        return status_fail(STATUS_USAGE, "--published '%s': give FILE:SERIES", arg);
    TRY(path_format(path, sizeof path, "%.*s", (int)(colon - arg), arg));
    TRY(published_load(path, set));
    return published_find(set, colon + 1, series);
}

/* Returns the cell that represents a series: the cell with the most devices among the cells that
 * have a result. NULL if no cell has a result. */
static const struct analysis_cell *cell_of(const struct analysis *a, int64_t series)
{
    const struct analysis_series *s = &a->series[series];
    for (int64_t k = s->n - 1; k >= 0; k--)
        if (a->cell[s->cell[k]].missing[0] == '\0')
            return &a->cell[s->cell[k]];
    return NULL;
}

/* Runs of a study, and the cell that each run belongs to. */
struct cell_runs {
    int n;
    struct run *run[PLOT_MAX_RUNS];
    const struct analysis_cell *cell[PLOT_MAX_RUNS];
    const char *series[PLOT_MAX_RUNS]; /* names of the series in the legends of the study's
                                        * figures */
};

static bool share_figures(const struct analysis_cell *a, const struct analysis_cell *b)
{
    return strcmp(a->precision, b->precision) == 0 && strcmp(a->data, b->data) == 0;
}

/* Draws the runs whose cells have the precision and the data of `like`, or all runs if `like` is
 * NULL. */
static enum status draw_runs_like(const struct cell_runs *r, const struct analysis_cell *like,
                                  const char *out, const struct plot_options *options)
{
    const struct run *run[PLOT_MAX_RUNS];
    const char *name[PLOT_MAX_RUNS], *series[PLOT_MAX_RUNS];
    struct plot_options o = *options;
    char title[256] = "";
    int n = 0;
    for (int i = 0; i < r->n; i++) {
        if (like && !share_figures(like, r->cell[i]))
            continue;
        run[n] = r->run[i];
        series[n] = r->series[i];
        name[n++] = r->cell[i]->name;
    }
    if (like) {
        text_join(title, sizeof title, ", ", "%s", o.title ? o.title : like->precision);
        if (o.title)
            text_join(title, sizeof title, ", ", "%s", like->precision);
        text_join(title, sizeof title, ", ", "%s", like->data);
        o.title = title;
    }
    o.names = name;
    o.series = series;
    return plot_runs(run, n, out, &o);
}

/* Draws the runs in groups with the same precision and data, each group in a folder of its own:
 * PRECISION-DATA in `out`. In the folder's name, '_' replaces special characters. */
static enum status draw_groups(const struct cell_runs *r, const char *out,
                               const struct plot_options *o)
{
    TRY(plot_runs_remove(out));
    for (int i = 0; i < r->n; i++) {
        const struct analysis_cell *cell = r->cell[i];
        bool is_first = true;
        char name[160], path[4096];
        for (int k = 0; k < i; k++)
            is_first = is_first && !share_figures(r->cell[k], cell);
        if (!is_first)
            continue;
        snprintf(name, sizeof name, "%s-%s", cell->precision, cell->data);
        for (char *p = name; *p; p++)
            if (!strchr("0123456789-_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", *p))
                *p = '_';
        TRY(path_format(path, sizeof path, "%s/%s", out, name));
        TRY(draw_runs_like(r, cell, path, o));
    }
    return STATUS_OK;
}

/* Draws the curves of some runs of a study, in the colours of their series. For each series, it
 * draws the first repeat of the cell that represents the series, if the study's folder has that
 * run. If there are more than STUDY_PANEL_LINES runs, they are divided by precision and data. */
static enum status draw_cells(const struct plot_sources *c, const struct analysis *a,
                              const char entry[][FIGURE_LABEL_MAX], const char *out)
{
    enum status st = STATUS_OK;
    struct cell_runs r = {.n = 0};
    bool differ = false, is_dir;
    char dir[4096];
    for (int64_t i = 0; i < a->n_series && i < STUDY_LINES_MAX && r.n < PLOT_MAX_RUNS; i++) {
        const struct analysis_cell *cell = cell_of(a, i);
        if (!cell || strchr(cell->name, '/') || (r.n > 0 && r.cell[r.n - 1] == cell))
            continue;
        CHECK(path_format(dir, sizeof dir, "%s/cells/%s/r1", c->dir[0], cell->name));
        CHECK(path_look_dir(dir, &is_dir));
        if (!is_dir)
            continue;
        CHECK(run_load(dir, &r.run[r.n]));
        differ = differ || (r.n > 0 && !share_figures(r.cell[0], cell));
        r.series[r.n] = entry[i];
        r.cell[r.n++] = cell;
    }
    if (r.n > STUDY_PANEL_LINES && differ)
        CHECK(draw_groups(&r, out, &c->options));
    else if (r.n > 0)
        CHECK(draw_runs_like(&r, NULL, out, &c->options));
done:
    for (int i = 0; i < r.n; i++)
        run_free(r.run[i]);
    return st;
}

static enum status draw_study(const struct plot_sources *c, const char *out)
{
    enum status st;
    struct analysis a = {.n_cells = 0};
    struct published set[PLOT_PUBLISHED_MAX] = {{.n = 0}};
    const struct published_series *series[PLOT_PUBLISHED_MAX];
    char entry[STUDY_LINES_MAX][FIGURE_LABEL_MAX];
    struct palette palette = {.n = 0};
    struct plot_sources shared = *c;
    shared.options.palette = &palette;
    CHECK(analysis_read(c->dir[0], &a));
    for (int i = 0; i < c->n_published; i++)
        CHECK(load_published(c->published[i], &set[i], &series[i]));
    CHECK(plot_study(&a, series, c->n_published, out, &shared.options));
    CHECK(study_entries(&a, series, c->n_published, entry));
    CHECK(draw_cells(&shared, &a, (const char(*)[FIGURE_LABEL_MAX])entry, out));
done:
    for (int i = 0; i < c->n_published; i++)
        published_free(&set[i]);
    analysis_free(&a);
    return st;
}

static enum status draw_runs(const struct plot_sources *c, const char *out)
{
    enum status st;
    struct run *run[PLOT_MAX_RUNS] = {NULL};
    for (int i = 0; i < c->n; i++) {
        CHECK(run_load(c->dir[i], &run[i]));
        outcome_note(run[i], c->options.left_out);
    }
    CHECK(plot_runs((const struct run *const *)run, c->n, out, &c->options));
done:
    for (int i = 0; i < c->n; i++)
        run_free(run[i]);
    return st;
}

/* Sets `out` to the folder for the figures: --out if given. Otherwise, for a published table
 * NAME.csv, NAME-plots in the current folder, because the table's folder may be read-only.
 * Otherwise "plots" in dir[0]. */
static enum status choose_out(const struct plot_sources *c, enum source source, char out[4096])
{
    const char *slash = strrchr(c->dir[0], '/'), *name = slash ? slash + 1 : c->dir[0];
    if (c->out)
        return path_format(out, 4096, "%s", c->out);
    if (source == SOURCE_PUBLISHED)
        return path_format(out, 4096, "%.*s-plots", (int)strlen(name) - 4, name);
    return path_format(out, 4096, "%s/plots", c->dir[0]);
}

enum status plot_sources(const struct plot_sources *c)
{
    char out[4096];
    int lock;
    enum source source = SOURCE_RUNS;
    bool is_file = false;
    if (c->n > 0)
        TRY(look_at(c->dir[0], &source, &is_file));
    TRY(check(c, source, is_file));
    TRY(choose_out(c, source, out));
    bool known = source != SOURCE_RUNS;
    if (!known)
        TRY(dir_look(c->dir[0], "run.json", &known));
    if (!known) /* which fails, before a folder is made */
        return run_load(c->dir[0], &(struct run *){NULL});
    TRY(dir_make(out));
    TRY(dir_lock(out, "ampscale plot", 0, &lock));
    enum status st = source == SOURCE_STUDY              ? draw_study(c, out)
                     : c->n > 1 || source == SOURCE_RUNS ? draw_runs(c, out)
                     : source == SOURCE_PUBLISHED ? plot_published(c->dir[0], out, &c->options)
                                                  : plot_record(c->dir[0], out, &c->options);
    close(lock);
    return st;
}
