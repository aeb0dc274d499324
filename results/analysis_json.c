/* Converts an analysis to JSON and back, by the same tables. */
#include "results/analysis.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "results/noise.h"
#include "results/schema.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Limit of the file's size. A study needs some hundred bytes per cell and repeat, and per cell and
 * epoch, far less than this. */
enum { ANALYSIS_MAX_BYTES = 256 << 20 };

#define MEMBER(s, key, m, t, opt, most)                                                            \
    {                                                                                              \
        .name = key, .type = t, .optional = opt, .offset = offsetof(struct s, m), .max = most,     \
        .size = sizeof(((struct s *)0)->m)                                                         \
    }
#define COUNT_MAX   9007199254740992 /* 2^53 */
#define TEXT(s, m)  MEMBER(s, #m, m, FIELD_TEXT, false, 0)
#define COUNT(s, m) MEMBER(s, #m, m, FIELD_COUNT, false, COUNT_MAX)
#define SYSTEM(m)   MEMBER(analysis_cell, #m, system.m, FIELD_COUNT, true, COUNT_MAX)

/* A measured number is at least 0. This holds for `behind`, too: the slowest rank is never faster
 * than the median. */
#define REAL(s, m) MEMBER(s, #m, m, FIELD_REAL, false, RECORD_REAL_MAX)

#define IO(key, m) MEMBER(analysis_cell, key, io.m, FIELD_SENSOR, true, RECORD_REAL_MAX)

static const struct field cell_fields[] = {
    TEXT(analysis_cell, name),
    TEXT(analysis_cell, mode),
    TEXT(analysis_cell, precision),
    TEXT(analysis_cell, arch),
    TEXT(analysis_cell, data),
    MEMBER(analysis_cell, "real", real, FIELD_FLAG, false, 0),
    COUNT(analysis_cell, devices),
    COUNT(analysis_cell, ranks),
    COUNT(analysis_cell, batch),
    SYSTEM(hosts),
    SYSTEM(ranks_per_host),
    SYSTEM(image_size),
    SYSTEM(classes),
    SYSTEM(gradient_bytes),
    SYSTEM(accumulate),
    REAL(analysis_cell, top1),
    REAL(analysis_cell, top5),
    REAL(analysis_cell, speedup),
    REAL(analysis_cell, speedup_wall),
    REAL(analysis_cell, efficiency),
    REAL(analysis_cell, efficiency_wall),
    REAL(analysis_cell, comm_busy_s),
    REAL(analysis_cell, behind),
    IO("bytes_per_s", bytes_per_s),
    IO("files_per_s", files_per_s),
    IO("storage_bytes_per_s", storage_bytes_per_s),
    IO("device_bytes_per_s", device_bytes_per_s),
    IO("cached_percent", cached_percent),
    TEXT(analysis_cell, verdict),
};

#define PERCENT(name, m) MEMBER(analysis_epoch, name, m, FIELD_REAL, false, 100)
#define ACCURACY(name, k)                                                                          \
    PERCENT(name, accuracy[k].median), PERCENT(name "_low", accuracy[k].low),                      \
        PERCENT(name "_high", accuracy[k].high)

static const struct field curve_fields[] = {
    COUNT(analysis_epoch, epoch),
    ACCURACY("top1_train", ANALYSIS_TOP1_TRAIN),
    ACCURACY("top1_val", ANALYSIS_TOP1_VAL),
    ACCURACY("top5_train", ANALYSIS_TOP5_TRAIN),
    ACCURACY("top5_val", ANALYSIS_TOP5_VAL),
};

static const struct field measure_fields[] = {
    REAL(analysis_measure, median),
    REAL(analysis_measure, low),
    REAL(analysis_measure, high),
    COUNT(analysis_measure, n),
};

static const struct field conditions_fields[] = {
    COUNT(conditions, runs),
    COUNT(conditions, recorded),
    COUNT(conditions, disturbed),
    MEMBER(conditions, "others", others, FIELD_SENSOR, true, RECORD_REAL_MAX),
};

