/* Makes a flat object from the configuration and hardware of a run, and a name for the object. */
#include "compare/fingerprint.h"

#include "base/json.h"
#include "base/text.h"
#include "base/text_new.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Maximum depth of nested objects of run.json. A deeper object is kept as one value. */
enum { DEPTH_MAX = 8 };

static const char *const roots[] = {"build", "config", "device", "libraries", "host"};

/* Fields that do not affect the measurements. The array `left_out` has whole names, and
 * `left_out_ends` has last parts of names. */
static const char *const left_out[] = {"config.seed",
                                       "config.resume",
                                       "config.wgrad_stream",
                                       "config.pdl",
                                       "host.hostname",
                                       "host.environment.SLURM_JOB_ID",
                                       "host.environment.SLURM_JOB_NODELIST",
                                       "host.environment.JOB_COMPLETION_INDEX",
                                       "host.environment.CUDA_VISIBLE_DEVICES"};
static const char *const left_out_ends[] = {
    "uuid_hash",        "index",         "max_pcie_generation",
    "max_pcie_width",   "remapped_rows", "remapping_pending",
    "remapping_failed", "xid_errors",
};

/* Fields that are paths. Only the last part of a path is compared. */
static const char *const paths[] = {"config.data", "config.init", "config.command.0"};

static const char *last_part(const char *text, char separator)
{
    const char *at = strrchr(text, separator);
    return at ? at + 1 : text;
}

