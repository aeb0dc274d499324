/* Reads two kinds of JSON files: presets, which are compiled into the program, and files that users
 * write. */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdio.h>

struct preset {
    const char *name; /* NULL ends a table */
    const unsigned char *text;
};

/* Reads the preset `name`. If there is no such preset and `name` contains a '.' or a '/', reads the
 * file of that path. `kind` is the word for such files in messages, such as "spec". STATUS_USAGE:
 * `name` is neither a preset nor a path, or the text is not JSON; in the second case the message
 * names the line. The caller releases *json. */
MUST_CHECK enum status preset_load(const struct preset *presets, const char *kind, const char *name,
                                   json_t **json);

/* Prints a preset's text unchanged, so that a user can save and edit it. STATUS_USAGE: there is no
 * preset of that name. */
MUST_CHECK enum status preset_print(const struct preset *presets, const char *name, FILE *out);
