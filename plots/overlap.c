/* Bucket sizes against time and hidden communication. */
#include "plots/overlap.h"

#include "plots/report.h"

#include <math.h>
#include <stdlib.h>

/* plots/templates/overlap.gp, compiled in. */
extern const unsigned char plot_overlap_script[];

enum { SCHEMA = 1, SIZES_MAX = 32 };

/* The largest bucket and the longest time that make sense. */
#define BUCKET_MIB_MAX 65536.0
#define SECONDS_MAX    1e6

struct spread {
    double median, p5, p95;
};

struct size {
    double mb; /* 0: one bucket of everything */
    struct spread gradients, backward;
    double hidden, hidden_even;
    bool lowest;
};

static enum status damaged(const char *what)
{
    return status_fail(STATUS_DATA, "damaged overlap record: '%s' is missing or makes no sense",
                       what);
}

static bool number_read(const json_t *object, const char *key, double max, double *out)
{
    const json_t *value = json_object_get(object, key);
    *out = json_number_value(value);
    return json_is_number(value) && *out >= 0 && *out <= max;
}

static enum status spread_read(const json_t *object, const char *key, struct spread *out)
{
    const json_t *part = json_object_get(object, key);
    if (!number_read(part, "median", SECONDS_MAX, &out->median) ||
        !number_read(part, "p5", SECONDS_MAX, &out->p5) ||
        !number_read(part, "p95", SECONDS_MAX, &out->p95))
        return damaged(key);
    return STATUS_OK;
}

static enum status share_read(const json_t *object, const char *key, double *out)
{
    if (!number_read(json_object_get(object, key), "median", 1, out))
        return damaged(key);
    return STATUS_OK;
}

static enum status size_read(const json_t *object, struct size *s)
{
    const json_t *lowest = json_object_get(object, "lowest");
    if (!number_read(object, "bucket_mb", BUCKET_MIB_MAX, &s->mb))
        return damaged("bucket_mb");
    if (!json_is_boolean(lowest))
        return damaged("lowest");
    s->lowest = json_is_true(lowest);
    TRY(spread_read(object, "gradients_s", &s->gradients));
    TRY(spread_read(object, "backward_s", &s->backward));
    TRY(share_read(object, "hidden", &s->hidden));
    return share_read(object, "hidden_even", &s->hidden_even);
}

/* Ascending; one bucket of everything is the largest. */
static int size_compare(const void *a, const void *b)
{
    double x = ((const struct size *)a)->mb, y = ((const struct size *)b)->mb;
    x = x > 0 ? x : INFINITY;
    y = y > 0 ? y : INFINITY;
    return (x > y) - (x < y);
}

static enum status sizes_read(const json_t *report, struct size size[SIZES_MAX], int *n)
{
    const json_t *sizes = json_object_get(report, "sizes");
    if (!json_is_array(sizes) || json_array_size(sizes) > SIZES_MAX)
        return damaged("sizes");
    *n = (int)json_array_size(sizes);
    for (int i = 0; i < *n; i++)
        TRY(size_read(json_array_get(sizes, (size_t)i), &size[i]));
    qsort(size, (size_t)*n, sizeof *size, size_compare);
    return STATUS_OK;
}

/* One bucket of everything stands on the axis right of all sizes, and of the gradients' own. */
static enum status place_of_one(const json_t *report, const struct size *size, int n, double *place)
{
    double largest;
    if (!number_read(report, "gradient_bytes", BUCKET_MIB_MAX * (1 << 20), &largest))
        return damaged("gradient_bytes");
    largest /= 1 << 20;
    for (int i = 0; i < n; i++)
        largest = fmax(largest, size[i].mb);
    *place = 3 * largest;
    return STATUS_OK;
}

/* A row: place, then in ms median, p5 and p95 of gradients and median of backward, then percent
 * hidden and hidden_even, then 1 for the lowest. A blank line breaks the curves before one bucket
 * of everything, which stands apart. */