static bool is_left_out(const char *name)
{
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (strcmp(name, left_out[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof left_out_ends / sizeof *left_out_ends; i++)
        if (strcmp(last_part(name, '.'), left_out_ends[i]) == 0)
            return true;
    return false;
}

/* Returns the last part of a path, which may end with slashes. Returns `value` itself if the field
 * is not a path. */
static json_t *path_name(const char *name, json_t *value)
{
    bool is_path = false;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        is_path = is_path || strcmp(name, paths[i]) == 0;
    char *text = is_path && json_is_string(value) ? strdup(json_string_value(value)) : NULL;
    if (!text)
        return json_incref(value);
    for (size_t n = strlen(text); n > 1 && text[n - 1] == '/'; n--)
        text[n - 1] = '\0';
    json_t *o = json_utf8(last_part(text, '/'));
    free(text);
    return o;
}

static enum status flatten(const char *name, json_t *value, int depth, json_t *into);

/* Flattens the member `key` of an object, or, if `key` is NULL, the element `place` of an array. */
static enum status flatten_member(const char *name, const char *key, size_t place, json_t *value,
                                  int depth, json_t *into)
{
    char *inner;
    TRY(key ? text_new(&inner, "%s.%s", name, key) : text_new(&inner, "%s.%zu", name, place));
    enum status st = flatten(inner, value, depth, into);
    free(inner);
    return st;
}

static enum status flatten(const char *name, json_t *value, int depth, json_t *into)
{
    const char *key;
    json_t *member;
    size_t i;
    if (is_left_out(name))
        return STATUS_OK;
    if (depth == DEPTH_MAX || (json_object_size(value) == 0 && json_array_size(value) == 0))
        json_put(into, name, path_name(name, value));
    json_object_foreach(value, key, member)
    {
        TRY(flatten_member(name, key, 0, member, depth + 1, into));
    }
    json_array_foreach(value, i, member)
    {
        TRY(flatten_member(name, NULL, i, member, depth + 1, into));
    }
    return STATUS_OK;
}

static bool same(const char *name, const json_t *a, const json_t *b)
{
    if (!a || !b)
        return a == b;
    if (json_is_number(a) && json_is_number(b)) {
        double x = json_number_value(a), y = json_number_value(b);
        double slack = strcmp(last_part(name, '.'), "memory_bytes") == 0 ? 0.01 : 0;
        return fabs(x - y) <= slack * fmax(fabs(x), fabs(y));
    }
    return json_equal(a, b);
}

/* Returns a value as text for display; a string is shown without its quotes. */
static json_t *shown(const json_t *value)
{
    if (!value)
        return json_string("absent");
    if (json_is_string(value))
        return text_json(json_string_value(value));
    char *text = json_text(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_t *o = text_json(text);
    free(text);
    return o;
}

/* Returns the values of a field in two attempts as one, which no run with one configuration has. */
static json_t *both(const json_t *was, const json_t *is)
{
    json_t *a = shown(was), *b = shown(is);
    json_t *o = json_sprintf("%s, then %s", json_string_value(a), json_string_value(b));
    json_decref(a);
    json_decref(b);
    return o;
}

/* Adds an attempt. *last: the attempt before it; NULL: none. A field that one of both lacks differs
 * too. */
static enum status add_attempt(const json_t *info, json_t **last, json_t *into)
{
    enum status st = STATUS_OK;
    const char *name;
    json_t *own = json_object(), *value;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        value = json_object_get(info, roots[i]);
        if (value)
            CHECK(flatten(roots[i], value, 0, own));
    }
    json_object_foreach(own, name, value)
    {
        if (!*last)
            json_put(into, name, json_incref(value));
        else if (!same(name, json_object_get(*last, name), value))
            json_put(into, name, both(json_object_get(into, name), value));
    }
    json_object_foreach(*last, name, value)
    {
        if (!json_object_get(own, name))
            json_put(into, name, both(json_object_get(into, name), NULL));
    }
    json_decref(*last);
    *last = json_incref(own);
done:
    json_decref(own);
    return st;
}

enum status fingerprint_of(const struct run *run, json_t **out)
{
    int64_t left = run_left_out(run);
    enum status st;
    json_t *last = NULL;
    *out = json_object();
    for (size_t i = 0; i < json_array_size(run->infos); i++)
        CHECK(add_attempt(json_array_get(run->infos, i), &last, *out));
    /* Old records do not have the key; their runs decoded at a reduced size. */
    const json_t *config = json_object_get(run->info, "config");
    if (json_is_string(json_object_get(config, "data")) && !json_object_get(config, "decode"))
        json_put(*out, "config.decode", json_string("fast"));
    /* A run that left out images did not train on the same data. Old records do not have the number
     * of these images. */
    if (left > 0)
        json_put(*out, "images_left_out", json_integer(left));
    json_decref(last);
    return STATUS_OK;
done:
    json_decref(last);
    json_decref(*out);
    return st;
}

static bool is_allowed(const char *name, const char *const *allowed, int n)
{
    for (int i = 0; i < n; i++) {
        size_t len = strlen(allowed[i]);
        if (strncmp(name, allowed[i], len) == 0 && (name[len] == '\0' || name[len] == '.'))
            return true;
    }
    return false;
}

static void list(const char *name, const json_t *base, const json_t *new, json_t *differences)
{
    json_t *field = text_json(name);
    json_t *d = json_new("{s:o, s:o}", "base", shown(base), "new", shown(new));
    const char *key = json_string_value(field);
    if (!json_object_get(differences, key))
        json_put(differences, key, json_incref(d));
    json_decref(d);
    json_decref(field);
}

void fingerprint_differ(json_t *base, json_t *new, const char *const *allowed, int n_allowed,
                        json_t *differences)
{
    json_t *const sides[] = {base, new};
    for (int side = 0; side < 2; side++) {
        const char *name;
        json_t *value;
        json_object_foreach(sides[side], name, value)
        {
            const json_t *a = json_object_get(base, name), *b = json_object_get(new, name);
            if (!same(name, a, b) && !is_allowed(name, allowed, n_allowed))
                list(name, a, b, differences);
        }
    }
}

bool fingerprint_agrees(json_t *a, json_t *b, const char *const *allowed, int n_allowed)
{
    json_t *differences = json_object();
    fingerprint_differ(a, b, allowed, n_allowed, differences);
    bool same = json_object_size(differences) == 0;
    json_decref(differences);
    return same;
}

void fingerprint_name(const json_t *fingerprint, char *out, size_t size)
{
    static const char *const fields[] = {"config.name", "config.arch", "config.precision",
                                         "config.mode"};
    char name[256] = "";
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const char *v = json_string_value(json_object_get(fingerprint, fields[i]));
        if (v)
            text_join(name, sizeof name, " ", "%s", v);
    }
    text_clean(out, size, *name ? name : "runs");
}

/* Returns the position of a field in the order in which fields are preferred for distinguishing
 * configurations. */
static int place_of(const char *field)
{
    static const char *const order[] = {"config", "device", "libraries", "build", "host"};
    int i = 0, n = (int)(sizeof order / sizeof *order);
    while (i < n && strncmp(field, order[i], strlen(order[i])) != 0)
        i++;
    return i;
}

void fingerprint_distinguish(json_t *a, json_t *b, const char *const *allowed, int n_allowed,
                             json_t *distinct)
{
    const char *field, *first = NULL;
    json_t *value, *differences = json_object();
    bool known = false;
    fingerprint_differ(a, b, allowed, n_allowed, differences);
    json_object_foreach(differences, field, value)
    {
        known = known || json_object_get(distinct, field);
        int order = first ? place_of(field) - place_of(first) : -1;
        if (order < 0 || (order == 0 && strcmp(field, first) < 0))
            first = field;
    }
    if (!known && first) {
        value = json_object_get(json_object_get(differences, first), "base");
        json_put(distinct, first, json_object_get(a, first) ? json_incref(value) : json_null());
    }
    json_decref(differences);
}

/* Sets *name to the short name of a field, and returns the length of the short name: "batch_size"
 * for "config.batch_size", "inject" for "config.inject.0". */
static int short_name(const char *field, const char **name)
{
    size_t n;
    *name = strncmp(field, "config.", 7) == 0 ? field + 7 : field;
    n = strlen(*name);
    return (int)(n > 2 && strcmp(*name + n - 2, ".0") == 0 ? n - 2 : n);
}

void fingerprint_name_apart(const json_t *distinct, char *name, size_t size)
{
    char text[1024];
    const char *field, *shown, *before = " (";
    json_t *value;
    snprintf(text, sizeof text, "%s", name);
    json_object_foreach((json_t *)distinct, field, value)
    {
        int n = short_name(field, &shown);
        const char *is = json_string_value(value);
        text_append(text, sizeof text, "%s%s%.*s%s%s", before, is ? "" : "no ", n, shown,
                    is ? " " : "", is ? is : "");
        before = ", ";
    }
    if (json_object_size(distinct) > 0)
        text_append(text, sizeof text, ")");
    text_clean(name, size, text);
}
