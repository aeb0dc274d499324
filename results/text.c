/* Clean text as JSON. */
#include "results/text.h"

#include <stdlib.h>
#include <string.h>

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
