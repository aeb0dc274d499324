/* Draws times, and the share of hidden communication, against the bucket size. */
#include "base/json.h"
#include "plots/record.h"

#include <math.h>
#include <stdlib.h>

/* plots/templates/overlap.gp, compiled in. */
extern const unsigned char plot_overlap[];

enum { SIZES_MAX = 32 };

/* The largest bucket and the longest time that are accepted. */
#define BUCKET_MIB_MAX 65536.0
#define SECONDS_MAX    1e6

struct spread {
    double median, p5, p95;
};

struct size {
    double mb; /* 0: one bucket for all gradients */
    struct spread gradients, backward;
    double hidden, hidden_even;
    bool lowest;
};

static enum status spread_read(const json_t *object, const char *key, struct spread *out)
{
    const json_t *part = json_object_get(object, key);
    TRY(record_number(part, "median", 0, SECONDS_MAX, &out->median));
    TRY(record_number(part, "p5", 0, SECONDS_MAX, &out->p5));
    return record_number(part, "p95", 0, SECONDS_MAX, &out->p95);
}

static enum status size_read(const json_t *object, struct size *s)
{
    const json_t *lowest = json_object_get(object, "lowest");
    TRY(record_number(object, "bucket_mb", 0, BUCKET_MIB_MAX, &s->mb));
    if (!json_is_boolean(lowest))
        return record_damaged("lowest");
    s->lowest = json_is_true(lowest);
    TRY(spread_read(object, "gradients_s", &s->gradients));
    TRY(spread_read(object, "backward_s", &s->backward));
    TRY(record_number(json_object_get(object, "hidden"), "median", 0, 1, &s->hidden));
    return record_number(json_object_get(object, "hidden_even"), "median", 0, 1, &s->hidden_even);
}

/* Orders sizes ascending; 0 (one bucket for all gradients) is the last. */
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
        return record_damaged("sizes");
    *n = (int)json_array_size(sizes);
    for (int i = 0; i < *n; i++)
        TRY(size_read(json_array_get(sizes, (size_t)i), &size[i]));
    qsort(size, (size_t)*n, sizeof *size, size_compare);
    return STATUS_OK;
}

/* Sets *place to the position of "one bucket for all gradients" on the axis of bucket sizes. The
 * position is 3 times the larger of two sizes: the largest bucket and the gradients. It is
 * therefore to the right of both. */
static enum status place_of_one(const json_t *report, const struct size *size, int n, double *place)
{
    double largest;
    TRY(record_number(report, "gradient_bytes", 0, BUCKET_MIB_MAX * (1 << 20), &largest));
    largest /= 1 << 20;
    for (int i = 0; i < n; i++)
        largest = fmax(largest, size[i].mb);
    *place = 3 * largest;
    return STATUS_OK;
}

/* Writes a row for each size: its position; the median, p5 and p95 of `gradients` and the median of
 * `backward`, in ms; `hidden` and `hidden_even`, in percent; 1 if the size has the lowest time,
 * else 0. The row of one bucket for all gradients follows a blank line, which ends the curves: the
 * values of this row are drawn separately. */
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
    return atomic_file_commit(&table);
}

/* Writes ticks = "'0.25' 0.25, ...": one tick at each size. */
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
                                  bool has[FIGURE_BARS_MAX])
{
    struct size size[SIZES_MAX];
    struct spread alone;
    double one = 0;
    int n = 0;
    TRY(sizes_read(d->report, size, &n));
    TRY(spread_read(json_object_get(d->report, "alone"), "backward_s", &alone));
    TRY(place_of_one(d->report, size, n, &one));
    if (n == 0)
        return STATUS_OK;
    TRY(table_write(d, f, size, n, one));
    has[0] = true;
    write_ticks(vars, size, n, one);
    write_ranges(vars, size, n, one, &alone);
    return STATUS_OK;
}

/* Makes the label, such as "resnet50, fp32, 224 px, batch 4, 2 ranks, sent as fp32". */
static enum status describe_overlap(struct drawing *d)
{
    const json_t *c = json_object_get(d->report, "config");
    const char *net = json_text_at(c, "net"), *precision = json_text_at(c, "precision");
    const char *sent = json_text_at(c, "grad_compress");
    double px, batch;
    TRY(record_number(c, "image_size", 0, 1e6, &px));
    TRY(record_number(c, "batch_size", 0, 1e9, &batch));
    if (!*net || !*precision || !*sent)
        return record_damaged("config");
    snprintf(d->label[0], FIGURE_LABEL_MAX,
             "%.20s, %.8s, %.0f px, batch %.0f, %zu ranks, sent as %.8s", net, precision, px, batch,
             json_array_size(json_object_get(d->report, "ranks")), sent);
    d->n = 1;
    return STATUS_OK;
}

const struct record_figure overlap_figure =
    RECORD_FIGURE(overlap, "Communication/backward overlap", "bench", "overlap");