static const struct field head_fields[] = {
    TEXT(analysis, study),
    TEXT(analysis, about),
    TEXT(analysis, command),
};

#define SCHEMA(fields)                                                                             \
    {                                                                                              \
        sizeof(fields) / sizeof *(fields), fields                                                  \
    }
static const struct schema cell_schema = SCHEMA(cell_fields);
static const struct schema curve_schema = SCHEMA(curve_fields);
static const struct schema measure_schema = SCHEMA(measure_fields);
static const struct schema conditions_schema = SCHEMA(conditions_fields);
static const struct schema head_schema = SCHEMA(head_fields);

/* The members of a cell that are statistics over its repeats. */
static const struct {
    const char *name;
    size_t offset;
    bool optional;
} measures[] = {
    {"images_per_s", offsetof(struct analysis_cell, images_per_s), false},
    {"wall_images_per_s", offsetof(struct analysis_cell, wall), false},
    {"seconds", offsetof(struct analysis_cell, seconds), false},
    {"top1_percent", offsetof(struct analysis_cell, top1_runs), true},
};
enum { N_MEASURES = sizeof measures / sizeof *measures };

static const char *const part_names[ANALYSIS_PARTS] = {
    [ANALYSIS_DATA] = "data_s",       [ANALYSIS_H2D] = "h2d_s",
    [ANALYSIS_FORWARD] = "forward_s", [ANALYSIS_BACKWARD] = "backward_s",
    [ANALYSIS_COMM] = "comm_s",       [ANALYSIS_OPTIMIZER] = "optimizer_s",
    [ANALYSIS_OTHER] = "other_s",
};

/* ---- writing ---- */

/* Adds the empty value `empty` to the object, under `key`, and returns it. The object owns the
 * value. */
static json_t *member_new(json_t *object, const char *key, json_t *empty)
{
    json_put(object, key, empty);
    return empty;
}

static void measure_put(json_t *into, const struct analysis_measure *m)
{
    schema_put(&measure_schema, m, into);
    json_t *values = member_new(into, "values", json_array());
    for (int64_t i = 0; i < m->n; i++)
        json_add(values, json_finite(m->values[i]));
}

/* Adds the conditions of runs, unless there are none: cells without a run, and records of earlier
 * versions. */
static void conditions_put(json_t *into, const char *key, const struct conditions *c)
{
    if (c->runs == 0)
        return;
    json_t *object = member_new(into, key, json_object());
    if (*c->from)
        json_put(object, "from", text_json(c->from));
    if (*c->to)
        json_put(object, "to", text_json(c->to));
    schema_put(&conditions_schema, c, object);
}

static void epochs_put(json_t *into, const struct analysis_cell *c)
{
    json_t *list = member_new(into, "epochs", json_array());
    for (int64_t i = 0; i < c->n_epochs; i++) {
        json_add(list, json_object());
        schema_put(&curve_schema, &c->epoch[i], json_array_get(list, (size_t)i));
    }
}

static void cell_put(json_t *into, const struct analysis_cell *c)
{
    schema_put(&cell_schema, c, into);
    for (int i = 0; i < N_MEASURES; i++)
        measure_put(member_new(into, measures[i].name, json_object()),
                    (const void *)((const char *)c + measures[i].offset));
    if (c->emulated)
        json_put(into, "emulated", json_true());
    conditions_put(into, "noise", &c->conditions);
    json_put(into, "scaling", json_utf8(analysis_scaling_str(c->scaling)));
    json_t *split = member_new(into, "split", json_object());
    for (int p = 0; p < ANALYSIS_PARTS; p++)
        json_put(split, part_names[p], json_finite(c->split[p]));
    json_put(into, "slowest_rank",
             c->slowest_rank < 0 ? json_null() : json_integer(c->slowest_rank));
    json_t *evidence = member_new(into, "evidence", json_array());
    for (int i = 0; i < c->n_evidence; i++)
        json_add(evidence, text_json(c->evidence[i]));
    if (c->n_epochs > 0)
        epochs_put(into, c);
    json_put(into, "missing", *c->missing ? text_json(c->missing) : json_null());
}

