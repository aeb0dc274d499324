/* Tables of others' numbers, cell by cell. */
#include "results/published.h"

#include "results/lines.h"
#include "results/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 32, SERIES_MAX = 64 };

#define IMAGES_PER_S_MAX 1e12
#define SECONDS_MAX      1e12

/* What a column's cells are, and where they belong. */
enum cell { CELL_NAME, CELL_TEXT, CELL_GPUS, CELL_COUNT, CELL_REAL, CELL_PER_NODE };

struct column {
    const char *name;
    enum cell cell;
    size_t offset; /* CELL_TEXT: in struct published_series; CELL_COUNT, CELL_REAL: in a point */
    double max;
};

#define TEXT(n)                                                                                    \
    {                                                                                              \
#n, CELL_TEXT, offsetof(struct published_series, n), 0                                     \
    }
#define REAL(n, m, max)                                                                            \
    {                                                                                              \
        n, CELL_REAL, offsetof(struct published_point, m), max                                     \
    }

static const struct column columns[] = {
    {"series", CELL_NAME, 0, 0},
    {"gpus", CELL_GPUS, 0, 1e7},
    {"batch_per_gpu", CELL_COUNT, offsetof(struct published_point, batch_per_gpu), 1e6},
    {"gpus_per_node", CELL_PER_NODE, 0, 1e5},
    REAL("images_per_s", images_per_s, IMAGES_PER_S_MAX),
    REAL("train_time_s", train_time_s, SECONDS_MAX),
    REAL("top1_val", top1, 100),
    REAL("top5_val", top5, 100),
    REAL("efficiency", efficiency, 1000),
    TEXT(arch),
    TEXT(hardware),
    TEXT(precision),
    TEXT(gradients),
    TEXT(overlap),
};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

/* A file being read. */
struct table {
    struct published *out;
    int n_columns; /* 0: the heading has not come yet */
    const struct column *column[COLUMNS_MAX];
    char source[PUBLISHED_SOURCE_MAX];
};

/* Cuts a line at its commas, in place. */
static enum status cut(char *line, char *cell[COLUMNS_MAX], int *n)
{
    *n = 0;
    for (char *next = line; next;) {
        if (*n == COLUMNS_MAX)
            return status_fail(STATUS_DATA, "more than %d columns", COLUMNS_MAX);
        char *at = next;
        next = strchr(at, ',');
        if (next)
            *next++ = '\0';
        cell[(*n)++] = at;
    }
    return STATUS_OK;
}

static const struct column *column_find(const char *name)
{
    for (int i = 0; i < N_COLUMNS; i++)
        if (strcmp(columns[i].name, name) == 0)
            return &columns[i];
    return NULL;
}

static enum status heading_read(struct table *t, char *cell[], int n)
{
    bool has_series = false, has_gpus = false;
    for (int i = 0; i < n; i++) {
        const struct column *c = column_find(cell[i]);
        if (!c)
            return status_fail(STATUS_DATA, "unknown column '%.40s'", cell[i]);
        for (int k = 0; k < i; k++)
            if (t->column[k] == c)
                return status_fail(STATUS_DATA, "column '%s' comes twice", c->name);
        t->column[i] = c;
        has_series = has_series || c->cell == CELL_NAME;
        has_gpus = has_gpus || c->cell == CELL_GPUS;
    }
    if (!has_series || !has_gpus)
        return status_fail(STATUS_DATA, "no column 'series' or none 'gpus'");
    t->n_columns = n;
    return STATUS_OK;
}

static enum status text_read(const char *cell, const char *column, char out[PUBLISHED_NAME_MAX])
{
    char clean[PUBLISHED_NAME_MAX];
    text_clean(clean, sizeof clean, cell);
    if (strcmp(clean, cell) != 0)
        return status_fail(STATUS_DATA, "'%s' is too long or no text: '%.20s'", column, clean);
    memcpy(out, clean, sizeof clean);
    return STATUS_OK;
}

/* A decimal number above 0 (accuracies may be 0). */
static enum status real_read(const char *cell, const struct column *c, double *out)
{
    char *end;
    *out = strtod(cell, &end);
    if (!isdigit((unsigned char)*cell) || *end != '\0' || !(*out >= 0 && *out <= c->max) ||
        (*out == 0 && c->max != 100))
        return status_fail(STATUS_DATA, "'%s' is no number above 0 and up to %g: '%.20s'", c->name,
                           c->max, cell);
    return STATUS_OK;
}

static enum status count_read(const char *cell, const struct column *c, int64_t *out)
{
    double v;
    TRY(real_read(cell, c, &v));
    if (v != floor(v))
        return status_fail(STATUS_DATA, "'%s' is no whole number: '%.20s'", c->name, cell);
    *out = (int64_t)v;
    return STATUS_OK;
}

