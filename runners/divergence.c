/* Makes the messages about divergence. */
#include "runners/divergence.h"

#include "base/file.h"

#include <math.h>
#include <stdarg.h>

enum { TEXT_MAX = 1024 };

enum status divergence_check_loss(double loss, const char *what, ...)
{
    char text[TEXT_MAX];
    va_list ap;
    if (isfinite(loss))
        return STATUS_OK;
    va_start(ap, what);
    vsnprintf(text, sizeof text, what, ap);
    va_end(ap);
    return status_fail(STATUS_DIVERGED, "%s is %s", text,
                       isnan(loss) ? "not a number" : "infinite");
}

/* Returns whether the run has a checkpoint to resume from. Checkpoints contain finite values
 * only. */
static bool has_checkpoint(const struct session *s)
{
    char path[4096];
    return path_format(path, sizeof path, "%s/" CHECKPOINT_NAME, s->dir) == STATUS_OK &&
           path_exists(path);
}

enum status divergence_explain(const struct session *s)
{
    char found[TEXT_MAX];
    const char *precision = s->config->precision;
    const char *other = s->policy.activation != DTYPE_F16 ? ""
                        : s->scaled                       ? ", or use --precision bf16 or fp32"
                                                          : ", or use --precision amp";
    snprintf(found, sizeof found, "%s", status_message());
    if (s->config->evaluate)
        return status_fail(STATUS_DIVERGED,
                           "at precision %s these weights give no valid result: %s", precision,
                           found);
    return status_fail(
        STATUS_DIVERGED,
        "training diverged at precision %s: %s; lower --lr, lengthen "
        "--warmup-epochs%s%s",
        precision, found, other,
        has_checkpoint(s) ? " (the last checkpoint was written before the divergence)" : "");
}