enum status analysis_write(const struct analysis *a, const char *path)
{
    json_t *root = json_object();
    schema_put(&head_schema, a, root);
    json_put(root, "schema", json_integer(ANALYSIS_SCHEMA));
    json_put(root, "machine", json_incref(a->machine));
    json_put(root, "thresholds", json_incref(a->thresholds));
    conditions_put(root, "measured", &a->conditions);
    json_t *cells = member_new(root, "cells", json_array());
    json_t *series = member_new(root, "series", json_array());
    for (int64_t i = 0; i < a->n_cells; i++) {
        json_add(cells, json_object());
        cell_put(json_array_get(cells, (size_t)i), &a->cell[i]);
    }
    for (int64_t i = 0; i < a->n_series; i++) {
        const struct analysis_series *s = &a->series[i];
        json_add(series, json_array());
        for (int64_t k = 0; k < s->n; k++)
            json_add(json_array_get(series, (size_t)i), text_json(a->cell[s->cell[k]].name));
    }
    return json_write(root, JSON_RECORD, "%s", path);
}

/* ---- reading ---- */

/* Reads a number, which is an element of a list or a member of an object. null is read as NAN. */
static enum status real_parse(const json_t *value, const char *name, double *out)
{
    *out = json_is_null(value) ? NAN : json_number_value(value);
    if (!json_is_null(value) && !(json_is_number(value) && *out >= 0 && *out <= RECORD_REAL_MAX))
        return status_fail(STATUS_DATA, "'%s' is missing or not a number of at least 0", name);
    return STATUS_OK;
}

static enum status text_parse(const json_t *value, const char *name, char *out, size_t size)
{
    if (!json_is_string(value))
        return status_fail(STATUS_DATA, "'%s' is missing or not a text", name);
    text_clean(out, size, json_string_value(value));
    return STATUS_OK;
}

static enum status measure_parse(const json_t *object, struct analysis_measure *m)
{
    const json_t *values = json_object_get(object, "values");
    TRY(schema_parse(&measure_schema, object, m));
    if (m->n > ANALYSIS_MAX_REPEATS || !json_is_array(values) ||
        json_array_size(values) != (size_t)m->n || isnan(m->median) != !m->n ||
        isnan(m->low) != isnan(m->high))
        return status_fail(STATUS_DATA, "its fields contradict each other");
    for (int64_t i = 0; i < m->n; i++) {
        TRY(real_parse(json_array_get(values, (size_t)i), "values", &m->values[i]));
        if (isnan(m->values[i]))
            return status_fail(STATUS_DATA, "a value is null");
    }
    return STATUS_OK;
}

static enum status evidence_parse(const json_t *list, struct analysis_cell *c)
{
    if (!json_is_array(list) || json_array_size(list) > ANALYSIS_MAX_EVIDENCE)
        return status_fail(STATUS_DATA, "'evidence' is not a list of at most %d texts",
                           ANALYSIS_MAX_EVIDENCE);
    for (c->n_evidence = 0; c->n_evidence < (int)json_array_size(list); c->n_evidence++)
        TRY(text_parse(json_array_get(list, (size_t)c->n_evidence), "evidence",
                       c->evidence[c->n_evidence], sizeof c->evidence[0]));
    return STATUS_OK;
}

static enum status time_parse(const json_t *object, const char *key, char out[CONDITIONS_TIME_SIZE])
{
    const char *text = json_text_at(object, key);
    if (json_object_get(object, key) && !conditions_is_time(text))
        return status_fail(STATUS_DATA, "'%s' is not a time", key);
    snprintf(out, CONDITIONS_TIME_SIZE, "%s", text);
    return STATUS_OK;
}

