/* Reads single records, and draws each with the figure for its kind. */
#include "plots/record.h"

#include "base/json.h"

#include <string.h>

enum { RECORD_MAX_BYTES = 16 << 20, SCHEMA = 1 };

static const struct record_figure *const figures[] = {&overlap_figure, &forecast_figure,
                                                      &trend_figure, &amp_figure};

enum status record_damaged(const char *key)
{
    return status_fail(STATUS_DATA, "damaged record: '%s' is missing or invalid", key);
}

enum status record_number(const json_t *object, const char *key, double min, double max,
                          double *out)
{
    *out = json_number_at(object, key);
    return *out >= min && *out <= max ? STATUS_OK : record_damaged(key);
}

static enum status record_draw(const struct record_figure *f, const char *path, const char *out,
                               struct drawing *d)
{
    bool some;
    TRY(f->describe(d));
    if (d->n > 1) /* a figure with one curve has no legend; the label is a line below its title */
        labels_look(d);
    TRY(path_format(d->data, sizeof d->data, "%s/data", out));
    TRY(dir_make(d->data));
    TRY(figure_remove(&f->figure, out));
    TRY(figure_write(d, &f->figure, &some));
    if (!some)
        return status_fail(STATUS_DATA, "no data to draw in '%s'", path);
    return figure_draw(d, &f->figure, out);
}

enum status plot_record(const char *path, const char *out, const struct plot_options *options)
{
    char label[RECORD_CURVES_MAX][FIGURE_LABEL_MAX];
    struct drawing d = {.options = options, .title = options->title, .label = label};
    json_t *record;
    TRY(json_read(path, RECORD_MAX_BYTES, &record));
    enum status st = status_fail(
        STATUS_DATA, "'%s' is not a record of schema %d that a figure can show", path, SCHEMA);
    d.report = record;
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        if (strcmp(json_text_at(record, figures[i]->key), figures[i]->kind) == 0 &&
            json_number_at(record, "schema") == SCHEMA)
            st = record_draw(figures[i], path, out, &d);
    json_decref(record);
    return st;
}
