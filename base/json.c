/* Creates, writes and reads the JSON of records. */
#include "base/json.h"

#include "base/file.h"
#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static enum status no_memory(void)
{
    return status_fail(STATUS_OOM, "no memory for JSON");
}

enum status json_new(json_t **value, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    *value = json_vpack_ex(NULL, 0, fmt, args);
    va_end(args);
    return *value ? STATUS_OK : no_memory();
}

enum status json_put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0 ? STATUS_OK : no_memory();
}

enum status json_add(json_t *list, json_t *value)
{
    return json_array_append_new(list, value) == 0 ? STATUS_OK : no_memory();
}

json_t *json_whole(json_t *list, int64_t n)
{
    if (list && json_array_size(list) == (size_t)n)
        return list;
    json_decref(list);
    return NULL;
}

json_t *json_list(int64_t n, json_t *(*item)(const void *of, int64_t i), const void *of)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(list, item(of, i));
    return json_whole(list, n);
}

json_t *json_finite(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

json_t *text_json(const char *in)
{
    size_t size = strlen(in) + 1;
    char *clean = malloc(size);
    if (!clean)
        return NULL;
    text_clean(clean, size, in);
    json_t *string = json_string(clean);
    free(clean);
    return string;
}

const char *json_text_or(const json_t *object, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : otherwise;
}

const char *json_text_at(const json_t *object, const char *key)
{
    return json_text_or(object, key, "");
}

double json_number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

enum status json_parse(const char *bytes, size_t size, const char *from, json_t **value)
{
    json_error_t error;
    *value = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
    return *value ? STATUS_OK
                  : status_fail(STATUS_DATA, "'%s' line %d: not valid JSON: %s", from, error.line,
                                error.text);
}

enum status json_read(const char *path, size_t max, json_t **value)
{
    char *bytes;
    size_t size;
    *value = NULL;
    TRY(file_read(path, max, &bytes, &size));
    enum status st = json_parse(bytes, size, path, value);
    free(bytes);
    return st;
}

char *json_line(json_t *value, size_t flags, size_t *size)
{
    char *text = value ? json_dumps(value, flags) : NULL;
    json_decref(value);
    if (text) {
        *size = strlen(text) + 1;
        text[*size - 1] = '\n'; /* the newline replaces the NUL */
    }
    return text;
}

enum status json_write(json_t *value, const char *path, size_t flags)
{
    size_t size;
    char *text = json_line(value, flags, &size);
    enum status st = text ? file_replace(path, text, size)
                          : status_fail(STATUS_OOM, "no memory to write '%s'", path);
    free(text);
    return st;
}

enum status json_print(json_t *value, FILE *out, size_t flags)
{
    size_t size;
    char *text = json_line(value, flags | JSON_ENSURE_ASCII, &size);
    if (text)
        fwrite(text, 1, size, out);
    free(text);
    return text ? STATUS_OK : no_memory();
}