static enum status conditions_parse(const json_t *object, struct conditions *c)
{
    *c = conditions_none;
    if (!object)
        return STATUS_OK;
    TRY(schema_parse(&conditions_schema, object, c));
    TRY(time_parse(object, "from", c->from));
    TRY(time_parse(object, "to", c->to));
    if (c->recorded > c->runs || c->disturbed > c->recorded)
        return status_fail(STATUS_DATA, "the numbers of runs contradict each other");
    return STATUS_OK;
}

static enum status epochs_parse(const json_t *list, struct analysis_cell *c)
{
    size_t n = json_array_size(list);
    if (n > ANALYSIS_MAX_EPOCHS)
        return status_fail(STATUS_DATA, "'epochs' has more than %d epochs", ANALYSIS_MAX_EPOCHS);
    TRY(array_new(&c->epoch, n));
    for (; c->n_epochs < (int64_t)n; c->n_epochs++) {
        struct analysis_epoch *e = &c->epoch[c->n_epochs];
        TRY(schema_parse(&curve_schema, json_array_get(list, (size_t)c->n_epochs), e));
        if (e->epoch <= (c->n_epochs > 0 ? e[-1].epoch : 0))
            return status_fail(STATUS_DATA, "'epochs' is not in ascending order");
    }
    return STATUS_OK;
}

static enum status cell_parse(const json_t *object, struct analysis_cell *c)
{
    *c = analysis_cell_unknown();
    TRY(schema_parse(&cell_schema, object, c));
    c->emulated = json_is_true(json_object_get(object, "emulated"));
    TRY(conditions_parse(json_object_get(object, "noise"), &c->conditions));
    /* Earlier versions counted short runs as `too_short`, and did not judge them. If the median of
     * `others` exceeds its bound, it does in at least half of the runs. */
    if (json_object_get(json_object_get(object, "noise"), "too_short") &&
        c->conditions.others > NOISE_OTHERS && 2 * c->conditions.disturbed < c->conditions.recorded)
        c->conditions.disturbed = (c->conditions.recorded + 1) / 2;
    for (int i = 0; i < N_MEASURES; i++) {
        const json_t *measure = json_object_get(object, measures[i].name);
        if (!measure && measures[i].optional)
            continue;
        enum status st = measure_parse(measure, (void *)((char *)c + measures[i].offset));
        if (st != STATUS_OK)
            return status_context(st, "'%s'", measures[i].name);
    }
    const char *scaling = json_string_value(json_object_get(object, "scaling"));
    if (!scaling || (strcmp(scaling, "weak") != 0 && strcmp(scaling, "strong") != 0))
        return status_fail(STATUS_DATA, "'scaling' must be weak or strong");
    c->scaling = strcmp(scaling, "weak") == 0 ? ANALYSIS_WEAK : ANALYSIS_STRONG;
    for (int p = 0; p < ANALYSIS_PARTS; p++) {
        const char *name = part_names[p];
        const json_t *split = json_object_get(object, "split");
        TRY(real_parse(json_object_get(split, name), name, &c->split[p]));
    }
    const json_t *slowest = json_object_get(object, "slowest_rank");
    const json_t *missing = json_object_get(object, "missing");
    if (!json_is_null(slowest)) {
        c->slowest_rank = json_integer_value(slowest);
        if (!json_is_integer(slowest) || c->slowest_rank < 0)
            return status_fail(STATUS_DATA, "'slowest_rank' is missing or not a whole number");
    }
    if (!json_is_null(missing))
        TRY(text_parse(missing, "missing", c->missing, sizeof c->missing));
    if (c->devices < 1 || c->ranks < 1 || c->batch < 1)
        return status_fail(STATUS_DATA, "'devices', 'ranks' or 'batch' is 0");
    if (c->system.hosts > c->ranks || c->system.ranks_per_host > c->ranks)
        return status_fail(STATUS_DATA,
                           "more hosts than ranks, or more ranks per host than ranks in total");
    if ((*c->missing != '\0') != (c->images_per_s.n == 0))
        return status_fail(STATUS_DATA, "a cell must have either 'missing' or results");
    TRY(epochs_parse(json_object_get(object, "epochs"), c));
    return evidence_parse(json_object_get(object, "evidence"), c);
}

