/* What a class of generated pictures is: a shape, filled with a texture, and marked.
 *
 * An object is described in its own coordinates (u, v): turned, and scaled so that it about fills
 * the unit disc. Nothing here is left- or right-handed: a mirrored picture stays in its class.
 *
 * Only additions, multiplications, divisions and square roots of doubles are used, so that a
 * picture is the same to the byte wherever it is drawn (compile with -ffp-contract=off). */
#ifndef INPUT_SYNTH_KIND_H
#define INPUT_SYNTH_KIND_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

enum { SYNTH_MAX_CLASSES = 12 * 12 * 8 };

struct synth_shape {
    const char *name;
    /* Negative inside, and growing by about one per unit; within 1.25 of the origin. */
    double (*at)(double u, double v);
};

struct synth_texture {
    const char *name;
    /* How much of the second colour is seen, 0..1; `px` is the width of a pixel in (u, v). */
    double (*at)(double u, double v, double px);
};

enum synth_ink { INK_NONE, INK_BLACK, INK_WHITE };

struct synth_mark {
    const char *name; /* "" for no mark */
    enum synth_ink outline;
    bool dot;  /* a third colour at the centre */
    bool hole; /* the ground is seen at the centre */
};

struct synth_kind {
    const struct synth_shape *shape;
    const struct synth_texture *texture;
    const struct synth_mark *mark;
};

/* 0 <= label < SYNTH_MAX_CLASSES; all kinds differ, and neighbours in more than one respect. */
struct synth_kind synth_kind(int label);

/* "c0003-triangle-dots": names sort as the labels do. */
void synth_class_name(int label, char *out, size_t size);

static inline double synth_length(double u, double v)
{
    return sqrt(u * u + v * v);
}

static inline double synth_clamp(double x)
{
    return fmin(fmax(x, 0), 1);
}

/* 0 where x < 0 and 1 where x > 0, softened over `width` around 0. */
static inline double synth_step(double x, double width)
{
    return synth_clamp(0.5 + x / width);
}
#endif
