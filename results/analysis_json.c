/* analysis.json, read and written by the same tables. */
#include "results/analysis.h"

#include "base/file.h"
#include "results/text.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Some hundred bytes a cell and repeat: far above what a study comes to. */
enum { ANALYSIS_MAX_BYTES = 64 << 20 };

#define COUNT_MAX 9007199254740992 /* 2^53 */

enum kind { TEXT, COUNT, OPTIONAL_COUNT, REAL, MEASURE, FLAG };

/* A member of a struct and of an object, both by the same name unless said otherwise. */
struct member {
    const char *name;
    enum kind kind;
    size_t offset, size;
};

#define MEMBER(s, key, member, kind)                                                               \
    {                                                                                              \
        key, kind, offsetof(struct s, member), sizeof(((struct s *)0)->member)                     \
    }
#define CELL(key, kind) MEMBER(analysis_cell, #key, key, kind)
#define SYSTEM(key)     MEMBER(analysis_cell, #key, system.key, OPTIONAL_COUNT)

static const struct member cell_members[] = {
    CELL(name, TEXT),
    CELL(mode, TEXT),
    CELL(precision, TEXT),
    CELL(arch, TEXT),
    CELL(data, TEXT),
    CELL(real, FLAG),
    CELL(devices, COUNT),
    CELL(ranks, COUNT),
    CELL(batch, COUNT),
    SYSTEM(hosts),
    SYSTEM(ranks_per_host),
    SYSTEM(image_size),
    SYSTEM(classes),
    SYSTEM(gradient_bytes),
    CELL(images_per_s, MEASURE),
    MEMBER(analysis_cell, "wall_images_per_s", wall, MEASURE),
    CELL(seconds, MEASURE),
    CELL(top1, REAL),
    CELL(top5, REAL),
    CELL(speedup, REAL),
    CELL(speedup_wall, REAL),
    CELL(efficiency, REAL),
    CELL(efficiency_wall, REAL),
    CELL(comm_busy_s, REAL),
    CELL(behind, REAL),
    CELL(verdict, TEXT),
};

static const struct member measure_members[] = {
    MEMBER(analysis_measure, "median", median, REAL),
    MEMBER(analysis_measure, "low", low, REAL),
    MEMBER(analysis_measure, "high", high, REAL),
};

static const struct member head_members[] = {
    MEMBER(analysis, "study", study, TEXT),
    MEMBER(analysis, "about", about, TEXT),
    MEMBER(analysis, "command", command, TEXT),
};

#define LENGTH(a) (sizeof(a) / sizeof *(a))

/* ---- writing ---- */