static enum status cells_parse(const json_t *list, struct analysis *a)
{
    size_t n = json_array_size(list);
    if (n < 1 || n > ANALYSIS_MAX_CELLS)
        return status_fail(STATUS_DATA, "'cells' is not a list of 1 to %d cells",
                           ANALYSIS_MAX_CELLS);
    TRY(array_new(&a->cell, n));
    while (a->n_cells < (int64_t)n) {
        /* The cell is counted before it is read, so that analysis_free frees it if reading fails.
         */
        struct analysis_cell *c = &a->cell[a->n_cells++];
        enum status st = cell_parse(json_array_get(list, (size_t)(c - a->cell)), c);
        if (st != STATUS_OK)
            return status_context(st, "cell %lld", (long long)a->n_cells);
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
        return status_fail(STATUS_DATA, "a series is not a list of cells");
    TRY(array_new(&s->cell, n));
    for (; s->n < (int64_t)n; s->n++) {
        int64_t at = cell_find(a, json_string_value(json_array_get(names, (size_t)s->n)));
        if (at < 0)
            return status_fail(STATUS_DATA, "a series names an unknown cell");
        if (s->n > 0 && a->cell[at].devices <= a->cell[s->cell[s->n - 1]].devices)
            return status_fail(STATUS_DATA,
                               "the cells of a series are not in ascending order of devices");
        s->cell[s->n] = at;
    }
    return STATUS_OK;
}

static enum status series_parse(const json_t *list, struct analysis *a)
{
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > 2 * ANALYSIS_MAX_CELLS)
        return status_fail(STATUS_DATA, "'series' is not a list of at most %d series",
                           2 * ANALYSIS_MAX_CELLS);
    TRY(array_new(&a->series, n));
    for (; a->n_series < (int64_t)n;) {
        /* The series is counted before it is read, so that analysis_free frees it if reading
         * fails. */
        struct analysis_series *s = &a->series[a->n_series++];
        TRY(one_series_parse(json_array_get(list, (size_t)(s - a->series)), a, s));
    }
    return STATUS_OK;
}

static enum status root_parse(const json_t *root, struct analysis *a)
{
    if (json_integer_value(json_object_get(root, "schema")) != ANALYSIS_SCHEMA)
        return status_fail(STATUS_DATA,
                           "it is not an analysis of schema %d; 'ampscale study' writes a new one",
                           ANALYSIS_SCHEMA);
    TRY(schema_parse(&head_schema, root, a));
    a->machine = json_incref(json_object_get(root, "machine"));
    a->thresholds = json_incref(json_object_get(root, "thresholds"));
    if (!json_is_object(a->machine) || !json_is_object(a->thresholds))
        return status_fail(STATUS_DATA, "'machine' or 'thresholds' is missing");
    TRY(conditions_parse(json_object_get(root, "measured"), &a->conditions));
    TRY(cells_parse(json_object_get(root, "cells"), a));
    return series_parse(json_object_get(root, "series"), a);
}

enum status analysis_read(const char *path, struct analysis *a)
{
    char file[4096];
    json_t *root;
    *a = (struct analysis){0};
    bool is_dir, exists;
    TRY(path_look_dir(path, &is_dir));
    TRY(path_format(file, sizeof file, "%s%s", path, is_dir ? "/" ANALYSIS_FILE : ""));
    TRY(path_look(file, &exists));
    if (!exists)
        return status_fail(STATUS_DATA, "there is no '%s'; 'ampscale study' writes it", file);
    TRY(json_read(file, ANALYSIS_MAX_BYTES, &root));
    enum status st = root_parse(root, a);
    json_decref(root);
    if (st == STATUS_OK)
        return st;
    analysis_free(a);
    return status_context(st, "'%s'", file);
}
