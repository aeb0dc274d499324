/* Judging whether fp16 needs a loss scaler here, and which scale. */
#include "runners/amp_finding.h"

#include "runners/scaler.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The layer that fp16 costs most without scaling. */
static void find_worst(const struct amp_measurement *m, struct amp_finding *f, double *share)
{
    *share = 0;
    for (int i = 0; i < m->n; i++) {
        for (int g = 0; g < GRADIENT_COUNT; g++) {
            const struct histogram *c = &m->layer[i].histogram[g];
            double lost = histogram_share(c, c->fate[SCALE_ONE].underflow);
            if (c->nonzero < LAYER_VALUES || lost <= *share)
                continue;
            *share = lost;
            f->worst = &m->layer[i];
            f->worst_gradient = (enum gradient)g;
        }
    }
}

/* floor(log2(x)), exactly. */
static int floor_log2(double x)
{
    int e;
    frexp(x, &e);
    return e - 1;
}

struct amp_finding amp_judge(const struct amp_measurement *m)
{
    struct amp_finding f = {.worst = NULL};
    double worst;
    for (int g = 0; g < GRADIENT_COUNT; g++)
        histogram_merge(&f.all, &m->total[g]);
    find_worst(m, &f, &worst);
    double lost = histogram_share(&f.all, f.all.fate[SCALE_ONE].underflow);
    f.needs_scaler = lost >= ALL_SHARE || worst >= LAYER_SHARE || f.all.fate[SCALE_ONE].overflow;
    if (f.needs_scaler) {
        int most = floor_log2(scaler_config_default().max);
        f.exponent = floor_log2(ldexp(FP16_LARGEST, -HEADROOM_BITS) / (double)f.all.largest);
        f.capped = f.exponent > most;
        f.exponent = f.capped ? most : f.exponent;
    }
    f.still_lost = histogram_underflow(&f.all, f.exponent);
    return f;
}

struct percent percent_of(double share)
{
    struct percent p;
    double x = 100 * share;
    if (x == 0)
        snprintf(p.text, sizeof p.text, "0 %%");
    else if (x < 0.001)
        snprintf(p.text, sizeof p.text, "under 0.001 %%");
    else
        snprintf(p.text, sizeof p.text, x < 1 ? "%.3f %%" : "%.1f %%", x);
    return p;
}

/* Text that grows in a buffer; what does not fit is cut. */
struct text {
    char *out;
    size_t size, len;
};

PRINTF_LIKE(2, 3)
static void say(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(t->out + t->len, t->size - t->len, fmt, ap);
    va_end(ap);
    t->len += n < 0 ? 0 : (size_t)n;
    t->len = t->len < t->size ? t->len : t->size - 1;
}

static void say_unscaled(struct text *t, const struct amp_finding *f)
{
    const struct fp16_fate *fate = &f->all.fate[SCALE_ONE];
    say(t, "Without loss scaling fp16 loses %s of the gradients that are not zero",
        percent_of(histogram_share(&f->all, fate->underflow)).text);
    if (f->worst) {
        const struct histogram *c = &f->worst->histogram[f->worst_gradient];
        say(t, ", and %s of those of the %s of '%s', which is hit hardest",
            percent_of(histogram_share(c, c->fate[SCALE_ONE].underflow)).text,
            gradient_str(f->worst_gradient), f->worst->name);
    }
    if (fate->overflow)
        say(t, "; %" PRId64 " overflow even so", fate->overflow);
    say(t, ": this network needs %s loss scaler.", f->needs_scaler ? "a" : "no");
}

static void say_current(struct text *t, const struct amp_finding *f, double scale)
{
    const struct fp16_fate *fate = &f->all.fate[SCALE_CURRENT];
    if (scale == 1)
        say(t, " The current scale is 1.");
    else if (fate->overflow)
        say(t, " The current scale, %.10g, makes %" PRId64 " gradient%s overflow.", scale,
            fate->overflow, fate->overflow == 1 ? "" : "s");
    else
        say(t, " The current scale, %.10g, loses %s and leaves %.1f bits to overflow.", scale,
            percent_of(histogram_share(&f->all, fate->underflow)).text,
            histogram_headroom(&f->all, scale));
}

static void say_recommended(struct text *t, const struct amp_finding *f)
{
    say(t, " Recommended: %.10g (2^%d), the largest power of two ", ldexp(1, f->exponent),
        f->exponent);
    if (f->capped)
        say(t, "that dynamic scaling reaches");
    else
        say(t, "that leaves %d bits to overflow", HEADROOM_BITS);
    say(t, "; %s would still be lost.", percent_of(histogram_share(&f->all, f->still_lost)).text);
}

void amp_finding_text(const struct amp_finding *f, double scale, char *out, size_t size)
{
    struct text t = {.out = out, .size = size};
    if (f->all.not_finite) {
        say(&t,
            "%" PRId64 " gradients are infinite or not a number in fp32 already: no loss scale "
            "helps; these weights have diverged.",
            f->all.not_finite);
        return;
    }
    if (f->all.nonzero == 0) {
        say(&t, "Every gradient is zero: there is nothing to scale.");
        return;
    }
    say_unscaled(&t, f);
    say_current(&t, f, scale);
    if (f->needs_scaler)
        say_recommended(&t, f);
}