/* jansson refuses what is not finite. */
static json_t *real_json(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *members_json(const void *from, const struct member *m, size_t n);

static json_t *measure_json(const struct analysis_measure *m)
{
    json_t *object = members_json(m, measure_members, LENGTH(measure_members));
    json_t *values = json_array();
    json_object_set_new(object, "n", json_integer(m->n));
    for (int64_t i = 0; i < m->n; i++)
        json_array_append_new(values, real_json(m->values[i]));
    json_object_set_new(object, "values", values);
    return object;
}

static json_t *member_json(const char *at, enum kind kind)
{
    switch (kind) {
    case TEXT:
        return text_json(at);
    case COUNT:
    case OPTIONAL_COUNT:
        return json_integer(*(const int64_t *)(const void *)at);
    case REAL:
        return real_json(*(const double *)(const void *)at);
    case MEASURE:
        return measure_json((const void *)at);
    case FLAG:
        return json_boolean(*(const bool *)at);
    }
    return NULL;
}

static json_t *members_json(const void *from, const struct member *m, size_t n)
{
    json_t *object = json_object();
    for (size_t i = 0; i < n; i++) {
        const char *at = (const char *)from + m[i].offset;
        if (m[i].kind != OPTIONAL_COUNT || *(const int64_t *)(const void *)at != 0)
            json_object_set_new(object, m[i].name, member_json(at, m[i].kind));
    }
    return object;
}

static json_t *cell_json(const struct analysis_cell *c)
{
    json_t *object = members_json(c, cell_members, LENGTH(cell_members));
    json_t *split = json_object(), *evidence = json_array();
    for (int p = 0; p < ANALYSIS_PARTS; p++)
        json_object_set_new(split, analysis_part_str((enum analysis_part)p),
                            real_json(c->split[p]));
    for (int i = 0; i < c->n_evidence; i++)
        json_array_append_new(evidence, text_json(c->evidence[i]));
    json_object_set_new(object, "scaling", json_string(analysis_scaling_str(c->scaling)));
    json_object_set_new(object, "split", split);
    json_object_set_new(object, "slowest_rank",
                        c->slowest_rank < 0 ? json_null() : json_integer(c->slowest_rank));
    json_object_set_new(object, "evidence", evidence);
    json_object_set_new(object, "missing", *c->missing ? text_json(c->missing) : json_null());
    return object;
}

static json_t *series_json(const struct analysis *a, const struct analysis_series *s)
{
    json_t *names = json_array();
    for (int64_t i = 0; i < s->n; i++)
        json_array_append_new(names, text_json(a->cell[s->cell[i]].name));
    return names;
}

enum status analysis_write(const struct analysis *a, const char *path)
{
    json_t *root = members_json(a, head_members, LENGTH(head_members));
    json_t *cells = json_array(), *series = json_array();
    json_object_set_new(root, "schema", json_integer(ANALYSIS_SCHEMA));
    json_object_set(root, "machine", a->machine);
    json_object_set(root, "thresholds", a->thresholds);
    for (int64_t i = 0; i < a->n_cells; i++)
        json_array_append_new(cells, cell_json(&a->cell[i]));
    for (int64_t i = 0; i < a->n_series; i++)
        json_array_append_new(series, series_json(a, &a->series[i]));
    json_object_set_new(root, "cells", cells);
    json_object_set_new(root, "series", series);
    char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(root);
    if (!text)
        return status_fail(STATUS_OOM, "no memory to write '%s'", path);
    enum status st = file_replace(path, text, strlen(text));
    free(text);
    return st;
}

/* ---- reading ---- */

static enum status text_parse(const json_t *value, const char *name, char *out, size_t size)
{
    if (!json_is_string(value))
        return status_fail(STATUS_DATA, "'%s' is missing or no text", name);
    text_clean(out, size, json_string_value(value));
    return STATUS_OK;
}

static enum status count_parse(const json_t *value, const char *name, int64_t *out)
{
    int64_t v = json_is_integer(value) ? json_integer_value(value) : -1;
    if (v < 0 || v > COUNT_MAX)
        return status_fail(STATUS_DATA, "'%s' is missing or no whole number", name);
    *out = v;
    return STATUS_OK;
}

/* Everything measured is at least 0; `behind` too, since the slowest rank is no faster than the
 * median. */
static enum status real_parse(const json_t *value, const char *name, double *out)
{
    *out = json_is_null(value) ? NAN : json_number_value(value);
    if (!json_is_null(value) && !(json_is_number(value) && isfinite(*out) && *out >= 0))
        return status_fail(STATUS_DATA, "'%s' is missing or no number of at least 0", name);
    return STATUS_OK;
}

static enum status members_parse(const json_t *object, const struct member *m, size_t n,
                                 void *into);

static enum status measure_parse(const json_t *object, const char *name, struct analysis_measure *m)
{
    const json_t *values = json_object_get(object, "values");
    enum status st = members_parse(object, measure_members, LENGTH(measure_members), m);
    if (st == STATUS_OK)
        st = count_parse(json_object_get(object, "n"), "n", &m->n);
    if (st == STATUS_OK && (m->n > ANALYSIS_MAX_REPEATS || !json_is_array(values) ||
                            json_array_size(values) != (size_t)m->n || isnan(m->median) != !m->n ||
                            isnan(m->low) != isnan(m->high)))
        st = status_fail(STATUS_DATA, "its parts do not fit");
    for (int64_t i = 0; st == STATUS_OK && i < m->n; i++)
        st = json_is_null(json_array_get(values, (size_t)i))
                 ? status_fail(STATUS_DATA, "a value is null")
                 : real_parse(json_array_get(values, (size_t)i), "values", &m->values[i]);
    return st == STATUS_OK ? st : status_context(st, "'%s'", name);
}

static enum status member_parse(const json_t *value, const struct member *m, char *at)
{
    switch (m->kind) {
    case TEXT:
        return text_parse(value, m->name, at, m->size);
    case COUNT:
        return count_parse(value, m->name, (int64_t *)(void *)at);
    case OPTIONAL_COUNT:
        *(int64_t *)(void *)at = 0;
        return value ? count_parse(value, m->name, (int64_t *)(void *)at) : STATUS_OK;
    case REAL:
        return real_parse(value, m->name, (double *)(void *)at);
    case MEASURE:
        return measure_parse(value, m->name, (void *)at);
    case FLAG:
        *(bool *)at = json_is_true(value);
        return json_is_boolean(value)
                   ? STATUS_OK
                   : status_fail(STATUS_DATA, "'%s' is missing or neither true nor false", m->name);
    }
    return STATUS_OK;
}

static enum status members_parse(const json_t *object, const struct member *m, size_t n, void *into)
{
    if (!json_is_object(object))
        return status_fail(STATUS_DATA, "not an object");
    for (size_t i = 0; i < n; i++)
        TRY(member_parse(json_object_get(object, m[i].name), &m[i], (char *)into + m[i].offset));
    return STATUS_OK;
}

static enum status evidence_parse(const json_t *list, struct analysis_cell *c)
{
    if (!json_is_array(list) || json_array_size(list) > ANALYSIS_MAX_EVIDENCE)
        return status_fail(STATUS_DATA, "'evidence' is no list of at most %d",
                           ANALYSIS_MAX_EVIDENCE);
    for (c->n_evidence = 0; c->n_evidence < (int)json_array_size(list); c->n_evidence++)
        TRY(text_parse(json_array_get(list, (size_t)c->n_evidence), "evidence",
                       c->evidence[c->n_evidence], sizeof c->evidence[0]));
    return STATUS_OK;
}

static enum status cell_parse(const json_t *object, struct analysis_cell *c)
{
    *c = analysis_cell_unknown();
    TRY(members_parse(object, cell_members, LENGTH(cell_members), c));
    const char *scaling = json_string_value(json_object_get(object, "scaling"));
    if (!scaling || (strcmp(scaling, "weak") != 0 && strcmp(scaling, "strong") != 0))
        return status_fail(STATUS_DATA, "'scaling' is neither weak nor strong");
    c->scaling = strcmp(scaling, "weak") == 0 ? ANALYSIS_WEAK : ANALYSIS_STRONG;
    for (int p = 0; p < ANALYSIS_PARTS; p++) {
        const char *name = analysis_part_str((enum analysis_part)p);
        const json_t *split = json_object_get(object, "split");
        TRY(real_parse(json_object_get(split, name), name, &c->split[p]));
    }
    const json_t *slowest = json_object_get(object, "slowest_rank");
    const json_t *missing = json_object_get(object, "missing");
    if (!json_is_null(slowest))
        TRY(count_parse(slowest, "slowest_rank", &c->slowest_rank));
    if (!json_is_null(missing))
        TRY(text_parse(missing, "missing", c->missing, sizeof c->missing));
    if (c->devices < 1 || c->ranks < 1 || c->batch < 1)
        return status_fail(STATUS_DATA, "no devices, no ranks or no images");
    if (c->system.hosts > c->ranks || c->system.ranks_per_host > c->ranks)
        return status_fail(STATUS_DATA, "more hosts than ranks, or more ranks on one than in all");
    if ((*c->missing != '\0') != (c->images_per_s.n == 0))
        return status_fail(STATUS_DATA, "a cell is missing, or has a result");
    return evidence_parse(json_object_get(object, "evidence"), c);
}

static enum status cells_parse(const json_t *list, struct analysis *a)
{
    size_t n = json_array_size(list);
    if (n < 1 || n > ANALYSIS_MAX_CELLS)
        return status_fail(STATUS_DATA, "'cells' is no list of 1 to %d", ANALYSIS_MAX_CELLS);
    a->cell = calloc(n, sizeof *a->cell);
    if (!a->cell)
        return status_fail(STATUS_OOM, "no memory for %zu cells", n);
    for (; a->n_cells < (int64_t)n; a->n_cells++) {
        enum status st = cell_parse(json_array_get(list, (size_t)a->n_cells), &a->cell[a->n_cells]);
        if (st != STATUS_OK)
            return status_context(st, "cell %lld", (long long)a->n_cells + 1);
    }
    return STATUS_OK;
}

static int64_t cell_find(const struct analysis *a, const char *name)
{
    for (int64_t i = 0; name && i < a->n_cells; i++)
        if (strcmp(a->cell[i].name, name) == 0)
            return i;
    return -1;
}

static enum status one_series_parse(const json_t *names, const struct analysis *a,
                                    struct analysis_series *s)
{
    size_t n = json_array_size(names);
    if (n < 1 || n > (size_t)a->n_cells)
        return status_fail(STATUS_DATA, "a series is no list of cells");
    s->cell = calloc(n, sizeof *s->cell);
    if (!s->cell)
        return status_fail(STATUS_OOM, "no memory for a series");
    for (; s->n < (int64_t)n; s->n++) {
        int64_t at = cell_find(a, json_string_value(json_array_get(names, (size_t)s->n)));
        if (at < 0)
            return status_fail(STATUS_DATA, "a series names a cell that is not there");
        if (s->n > 0 && a->cell[at].devices <= a->cell[s->cell[s->n - 1]].devices)
            return status_fail(STATUS_DATA, "a series does not ascend by devices");
        s->cell[s->n] = at;
    }
    return STATUS_OK;
}

static enum status series_parse(const json_t *list, struct analysis *a)
{
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > ANALYSIS_MAX_CELLS)
        return status_fail(STATUS_DATA, "'series' is no list of at most %d", ANALYSIS_MAX_CELLS);
    a->series = calloc(n + 1, sizeof *a->series);
    if (!a->series)
        return status_fail(STATUS_OOM, "no memory for %zu series", n);
    for (; a->n_series < (int64_t)n;) {
        /* Counted first, so that analysis_free finds what a failure leaves. */
        struct analysis_series *s = &a->series[a->n_series++];
        TRY(one_series_parse(json_array_get(list, (size_t)(s - a->series)), a, s));
    }
    return STATUS_OK;
}

