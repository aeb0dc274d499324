/* Reads which engines the user excludes. */
#include "kernels/cuda/excluded_engines.h"

#include <ctype.h>
#include <stdlib.h>

static const char variable[] = "AMPSCALE_CUDNN_WITHOUT";

/* Reads a number of at most nine digits at *text, and moves *text to its end. */
static bool take_engine(const char **text, int64_t *engine)
{
    enum { DIGITS = 9 };
    int n = 0;
    *engine = 0;
    while (n < DIGITS && isdigit((unsigned char)**text)) {
        *engine = 10 * *engine + (*(*text)++ - '0');
        n++;
    }
    return n > 0;
}

enum status excluded_engines_read(struct excluded_engines *e)
{
    const char *set = getenv(variable), *at = set;
    *e = (struct excluded_engines){0};
    bool more = set && *set;
    while (more && e->n < EXCLUDED_ENGINES_MAX && take_engine(&at, &e->engine[e->n])) {
        e->n++;
        more = *at == ',';
        at += more;
    }
    if (!more && (!at || *at == '\0'))
        return STATUS_OK;
    *e = (struct excluded_engines){0};
    return status_fail(STATUS_USAGE,
                       "%s is '%s'; give the numbers of at most %d engines of cuDNN, separated by "
                       "commas, as in 62,63",
                       variable, set, EXCLUDED_ENGINES_MAX);
}
