/* Draws the figures of records. */
#include "report/report_draw.h"

#include "base/file.h"
#include "base/folder.h"
#include "plots/plot.h"
#include "report/report_figures.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Removes the picture "NAME.svg" in every format. */
static enum status remove_picture(const struct item *item, const char *svg)
{
    static const char *const formats[] = {"svg", "png", "pdf"};
    for (size_t k = 0; k < sizeof formats / sizeof *formats; k++) {
        char path[REPORT_PATH_SIZE];
        TRY(path_format(path, sizeof path, "%s/%.*s%s", item->figures, (int)strlen(svg) - 3, svg,
                        formats[k]));
        unlink(path);
    }
    return STATUS_OK;
}

/* Removes the pictures that plot_runs drew and that the report does not show. */
static enum status remove_rest(const struct item *item)
{
    struct words names = {0};
    enum status st = dir_list(item->figures, ".svg", &names);
    for (int i = 0; st == STATUS_OK && i < names.n; i++)
        if (!figure_is_shown(item->kind, names.v[i]))
            st = remove_picture(item, names.v[i]);
    words_free(&names);
    return st;
}

static enum status draw_runs(const struct item *item, const struct plot_options *o)
{
    struct runs runs;
    TRY(runs_load(item, &runs));
    int n = runs.n < PLOT_MAX_RUNS ? runs.n : PLOT_MAX_RUNS;
    enum status st = STATUS_OK;
    if (n > 0)
        st = plot_runs((const struct run *const *)runs.v, n, item->figures, o);
    runs_free(&runs);
    return st == STATUS_OK && n > 0 ? remove_rest(item) : st;
}

static enum status draw_study(const struct item *item, const struct plot_options *o)
{
    struct analysis a;
    TRY(analysis_read(item->path, &a));
    enum status st = plot_study(&a, NULL, 0, item->figures, o);
    analysis_free(&a);
    return st;
}

enum status item_draw(const struct item *item, const struct plot_size *size,
                      struct palette *palette)
{
    const struct plot_options o = {
        .png = true, .svg = true, .pdf = true, .size = *size, .palette = palette};
    switch (item->kind) {
    case ITEM_STUDY:
        return draw_study(item, &o);
    case ITEM_RUN:
    case ITEM_RUNS:
        return draw_runs(item, &o);
    case ITEM_RECORD:
        return plot_record(item->path, item->figures, &o);
    }
    return STATUS_OK;
}