static enum status root_parse(const json_t *root, struct analysis *a)
{
    if (!json_is_object(root))
        return status_fail(STATUS_DATA, "not valid JSON");
    if (json_integer_value(json_object_get(root, "schema")) != ANALYSIS_SCHEMA)
        return status_fail(STATUS_DATA,
                           "no analysis of schema %d; 'ampscale study' writes it again",
                           ANALYSIS_SCHEMA);
    TRY(members_parse(root, head_members, LENGTH(head_members), a));
    a->machine = json_incref(json_object_get(root, "machine"));
    a->thresholds = json_incref(json_object_get(root, "thresholds"));
    if (!json_is_object(a->machine) || !json_is_object(a->thresholds))
        return status_fail(STATUS_DATA, "'machine' or 'thresholds' is missing");
    TRY(cells_parse(json_object_get(root, "cells"), a));
    return series_parse(json_object_get(root, "series"), a);
}

enum status analysis_read(const char *path, struct analysis *a)
{
    char file[4096];
    char *bytes = NULL;
    size_t size;
    *a = (struct analysis){0};
    TRY(path_format(file, sizeof file, "%s%s", path, path_is_dir(path) ? "/" ANALYSIS_FILE : ""));
    if (!path_exists(file))
        return status_fail(STATUS_DATA, "'%s' is not there; 'ampscale study' writes it", file);
    TRY(file_read(file, ANALYSIS_MAX_BYTES, &bytes, &size));
    json_t *root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL);
    free(bytes);
    enum status st = root_parse(root, a);
    json_decref(root);
    if (st == STATUS_OK)
        return st;
    analysis_free(a);
    return status_context(st, "'%s'", file);
}
