/* Decides whether fp16 training of the network needs a loss scaler, and recommends a scale. */
#include "verify/amp_parts.h"

#include "base/text.h"
#include "engine/scaler.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Finds the layer and kind of gradient with the largest fraction of underflow at scale 1. */
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
        int most = floor_log2(scaler_default().max);
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

/* The output buffer of the finding's text. */
struct sentence {
    char *out;
    size_t size;
};

static void say_unscaled(const struct sentence *t, const struct amp_finding *f)
{
    const struct fp16_fate *fate = &f->all.fate[SCALE_ONE];
    text_append(t->out, t->size, "Without loss scaling fp16 loses %s of the nonzero gradients",
                percent_of(histogram_share(&f->all, fate->underflow)).text);
    if (f->worst) {
        const struct histogram *c = &f->worst->histogram[f->worst_gradient];
        text_append(t->out, t->size, ", and %s of the %s of '%s', the most affected layer",
                    percent_of(histogram_share(c, c->fate[SCALE_ONE].underflow)).text,
                    gradient_str(f->worst_gradient), f->worst->name);
    }
    if (fate->overflow)
        text_append(t->out, t->size, "; %" PRId64 " gradients overflow without scaling",
                    fate->overflow);
    text_append(t->out, t->size, ": this network needs %s loss scaler.",
                f->needs_scaler ? "a" : "no");
}

static void say_current(const struct sentence *t, const struct amp_finding *f, double scale)
{
    const struct fp16_fate *fate = &f->all.fate[SCALE_CURRENT];
    if (scale == 1)
        text_append(t->out, t->size, " The current scale is 1.");
    else if (fate->overflow)
        text_append(t->out, t->size,
                    " The current scale, %.10g, makes %" PRId64 " gradient%s overflow.", scale,
                    fate->overflow, fate->overflow == 1 ? "" : "s");
    else
        text_append(t->out, t->size,
                    " At the current scale, %.10g, fp16 loses %s, and the largest gradient is %.1f "
                    "bits below overflow.",
                    scale, percent_of(histogram_share(&f->all, fate->underflow)).text,
                    histogram_headroom(&f->all, scale));
}

static void say_recommended(const struct sentence *t, const struct amp_finding *f)
{
    text_append(t->out, t->size, " Recommended: %.10g (2^%d), the largest power of two ",
                ldexp(1, f->exponent), f->exponent);
    if (f->capped)
        text_append(t->out, t->size, "that dynamic scaling can reach");
    else
        text_append(t->out, t->size, "that leaves %d bits before overflow", HEADROOM_BITS);
    text_append(t->out, t->size, "; %s would still be lost.",
                percent_of(histogram_share(&f->all, f->still_lost)).text);
}

void amp_finding_text(const struct amp_finding *f, double scale, char *out, size_t size)
{
    const struct sentence t = {out, size};
    *out = '\0';
    if (f->all.not_finite) {
        text_append(out, size,
                    "%" PRId64 " gradients are infinite or NaN even in fp32: no loss scale helps; "
                    "these weights have diverged.",
                    f->all.not_finite);
        return;
    }
    if (f->all.nonzero == 0) {
        text_append(out, size, "Every gradient is zero: the loss scale has no effect.");
        return;
    }
    say_unscaled(&t, f);
    say_current(&t, f, scale);
    if (f->needs_scaler)
        say_recommended(&t, f);
}
