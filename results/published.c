/* Reads tables of published results, cell by cell. */
#include "results/published.h"

#include "base/array.h"
#include "base/lines.h"
#include "base/text.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 32, SERIES_MAX = 64 };

#define IMAGES_PER_S_MAX 1e12
#define SECONDS_MAX      1e12

/* The type of a column's cells: char[], int64_t, double. */
enum cell { CELL_TEXT, CELL_COUNT, CELL_REAL };

struct column {
    const char *name;
    enum cell cell;
    size_t offset; /* offset in struct published_series; for the numbers of a row, the offset of the
                    * member in point[0] */
    double max;
    bool required; /* the column is in every file, and its cells are never empty */
};

#define AT(member) offsetof(struct published_series, member)

static const struct column columns[] = {
    {"series", CELL_TEXT, AT(name), 0, true},
    {"gpus", CELL_COUNT, AT(point[0].gpus), 1e7, true},
    {"batch_per_gpu", CELL_COUNT, AT(point[0].batch_per_gpu), 1e6, false},
    {"gpus_per_node", CELL_COUNT, AT(gpus_per_node), 1e5, false},
    {"images_per_s", CELL_REAL, AT(point[0].images_per_s), IMAGES_PER_S_MAX, false},
    {"train_time_s", CELL_REAL, AT(point[0].train_time_s), SECONDS_MAX, false},
    {"top1_val", CELL_REAL, AT(point[0].top1), 100, false},
    {"top5_val", CELL_REAL, AT(point[0].top5), 100, false},
    {"efficiency", CELL_REAL, AT(point[0].efficiency), 1000, false},
    {"arch", CELL_TEXT, AT(arch), 0, false},
    {"hardware", CELL_TEXT, AT(hardware), 0, false},
    {"precision", CELL_TEXT, AT(precision), 0, false},
    {"data", CELL_TEXT, AT(data), 0, false},
    {"gradients", CELL_TEXT, AT(gradients), 0, false},
    {"overlap", CELL_TEXT, AT(overlap), 0, false},
};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

/* A file being read. */
struct table {
    struct published *out;
    int n_columns; /* 0: no heading read yet */
    const struct column *column[COLUMNS_MAX];
    char source[PUBLISHED_SOURCE_MAX];
};

static const struct column *column_find(const char *name)
{
    for (int i = 0; i < N_COLUMNS; i++)
        if (strcmp(columns[i].name, name) == 0)
            return &columns[i];
    return NULL;
}

static enum status heading_read(struct table *t, char *cell[], int n)
{
    int required = 0;
    for (int i = 0; i < n; i++) {
        const struct column *c = column_find(cell[i]);
        if (!c)
            return status_fail(STATUS_DATA, "unknown column '%.40s'", cell[i]);
        for (int k = 0; k < i; k++)
            if (t->column[k] == c)
                return status_fail(STATUS_DATA, "column '%s' occurs twice", c->name);
        t->column[i] = c;
        required += c->required;
    }
    if (required < 2)
        return status_fail(STATUS_DATA, "the columns 'series' and 'gpus' are needed");
    t->n_columns = n;
    return STATUS_OK;
}

static enum status text_read(const char *cell, const char *column, char out[PUBLISHED_NAME_MAX])
{
    char clean[PUBLISHED_NAME_MAX];
    text_clean(clean, sizeof clean, cell);
    if (strcmp(clean, cell) != 0)
        return status_fail(STATUS_DATA, "'%s' is too long or not text: '%.20s'", column, clean);
    memcpy(out, clean, sizeof clean);
    return STATUS_OK;
}

/* Reads a decimal number above 0; an accuracy may also be 0. */
static enum status real_read(const char *cell, const struct column *c, double *out)
{
    char *end;
    *out = strtod(cell, &end);
    if (!isdigit((unsigned char)*cell) || *end != '\0' || !(*out >= 0 && *out <= c->max) ||
        (*out == 0 && c->max != 100))
        return status_fail(STATUS_DATA, "'%s' is not a number above 0 and up to %g: '%.20s'",
                           c->name, c->max, cell);
    return STATUS_OK;
}

static enum status count_read(const char *cell, const struct column *c, int64_t *out)
{
    double v;
    TRY(real_read(cell, c, &v));
    if (v != floor(v))
        return status_fail(STATUS_DATA, "'%s' is not a whole number: '%.20s'", c->name, cell);
    *out = (int64_t)v;
    return STATUS_OK;
}

static enum status cell_read(const struct column *c, const char *cell, struct published_series *s)
{
    char *member = (char *)s + c->offset;
    if (*cell == '\0')
        return c->required ? status_fail(STATUS_DATA, "'%s' is empty", c->name) : STATUS_OK;
    switch (c->cell) {
    case CELL_TEXT:
        return text_read(cell, c->name, member);
    case CELL_COUNT:
        return count_read(cell, c, (int64_t *)(void *)member);
    default:
        return real_read(cell, c, (double *)(void *)member);
    }
}

