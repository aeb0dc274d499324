/* Reads the values of a JSON file that people write by hand. */
#include "base/json_keys.h"

#include "base/nearest.h"
#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Returns the text between `where` and the key: "." as in "batch.weak", or "" if `where` is "". */
static const char *dot(const char *where)
{
    return *where ? "." : "";
}

/* Fails for an unknown key. The message names the most similar known key, or all known keys if no
 * known key is similar. */
static enum status unknown_key(const char *where, const char *key, const char *const *known)
{
    char all[512] = "";
    struct nearest near = nearest_to(key);
    for (const char *const *k = known; *k; k++) {
        nearest_offer(&near, *k, strlen(*k));
        text_join(all, sizeof all, ", ", "%s", *k);
    }
    if (*near.best)
        return status_fail(STATUS_USAGE, "unknown key '%s%s%.40s'; did you mean '%s'?", where,
                           dot(where), key, near.best);
    return status_fail(STATUS_USAGE, "unknown key '%s%s%.40s'; the keys are %s", where, dot(where),
                       key, all);
}

enum status keys_check(const json_t *object, const char *where, const char *const *known)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return status_fail(STATUS_USAGE, "'%s' must be an object", *where ? where : "the file");
    json_object_foreach((json_t *)object, key, value)
    {
        const char *const *k = known;
        while (*k && strcmp(*k, key) != 0)
            k++;
        if (!*k)
            return unknown_key(where, key, known);
    }
    return STATUS_OK;
}

static enum status absent(const char *where, const char *key, bool required)
{
    return !required ? STATUS_OK
                     : status_fail(STATUS_USAGE, "'%s%s%s' is missing", where, dot(where), key);
}

static enum status count_read(const json_t *value, const char *where, const char *key, int64_t min,
                              int64_t max, int64_t *out)
{
    int64_t v = json_is_integer(value) ? json_integer_value(value) : min - 1;
    if (v < min || v > max)
        return status_fail(STATUS_USAGE, "'%s%s%s' must be a whole number from %lld to %lld", where,
                           dot(where), key, (long long)min, (long long)max);
    *out = v;
    return STATUS_OK;
}

enum status keys_count(const json_t *object, const char *where, const char *key, bool required,
                       int64_t min, int64_t max, int64_t *out)
{
    const json_t *value = json_object_get(object, key);
    return value ? count_read(value, where, key, min, max, out) : absent(where, key, required);
}

enum status keys_text(const json_t *object, const char *where, const char *key, bool required,
                      char *out, size_t size)
{
    const json_t *value = json_object_get(object, key);
    if (!value)
        return absent(where, key, required);
    const char *text = json_string_value(value);
    if (!text || !*text || strlen(text) >= size)
        return status_fail(STATUS_USAGE, "'%s%s%s' must be a string of 1 to %zu characters", where,
                           dot(where), key, size - 1);
    snprintf(out, size, "%s", text);
    return STATUS_OK;
}

/* STATUS_USAGE unless `list` is an array of 1 to `most` values. */
static enum status list_check(const json_t *list, const char *where, const char *key, int most)
{
    size_t n = json_array_size(list);
    if (n < 1 || n > (size_t)most)
        return status_fail(STATUS_USAGE, "'%s%s%s' must be a list of 1 to %d values", where,
                           dot(where), key, most);
    return STATUS_OK;
}

enum status keys_counts(const json_t *object, const char *where, const char *key, int64_t min,
                        int64_t max, int64_t *v, int most, int *n)
{
    const json_t *list = json_object_get(object, key);
    if (!list)
        return STATUS_OK;
    TRY(list_check(list, where, key, most));
    for (*n = 0; *n < (int)json_array_size(list); (*n)++) {
        TRY(count_read(json_array_get(list, (size_t)*n), where, key, min, max, &v[*n]));
        if (*n > 0 && v[*n] <= v[*n - 1])
            return status_fail(STATUS_USAGE, "'%s%s%s' must ascend", where, dot(where), key);
    }
    return STATUS_OK;
}

bool keys_is_name(const char *text)
{
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_.", *c))
            return false;
    return *text != '\0' && *text != '.';
}

enum status keys_name(const json_t *object, const char *where, const char *key, char *out,
                      size_t size)
{
    TRY(keys_text(object, where, key, true, out, size));
    if (keys_is_name(out))
        return STATUS_OK;
    return status_fail(STATUS_USAGE, "'%s%s%s' must consist of letters, digits, '-', '_' and '.'",
                       where, dot(where), key);
}

enum status keys_names(const json_t *object, const char *key, char *names, size_t size, int most,
                       int *n)
{
    const json_t *list = json_object_get(object, key);
    if (!list)
        return absent("", key, true);
    TRY(list_check(list, "", key, most));
    for (*n = 0; *n < (int)json_array_size(list); (*n)++) {
        const char *name = json_string_value(json_array_get(list, (size_t)*n));
        if (!name || !keys_is_name(name) || strlen(name) >= size)
            return status_fail(STATUS_USAGE,
                               "'%s' must be a list of names of letters, digits, '-', '_' and '.'",
                               key);
        for (int i = 0; i < *n; i++)
            if (strcmp(names + size * (size_t)i, name) == 0)
                return status_fail(STATUS_USAGE, "'%s' has '%s' twice", key, name);
        snprintf(names + size * (size_t)*n, size, "%s", name);
    }
    return STATUS_OK;
}

enum status keys_words(const json_t *object, const char *key, const json_t **out)
{
    const json_t *list = json_object_get(object, key);
    *out = NULL;
    if (!list)
        return STATUS_OK;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_string(json_array_get(list, i)))
            return status_fail(STATUS_USAGE, "'%s' must be a list of strings", key);
    if (json_array_size(list) == 0)
        return status_fail(STATUS_USAGE, "'%s' must be a list of at least one string", key);
    *out = list;
    return STATUS_OK;
}

enum status keys_flag(const json_t *object, const char *where, const char *key, bool *out)
{
    const json_t *value = json_object_get(object, key);
    if (value && !json_is_boolean(value))
        return status_fail(STATUS_USAGE, "'%s.%s' must be true or false", where, key);
    *out = json_is_true(value);
    return STATUS_OK;
}
