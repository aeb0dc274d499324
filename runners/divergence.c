/* Divergence in words. */
#include "runners/divergence.h"

#include "base/file.h"
#include "runners/trainer.h"

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

/* Whether an earlier state is there to go back to. No checkpoint holds what is not finite. */
static bool has_checkpoint(const struct session *s)
{
    char path[4096];
    return path_format(path, sizeof path, "%s/" CHECKPOINT_NAME, s->dir) == STATUS_OK &&
           path_exists(path);
}

static const char *other_precision(const struct session *s)
{
    if (s->policy.activation != DTYPE_F16)
        return "";
    return s->scaled ? ", or use --precision bf16 or fp32" : ", or use --precision amp";
}

enum status divergence_explain(const struct session *s)
{
    char found[TEXT_MAX];
    const char *precision = s->config->precision;
    snprintf(found, sizeof found, "%s", status_message());
    if (s->config->evaluate)
        return status_fail(STATUS_DIVERGED, "at precision %s these weights are of no use: %s",
                           precision, found);
    return status_fail(STATUS_DIVERGED,
                       "training diverged at precision %s: %s; lower --lr, lengthen "
                       "--warmup-epochs%s%s",
                       precision, found, other_precision(s),
                       has_checkpoint(s) ? " (the last checkpoint is from before)" : "");
}
