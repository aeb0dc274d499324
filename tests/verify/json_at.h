/* Numbers in records that tests read or change. */
#pragma once

#include "tests/unit.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the number at a path such as "step/0/grad_norms/fc.weight". In a path, an element of an
 * array is its index. */
static inline json_t *json_at(const json_t *from, const char *path)
{
    char copy[256], *rest = copy, *part;
    json_t *o = (json_t *)from;
    snprintf(copy, sizeof copy, "%s", path);
    while ((part = strsep(&rest, "/")))
        o = json_is_array(o) ? json_array_get(o, (size_t)atoi(part)) : json_object_get(o, part);
    if (!json_is_number(o))
        fail_msg("the record has no number '%s'", path);
    return o;
}
