/* Configuration and hardware as one flat object, and how to name it. */
#include "compare/fingerprint.h"

#include "results/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Objects within objects of run.json; what lies deeper is one value. */
enum { DEPTH_MAX = 8 };

static const char *const roots[] = {"build", "config", "device", "libraries", "host"};

/* Fields, or last parts of their names, that say nothing of what is measured. */
static const char *const left_out[] = {
    "config.seed",
    "config.resume",
    "host.hostname",
    "host.environment.SLURM_JOB_ID",
    "host.environment.SLURM_JOB_NODELIST",
    "host.environment.JOB_COMPLETION_INDEX",
    "host.environment.CUDA_VISIBLE_DEVICES",
};
static const char *const left_out_ends[] = {"uuid_hash", "index"};

/* Paths, of which the last part counts. */
static const char *const paths[] = {"config.data", "config.init"};

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

/* The last part of a path that may end with slashes; `value` itself where it is no path. */
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
    json_t *o = json_string(last_part(text, '/'));
    free(text);
    return o;
}

static bool flatten(const char *name, json_t *value, int depth, json_t *into);

/* `key` of an object's member; NULL: the place in an array. */
static bool flatten_member(const char *name, const char *key, size_t place, json_t *value,
                           int depth, json_t *into)
{
    char *inner = NULL;
    int n = key ? asprintf(&inner, "%s.%s", name, key) : asprintf(&inner, "%s.%zu", name, place);
    bool ok = n >= 0 && flatten(inner, value, depth, into);
    free(n >= 0 ? inner : NULL);
    return ok;
}

/* False without memory. */
static bool flatten(const char *name, json_t *value, int depth, json_t *into)
{
    const char *key;
    json_t *member;
    size_t i;
    bool ok = true;
    if (is_left_out(name))
        return true;
    if (depth == DEPTH_MAX || (json_object_size(value) == 0 && json_array_size(value) == 0))
        return json_object_set_new(into, name, path_name(name, value)) == 0;
    json_object_foreach(value, key, member)
    {
        ok = ok && flatten_member(name, key, 0, member, depth + 1, into);
    }
    json_array_foreach(value, i, member)
    {
        ok = ok && flatten_member(name, NULL, i, member, depth + 1, into);
    }
    return ok;
}

enum status fingerprint_of(const struct run *run, json_t **out)
{
    json_t *o = json_object();
    bool ok = o != NULL;
    for (size_t i = 0; i < sizeof roots / sizeof *roots && ok; i++) {
        json_t *value = json_object_get(run->info, roots[i]);
        ok = !value || flatten(roots[i], value, 0, o);
    }
    /* Runs that left out images did not train on the same data. Records of old name none. */
    int64_t left = run_left_out(run);
    ok = ok && (left == 0 || json_object_set_new(o, "images_left_out", json_integer(left)) == 0);
    if (!ok) {
        json_decref(o);
        return status_fail(STATUS_OOM, "no memory for what '%s' ran on", run->dir);
    }
    *out = o;
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

static bool is_allowed(const char *name, char *const *allowed, int n)
{
    for (int i = 0; i < n; i++) {
        size_t len = strlen(allowed[i]);
        if (strncmp(name, allowed[i], len) == 0 && (name[len] == '\0' || name[len] == '.'))
            return true;
    }
    return false;
}

/* A value as text fit to be shown, a string without its quotes; NULL when memory is short. */
static json_t *shown(const json_t *value)
{
    if (!value)
        return json_string("absent");
    if (json_is_string(value))
        return text_json(json_string_value(value));
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_t *o = text ? text_json(text) : NULL;
    free(text);
    return o;
}

static enum status list(const char *name, const json_t *base, const json_t *new,
                        json_t *differences)
{
    json_t *field = text_json(name);
    json_t *d = json_pack("{s:o, s:o}", "base", shown(base), "new", shown(new));
    const char *key = json_string_value(field);
    bool there = key && json_object_get(differences, key);
    bool ok = key && d && (there || json_object_set(differences, key, d) == 0);
    json_decref(d);
    json_decref(field);
    return ok ? STATUS_OK : status_fail(STATUS_OOM, "no memory for what differs between runs");
}

enum status fingerprint_differ(json_t *base, json_t *new, char *const *allowed, int n_allowed,
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
                TRY(list(name, a, b, differences));
        }
    }
    return STATUS_OK;
}