static enum status table_write(const struct drawing *d, const struct figure *f,
                               const struct size *size, int n, double one)
{
    struct atomic_file table;
    TRY(figure_table(d, f, 0, &table));
    for (int i = 0; i < n; i++) {
        const struct size *s = &size[i];
        if (s->mb == 0)
            fputc('\n', table.stream);
        fprintf(table.stream, "%.9g %.9g %.9g %.9g %.9g %.9g %.9g %d\n", s->mb > 0 ? s->mb : one,
                1e3 * s->gradients.median, 1e3 * s->gradients.p5, 1e3 * s->gradients.p95,
                1e3 * s->backward.median, 100 * s->hidden, 100 * s->hidden_even, s->lowest);
    }
    enum status st = atomic_file_commit(&table);
    atomic_file_abandon(&table);
    return st;
}

/* ticks = "'0.25' 0.25, ...": the sizes themselves. */
static void write_ticks(FILE *vars, const struct size *size, int n, double one)
{
    fputs("ticks = \"", vars);
    for (int i = 0; i < n; i++) {
        fputs(i > 0 ? ", " : "", vars);
        if (size[i].mb > 0)
            fprintf(vars, "'%g' %.9g", size[i].mb, size[i].mb);
        else
            fprintf(vars, "'all in one' %.9g", one);
    }
    fputs("\"\n", vars);
}

static void write_ranges(FILE *vars, const struct size *size, int n, double one,
                         const struct spread *alone)
{
    double top = alone->p95, bottom = alone->p5;
    for (int i = 0; i < n; i++) {
        top = fmax(top, size[i].gradients.p95);
        bottom = fmin(bottom, fmin(size[i].gradients.p5, size[i].backward.median));
    }
    figure_set(vars, "x_min", size[0].mb > 0 ? size[0].mb : one);
    figure_set(vars, "x_max", size[n - 1].mb > 0 ? size[n - 1].mb : one);
    figure_set(vars, "y_min", 1e3 * bottom);
    figure_set(vars, "y_max", 1e3 * top);
    figure_set(vars, "alone", 1e3 * alone->median);
    figure_set(vars, "alone_p5", 1e3 * alone->p5);
    figure_set(vars, "alone_p95", 1e3 * alone->p95);
}

static enum status figure_overlap(const struct drawing *d, const struct figure *f, FILE *vars,
                                  bool *some)
{
    struct size size[SIZES_MAX];
    struct spread alone;
    const bool has[] = {true};
    double one = 0;
    int n = 0;
    TRY(sizes_read(d->report, size, &n));
    TRY(spread_read(json_object_get(d->report, "alone"), "backward_s", &alone));
    TRY(place_of_one(d->report, size, n, &one));
    if (n == 0)
        return STATUS_OK;
    TRY(table_write(d, f, size, n, one));
    write_ticks(vars, size, n, one);
    write_ranges(vars, size, n, one, &alone);
    figure_set_runs(vars, "all_runs", has, 1);
    *some = true;
    return STATUS_OK;
}

/* "resnet50, fp32, 224 px, batch 4, 2 ranks, sent as fp32" */
static enum status describe(const json_t *report, char label[FIGURE_LABEL_MAX])
{
    const json_t *c = json_object_get(report, "config");
    const char *net = json_string_value(json_object_get(c, "net"));
    const char *precision = json_string_value(json_object_get(c, "precision"));
    const char *sent = json_string_value(json_object_get(c, "grad_compress"));
    double px, batch;
    if (!net || !precision || !sent || !number_read(c, "image_size", 1e6, &px) ||
        !number_read(c, "batch_size", 1e9, &batch))
        return damaged("config");
    snprintf(label, FIGURE_LABEL_MAX, "%.20s, %.8s, %.0f px, batch %.0f, %zu ranks, sent as %.8s",
             net, precision, px, batch, json_array_size(json_object_get(report, "ranks")), sent);
    return STATUS_OK;
}

enum status plot_overlap(const char *path, const char *out, const struct plot_options *options)
{
    static const struct figure figure = {.name = "overlap",
                                         .title = "Communication/backward overlap",
                                         .script = plot_overlap_script,
                                         .prepare = figure_overlap};
    char label[1][FIGURE_LABEL_MAX];
    json_t *report;
    TRY(report_load(path, "bench", "overlap", SCHEMA, &report));
    struct drawing d = {.n = 1, .report = report, .options = options, .label = label};
    enum status st = describe(report, label[0]);
    if (st == STATUS_OK)
        st = report_draw(&d, &figure, path, out);
    json_decref(report);
    return st;
}
