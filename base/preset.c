/* Reads presets and users' files of the same format, and prints presets. */
#include "base/preset.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MAX_BYTES = 1 << 20 };

static const char *preset_text(const struct preset *presets, const char *name)
{
    for (const struct preset *p = presets; p->name; p++)
        if (strcmp(p->name, name) == 0)
            return (const char *)p->text;
    return NULL;
}

static enum status unknown(const struct preset *presets, const char *kind, const char *name)
{
    char known[128] = "";
    for (const struct preset *p = presets; p->name; p++)
        text_join(known, sizeof known, ", ", "%s", p->name);
    return status_fail(STATUS_USAGE,
                       "unknown %s '%s'; known: %s; the path of a file must contain '.' or '/'",
                       kind, name, known);
}

enum status preset_load(const struct preset *presets, const char *kind, const char *name,
                        json_t **json)
{
    const char *text = preset_text(presets, name);
    char *bytes = NULL;
    size_t size = text ? strlen(text) : 0;
    *json = NULL;
    if (!text && !strpbrk(name, "./"))
        return unknown(presets, kind, name);
    if (!text)
        TRY(file_read(name, FILE_MAX_BYTES, &bytes, &size));
    enum status st = json_parse(text ? text : bytes, size, name, json);
    free(bytes);
    return st == STATUS_DATA ? STATUS_USAGE : st;
}

enum status preset_print(const struct preset *presets, const char *name, FILE *out)
{
    const char *text = preset_text(presets, name);
    if (!text)
        return status_fail(STATUS_USAGE, "--print: '%s' is not built in", name);
    fputs(text, out);
    return STATUS_OK;
}
