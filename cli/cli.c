/* What the subcommands share. */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int cli_fail(enum status st)
{
    fprintf(stderr, "ampscale: %s\n", status_message());
    return status_exit_code(st);
}

enum status cli_int(const char *flag, const char *text, int64_t min, int64_t max, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (*text == '\0' || *end != '\0' || errno != 0 || v < min || v > max)
        return status_fail(STATUS_USAGE,
                           "%s '%s': give a whole number from %" PRId64 " to %" PRId64, flag, text,
                           min, max);
    *out = v;
    return STATUS_OK;
}

enum status cli_double(const char *flag, const char *text, double min, double max, double *out)
{
    char *end;
    double v = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !isfinite(v) || v < min || v > max)
        return status_fail(STATUS_USAGE, "%s '%s': give a number from %g to %g", flag, text, min,
                           max);
    *out = v;
    return STATUS_OK;
}
