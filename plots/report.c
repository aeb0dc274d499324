/* Reading and drawing single records. */
#include "plots/report.h"

#include <stdlib.h>
#include <string.h>

enum { REPORT_MAX_BYTES = 16 << 20 };

/* NULL, and no failure, where the file holds no JSON. */
static enum status object_read(const char *path, json_t **object)
{
    char *bytes;
    size_t size;
    TRY(file_read(path, REPORT_MAX_BYTES, &bytes, &size));
    *object = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL);
    free(bytes);
    return STATUS_OK;
}

static bool has_kind(const json_t *object, const char *key, const char *kind)
{
    const char *is = json_string_value(json_object_get(object, key));
    return is && strcmp(is, kind) == 0;
}

enum status report_is(const char *path, const char *key, const char *kind, bool *is)
{
    json_t *object;
    TRY(object_read(path, &object));
    *is = has_kind(object, key, kind);
    json_decref(object);
    return STATUS_OK;
}

enum status report_load(const char *path, const char *key, const char *kind, int schema,
                        json_t **report)
{
    TRY(object_read(path, report));
    json_int_t version = json_integer_value(json_object_get(*report, "schema"));
    if (has_kind(*report, key, kind) && version == schema)
        return STATUS_OK;
    json_decref(*report);
    *report = NULL;
    return status_fail(STATUS_DATA, "'%s' is no %s record of schema %d", path, kind, schema);
}

enum status report_draw(struct drawing *d, const struct figure *f, const char *path,
                        const char *out)
{
    bool some;
    TRY(path_format(d->data, sizeof d->data, "%s/data", out));
    TRY(dir_make(d->data));
    TRY(figure_remove(f, out));
    TRY(figure_write(d, f, &some));
    if (!some)
        return status_fail(STATUS_DATA, "nothing to draw in '%s'", path);
    return figure_draw(d, f, out);
}
