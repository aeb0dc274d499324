/* A class of generated pictures: a shape, a texture that fills it, and a mark.
 *
 * An object is described in its own coordinates (u, v), which are rotated, and scaled so that the
 * object roughly fills the unit disc. A mirrored picture keeps its class.
 *
 * Only additions, multiplications, divisions and square roots of doubles are used, so that a
 * picture has the same bytes on every machine (compile with -ffp-contract=off). */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

enum { SYNTH_MAX_CLASSES = 12 * 12 * 8 };

enum synth_ink { INK_NONE, INK_BLACK, INK_WHITE };

struct synth_mark {
    const char *name; /* "" for no mark */
    enum synth_ink outline;
    bool dot;  /* a dot of a third colour at the centre */
    bool hole; /* a hole at the centre, which shows the background */
};

struct synth_kind {
    int shape, texture;
    const struct synth_mark *mark;
};

/* Returns the kind of a class, 0 <= label < SYNTH_MAX_CLASSES. All kinds differ. The kinds of
 * consecutive labels differ in both shape and texture. */
struct synth_kind synth_kind(int label);

/* Returns the approximate signed distance to the edge of the shape, negative inside. The shape lies
 * within 1.25 of the origin. */
double synth_edge(const struct synth_kind *k, double u, double v);

/* Returns the fraction of the texture's second colour, 0..1. `px` is the width of a pixel in
 * (u, v). */
double synth_fill(const struct synth_kind *k, double u, double v, double px);

/* Writes the name of a class, such as "c0003-triangle-dots". Names sort in the order of labels. */
void synth_class_name(int label, char *out, size_t size);

static inline double synth_length(double u, double v)
{
    return sqrt(u * u + v * v);
}

static inline double synth_clamp(double x)
{
    return fmin(fmax(x, 0), 1);
}

/* Returns 0 for x < 0 and 1 for x > 0, with a linear transition of width `width` around 0. */
static inline double synth_step(double x, double width)
{
    return synth_clamp(0.5 + x / width);
}