enum status fingerprint_agrees(json_t *a, json_t *b, char *const *allowed, int n_allowed,
                               bool *same)
{
    json_t *differences = json_object();
    if (!differences)
        return status_fail(STATUS_OOM, "no memory to compare configurations");
    enum status st = fingerprint_differ(a, b, allowed, n_allowed, differences);
    *same = json_object_size(differences) == 0;
    json_decref(differences);
    return st;
}

void fingerprint_name(const json_t *fingerprint, char *out, size_t size)
{
    static const char *const fields[] = {"config.arch", "config.precision", "config.mode"};
    char name[256] = "";
    size_t at = 0;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const char *v = json_string_value(json_object_get(fingerprint, fields[i]));
        if (v && at < sizeof name)
            at += (size_t)snprintf(name + at, sizeof name - at, "%s%s", at ? " " : "", v);
    }
    text_clean(out, size, at ? name : "runs");
}

/* The place of a field among those to tell configurations apart by: what was asked for comes first.
 */
static int place_of(const char *field)
{
    static const char *const order[] = {"config", "device", "libraries", "build", "host"};
    int i = 0, n = (int)(sizeof order / sizeof *order);
    while (i < n && strncmp(field, order[i], strlen(order[i])) != 0)
        i++;
    return i;
}

static bool comes_before(const char *a, const char *b)
{
    int order = place_of(a) - place_of(b);
    return order < 0 || (order == 0 && strcmp(a, b) < 0);
}

enum status fingerprint_tell_apart(json_t *a, json_t *b, json_t *told)
{
    const char *field, *first = NULL;
    json_t *value, *differences = json_object();
    bool known = false;
    enum status st;
    if (!differences)
        return status_fail(STATUS_OOM, "no memory to tell configurations apart");
    CHECK(fingerprint_differ(a, b, NULL, 0, differences));
    json_object_foreach(differences, field, value)
    {
        known = known || json_object_get(told, field);
        if (!first || comes_before(field, first))
            first = field;
    }
    if (known || !first)
        goto done;
    value = json_object_get(json_object_get(differences, first), "base");
    if (json_object_set_new(told, first,
                            json_object_get(a, first) ? json_incref(value) : json_null()) != 0)
        st = status_fail(STATUS_OOM, "no memory to tell configurations apart");
done:
    json_decref(differences);
    return st;
}

/* "batch_size" of "config.batch_size", "inject" of "config.inject.0"; returns its length. */
static int short_name(const char *field, const char **name)
{
    size_t n;
    *name = strncmp(field, "config.", 7) == 0 ? field + 7 : field;
    n = strlen(*name);
    return (int)(n > 2 && strcmp(*name + n - 2, ".0") == 0 ? n - 2 : n);
}

void fingerprint_name_apart(const json_t *told, char *name, size_t size)
{
    char text[1024];
    const char *field, *shown, *before = " (";
    json_t *value;
    size_t at = (size_t)snprintf(text, sizeof text, "%s", name);
    json_object_foreach((json_t *)told, field, value)
    {
        int n = short_name(field, &shown);
        const char *is = json_string_value(value);
        if (at < sizeof text)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s%.*s%s%s", before,
                                   is ? "" : "no ", n, shown, is ? " " : "", is ? is : "");
        before = ", ";
    }
    if (json_object_size(told) > 0 && at < sizeof text)
        snprintf(text + at, sizeof text - at, ")");
    text_clean(name, size, text);
}
