/* JSON files: presets, which are compiled into the program, and files that users write. */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdio.h>

struct preset {
    const char *name; /* NULL ends a table */
    const unsigned char *text;
};

/* Reads the preset of that name, or a file, whose name must have a '.' or a '/'. `kind` is the word
 * for such files in messages: "spec". STATUS_USAGE for a name that is neither, and, with the line,
 * for text that is not JSON. The caller releases *json. */
MUST_CHECK enum status preset_load(const struct preset *presets, const char *kind, const char *name,
                                   json_t **json);

/* Prints a preset's text unchanged, so that it can be edited. STATUS_USAGE: there is none of that
 * name. */
MUST_CHECK enum status preset_print(const struct preset *presets, const char *name, FILE *out);
