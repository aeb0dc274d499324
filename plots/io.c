/* Draws against time how fast files are read, and how long it takes to decode an image. */
#include "plots/figure.h"
#include "plots/series.h"

#include <math.h>

/* Maximum number of groups of a run's steps. Each group is drawn as one point, because the values
 * of single steps vary with the loader's prefetching. */
enum { MAX_GROUPS = 200 };

struct group {
    double begin, end; /* values of `elapsed` */
    double seconds, bytes, files, decode_s, images;
};

struct io_range {
    double x_max, bytes_max, files_max, decode_max;
};

static void group_add(struct group *g, const struct step_record *s)
{
    if (g->seconds == 0)
        g->begin = s->elapsed - s->total_s;
    g->end = s->elapsed;
    g->seconds += s->total_s;
    g->bytes += (double)s->bytes_read;
    g->files += (double)s->files_read;
    g->decode_s += s->decode_s;
    g->images += (double)s->images;
}

/* Writes a row "time MB/s files/s decode"; decode is in ms per image. */
static void group_write(const struct group *g, double unit, FILE *out, struct io_range *range)
{
    if (!(g->seconds > 0))
        return;
    double x = (g->begin + g->end) / 2 / unit;
    double bytes = g->bytes / g->seconds * 1e-6, files = g->files / g->seconds;
    double decode = g->images > 0 ? 1e3 * g->decode_s / g->images : NAN;
    fprintf(out, "%.9g %.9g %.9g %.9g\n", x, bytes, files, decode);
    range->x_max = fmax(range->x_max, x);
    range->bytes_max = fmax(range->bytes_max, bytes);
    range->files_max = fmax(range->files_max, files);
    range->decode_max = fmax(range->decode_max, decode);
}

static enum status io_table(const struct drawing *d, const struct figure *f, int i, double unit,
                            struct io_range *range)
{
    const struct run *run = d->run[i];
    struct atomic_file table;
    int64_t size = series_stride(run->n_steps, MAX_GROUPS);
    struct group g = {0};
    TRY(figure_table(d, f, i, &table));
    for (int64_t k = 0, in_group = 0; k < run->n_steps; k++, in_group++) {
        const struct step_record *s = &run->step[k];
        bool gap = k > 0 && series_gap(s - 1, s, d->gap_s[i]);
        if (gap || in_group == size) {
            group_write(&g, unit, table.stream, range);
            if (gap)
                fputc('\n', table.stream); /* breaks the line */
            g = (struct group){0};
            in_group = 0;
        }
        if (isfinite(s->elapsed) && isfinite(s->total_s) && isfinite(s->decode_s))
            group_add(&g, s);
    }
    group_write(&g, unit, table.stream, range);
    return atomic_file_commit(&table);
}

enum status figure_io(const struct drawing *d, const struct figure *f, FILE *vars,
                      bool has[FIGURE_BARS_MAX])
{
    struct io_range range = {0};
    double unit = figure_set_time(vars, d);
    for (int i = 0; i < d->n; i++) {
        for (int64_t k = 0; k < d->run[i]->n_steps && !has[i]; k++)
            has[i] = d->run[i]->step[k].files_read > 0;
        if (has[i])
            TRY(io_table(d, f, i, unit, &range));
    }
    figure_set(vars, "x_max", range.x_max);
    figure_set(vars, "bytes_max", 1.1 * range.bytes_max);
    /* The factor differs from that of bytes_max, so that the two curves do not coincide if all
     * files have the same size. */
    figure_set(vars, "files_max", 1.6 * range.files_max);
    figure_set(vars, "decode_max", range.decode_max > 0 ? 1.1 * range.decode_max : 1);
    return STATUS_OK;
}
