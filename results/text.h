/* Text of unknown origin (base/text.h) as JSON. */
#ifndef RESULTS_TEXT_H
#define RESULTS_TEXT_H

#include "base/text.h"

#include <jansson.h>

/* A new JSON string of what text_clean makes of `in`, of any length; NULL when memory is short. */
json_t *text_json(const char *in);
#endif