static enum status cell_read(const struct column *c, const char *cell, struct published_series *s,
                             struct published_point *p)
{
    if (*cell == '\0' && (c->cell == CELL_NAME || c->cell == CELL_GPUS))
        return status_fail(STATUS_DATA, "'%s' is empty", c->name);
    if (*cell == '\0')
        return STATUS_OK;
    switch (c->cell) {
    case CELL_NAME:
        return text_read(cell, c->name, s->name);
    case CELL_TEXT:
        return text_read(cell, c->name, (char *)s + c->offset);
    case CELL_GPUS:
        return count_read(cell, c, &p->gpus);
    case CELL_PER_NODE:
        return count_read(cell, c, &s->gpus_per_node);
    case CELL_COUNT:
        return count_read(cell, c, (int64_t *)((char *)p + c->offset));
    default:
        return real_read(cell, c, (double *)((char *)p + c->offset));
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

/* Puts a row to its series, or begins one with it. */
static enum status row_add(struct published *p, const struct published_series *row)
{
    struct published_series *s = series_find(p, row->name);
    if (!s && p->n == SERIES_MAX)
        return status_fail(STATUS_DATA, "more than %d series", SERIES_MAX);
    if (!s) {
        p->series[p->n++] = *row;
        return STATUS_OK;
    }
    if (!same_system(s, row))
        return status_fail(STATUS_DATA, "series '%s' is of two systems", s->name);
    if (row->point[0].gpus <= s->point[s->n - 1].gpus)
        return status_fail(STATUS_DATA, "series '%s' does not ascend in gpus", s->name);
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
        return status_fail(STATUS_DATA, "%d cells under %d columns", n, t->n_columns);
    for (int i = 0; i < n; i++)
        TRY(cell_read(t->column[i], cell[i], &row, p));
    if (isnan(p->images_per_s) && isnan(p->efficiency) && isnan(p->train_time_s))
        return status_fail(STATUS_DATA, "neither throughput nor efficiency nor time");
    if (!one_of(row.gradients, "fp16", "fp32") || !one_of(row.overlap, "yes", "no"))
        return status_fail(STATUS_DATA, "gradients are fp16 or fp32, overlap is yes or no");
    memcpy(row.source, t->source, sizeof row.source);
    return row_add(t->out, &row);
}

static enum status line_read(struct table *t, char *line, size_t size)
{
    static const char source[] = "# source: ";
    char *cell[COLUMNS_MAX];
    int n;
    if (strlen(line) != size)
        return status_fail(STATUS_DATA, "a NUL byte");
    if (size > 0 && line[size - 1] == '\r')
        line[size - 1] = '\0';
    if (strncmp(line, source, sizeof source - 1) == 0)
        text_clean(t->source, sizeof t->source, line + sizeof source - 1);
    if (*line == '\0' || *line == '#')
        return STATUS_OK;
    TRY(cut(line, cell, &n));
    return t->n_columns == 0 ? heading_read(t, cell, n) : row_read(t, cell, n);
}

enum status published_load(const char *path, struct published *out)
{
    enum status st;
    struct lines l = {.fd = -1};
    struct table t = {.out = out};
    *out = (struct published){.series = calloc(SERIES_MAX, sizeof *out->series)};
    if (!out->series)
        return status_fail(STATUS_OOM, "no memory for the series of '%s'", path);
    CHECK(lines_open(&l, path));
    for (;;) {
        char *line;
        size_t size;
        CHECK(lines_next(&l, &line, &size));
        if (!line)
            break;
        st = line_read(&t, line, size);
        if (st != STATUS_OK) {
            st = status_context(st, "'%s', line %" PRId64, path, l.number);
            goto done;
        }
    }
    if (l.torn)
        st = status_fail(STATUS_DATA, "'%s' ends within a line", path);
    else if (out->n == 0)
        st = status_fail(STATUS_DATA, "no series in '%s'", path);
done:
    lines_close(&l);
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
    size_t len = 0;
    *out = series_find(p, name);
    if (*out)
        return STATUS_OK;
    for (int i = 0; i < p->n && len < sizeof names; i++)
        len += (size_t)snprintf(names + len, sizeof names - len, "%s%s", i > 0 ? ", " : "",
                                p->series[i].name);
    return status_fail(STATUS_USAGE, "no series '%.40s': there are %s", name, names);
}

double published_efficiency(const struct published_series *s, int i)
{
    const struct published_point *first = &s->point[0], *p = &s->point[i];
    if (isnan(p->images_per_s) || isnan(first->images_per_s))
        return p->efficiency;
    return 100 * (p->images_per_s / (double)p->gpus) / (first->images_per_s / (double)first->gpus);
}