static bool one_of(const char *word, const char *a, const char *b)
{
    return *word == '\0' || strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

static bool same_system(const struct published_series *a, const struct published_series *b)
{
    return strcmp(a->arch, b->arch) == 0 && strcmp(a->hardware, b->hardware) == 0 &&
           strcmp(a->precision, b->precision) == 0 && strcmp(a->gradients, b->gradients) == 0 &&
           strcmp(a->overlap, b->overlap) == 0 && a->gpus_per_node == b->gpus_per_node;
}

static struct published_series *series_find(const struct published *p, const char *name)
{
    for (int i = 0; i < p->n; i++)
        if (strcmp(p->series[i].name, name) == 0)
            return &p->series[i];
    return NULL;
}

/* Adds a row to its series. The first row of a series begins the series. */
static enum status row_add(struct published *p, const struct published_series *row)
{
    struct published_series *s = series_find(p, row->name);
    if (!s && p->n == SERIES_MAX)
        return status_fail(STATUS_DATA, "the table has more than %d series", SERIES_MAX);
    if (!s) {
        p->series[p->n++] = *row;
        return STATUS_OK;
    }
    if (!same_system(s, row))
        return status_fail(STATUS_DATA, "series '%s' has rows of two systems", s->name);
    if (row->point[0].gpus <= s->point[s->n - 1].gpus)
        return status_fail(STATUS_DATA,
                           "the rows of series '%s' are not in ascending order of gpus", s->name);
    if (s->n == PUBLISHED_POINTS_MAX)
        return status_fail(STATUS_DATA, "series '%s' has more than %d rows", s->name,
                           PUBLISHED_POINTS_MAX);
    s->point[s->n++] = row->point[0];
    return STATUS_OK;
}

static enum status row_read(const struct table *t, char *cell[], int n)
{
    struct published_series row = {.n = 1};
    struct published_point *p = &row.point[0];
    *p = (struct published_point){
        .images_per_s = NAN, .train_time_s = NAN, .top1 = NAN, .top5 = NAN, .efficiency = NAN};
    if (n != t->n_columns)
        return status_fail(STATUS_DATA, "the row has %d cells, but the header has %d", n,
                           t->n_columns);
    for (int i = 0; i < n; i++)
        TRY(cell_read(t->column[i], cell[i], &row));
    if (isnan(p->images_per_s) && isnan(p->efficiency) && isnan(p->train_time_s))
        return status_fail(STATUS_DATA, "the row has neither throughput nor efficiency nor time");
    if (!one_of(row.gradients, "fp16", "fp32") || !one_of(row.overlap, "yes", "no"))
        return status_fail(STATUS_DATA,
                           "'gradients' must be fp16 or fp32, and 'overlap' yes or no");
    memcpy(row.source, t->source, sizeof row.source);
    return row_add(t->out, &row);
}

static enum status line_read(void *context, char *line, size_t size)
{
    struct table *t = context;
    static const char source[] = "# source: ";
    char *cell[COLUMNS_MAX];
    if (strlen(line) != size)
        return status_fail(STATUS_DATA, "the file contains a NUL byte");
    if (size > 0 && line[size - 1] == '\r')
        line[size - 1] = '\0';
    if (strncmp(line, source, sizeof source - 1) == 0)
        text_clean(t->source, sizeof t->source, line + sizeof source - 1);
    if (*line == '\0' || *line == '#')
        return STATUS_OK;
    int n = csv_split(line, cell, COLUMNS_MAX);
    if (n < 0)
        return status_fail(STATUS_DATA, "not a line of CSV with up to %d columns", COLUMNS_MAX);
    return t->n_columns == 0 ? heading_read(t, cell, n) : row_read(t, cell, n);
}

enum status published_load(const char *path, struct published *out)
{
    enum status st;
    struct table t = {.out = out};
    *out = (struct published){0};
    TRY(array_new(&out->series, SERIES_MAX));
    CHECK(lines_each(path, true, line_read, &t));
    if (out->n == 0)
        st = status_fail(STATUS_DATA, "'%s' has no series", path);
done:
    if (st != STATUS_OK)
        published_free(out);
    return st;
}

void published_free(struct published *p)
{
    free(p->series);
    *p = (struct published){0};
}

enum status published_find(const struct published *p, const char *name,
                           const struct published_series **out)
{
    char names[1024] = "";
    *out = series_find(p, name);
    if (*out)
        return STATUS_OK;
    for (int i = 0; i < p->n; i++)
        text_join(names, sizeof names, ", ", "%s", p->series[i].name);
    return status_fail(STATUS_USAGE, "unknown series '%.40s'; known: %s", name, names);
}

double published_efficiency(const struct published_series *s, int i)
{
    const struct published_point *first = &s->point[0], *p = &s->point[i];
    if (isnan(p->images_per_s) || isnan(first->images_per_s))
        return p->efficiency;
    return 100 * (p->images_per_s / (double)p->gpus) / (first->images_per_s / (double)first->gpus);
}
