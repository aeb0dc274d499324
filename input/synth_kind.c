/* Defines the shapes, textures and marks by which classes differ. */
#include "input/synth_kind.h"

#include "base/rng.h"

#include <stdint.h>
#include <stdio.h>

/* ---- shapes ---- */

/* Returns the second largest of the signed distances to the five lines of a pentagram. It is
 * negative inside the star: a point in a tip is beyond only one of the lines, a point outside the
 * star beyond at least two. */
static double star(double u, double v)
{
    static const struct {
        double x, y;
    } normal[5] = {{0, -1},
                   {0.95105652, -0.30901699},
                   {0.58778525, 0.80901699},
                   {-0.58778525, 0.80901699},
                   {-0.95105652, -0.30901699}};
    double first = -2, second = -2;
    for (int i = 0; i < 5; i++) {
        double d = normal[i].x * u + normal[i].y * v;
        second = fmax(second, fmin(first, d));
        first = fmax(first, d);
    }
    return second - 0.38;
}

enum shape {
    DISC,
    RING,
    SQUARE,
    TRIANGLE,
    STAR,
    CROSS,
    BAR,
    CRESCENT,
    HEXAGON,
    FRAME,
    CHEVRON,
    DUMBBELL,
    SHAPES
};
static const char *const shape_names[SHAPES] = {"disc",    "ring",  "square",  "triangle",
                                                "star",    "cross", "bar",     "crescent",
                                                "hexagon", "frame", "chevron", "dumbbell"};

double synth_edge(const struct synth_kind *k, double u, double v)
{
    double x = fabs(u), y = fabs(v);
    switch ((enum shape)k->shape) {
    case DISC:
        return synth_length(u, v) - 0.95;
    case RING:
        return fabs(synth_length(u, v) - 0.72) - 0.26;
    case SQUARE:
        return fmax(x, y) - 0.8;
    case TRIANGLE:
        return fmax(-v, 0.8660254 * x + 0.5 * v) - 0.55;
    case STAR:
        return star(u, v);
    case CROSS:
        return fmax(fmin(x, y) - 0.34, fmax(x, y) - 1.0);
    case BAR:
        return fmax(x - 1.1, y - 0.42);
    case CRESCENT:
        return fmax(synth_length(u, v) - 1.0, 0.72 - synth_length(u - 0.5, v));
    case HEXAGON:
        return fmax(y, 0.8660254 * x + 0.5 * y) - 0.85;
    case FRAME:
        return fabs(fmax(x, y) - 0.65) - 0.24;
    case CHEVRON:
        return fmax(fabs(x + v - 0.42) * 0.7071068 - 0.35, x - 0.8);
    default:
        return fmin(synth_length(x - 0.68, v) - 0.44, fmax(x - 0.6, y - 0.18));
    }
}

/* ---- textures ---- */

/* Returns the value at `x` of a triangle wave with period 1 and values from -1 to 1. */
static double wave(double x)
{
    return 4 * fabs(x - floor(x) - 0.5) - 1;
}

static double dots(double u, double v, double px)
{
    double du = 2.2 * u - floor(2.2 * u) - 0.5, dv = 2.2 * v - floor(2.2 * v) - 0.5;
    return synth_step(0.3 - synth_length(du, dv), 2.2 * px);
}

static double spokes(double u, double v, double px)
{
    double sectors = u * v * (u - v) * (u + v);
    double r = synth_length(u, v) + 0.1;
    return synth_step(sectors / (r * r * r), 2 * px);
}

static double speckle(double u, double v)
{
    int64_t x = (int64_t)floor(5.5 * u) + 64, y = (int64_t)floor(5.5 * v) + 64;
    return (double)(hash_splitmix64((uint64_t)(x * 256 + y)) >> 63);
}

enum texture {
    PLAIN,
    STRIPES,
    CHECKS,
    DOTS,
    RINGS,
    SPOKES,
    GRID,
    ZIGZAG,
    SPECKLE,
    GLOW,
    FADE,
    HALVES,
    TEXTURES
};
static const char *const texture_names[TEXTURES] = {"plain",   "stripes", "checks", "dots",
                                                    "rings",   "spokes",  "grid",   "zigzag",
                                                    "speckle", "glow",    "fade",   "halves"};

double synth_fill(const struct synth_kind *k, double u, double v, double px)
{
    switch ((enum texture)k->texture) {
    case PLAIN:
        return 0.5;
    case STRIPES:
        return synth_step(wave(1.5 * u), 6 * px);
    case CHECKS:
        return synth_step(wave(1.1 * u) * wave(1.1 * v), 4.4 * px);
    case DOTS:
        return dots(u, v, px);
    case RINGS:
        return synth_step(wave(1.7 * synth_length(u, v)), 6.8 * px);
    case SPOKES:
        return spokes(u, v, px);
    case GRID:
        return synth_step(fmax(wave(1.5 * u), wave(1.5 * v)) - 0.5, 6 * px);
    case ZIGZAG:
        return synth_step(wave(1.6 * v + 0.3 * wave(1.2 * u)), 7 * px);
    case SPECKLE:
        return speckle(u, v);
    case GLOW:
        return synth_clamp(1 - synth_length(u, v));
    case FADE:
        return synth_clamp(0.5 + 0.55 * u);
    default:
        return synth_step(u, px);
    }
}

/* ---- marks ---- */

static const struct synth_mark marks[] = {
    {"", INK_NONE, false, false},           {"-black", INK_BLACK, false, false},
    {"-white", INK_WHITE, false, false},    {"-dot", INK_NONE, true, false},
    {"-black-dot", INK_BLACK, true, false}, {"-white-dot", INK_WHITE, true, false},
    {"-hole", INK_NONE, false, true},       {"-black-hole", INK_BLACK, false, true},
};
enum { N_MARKS = sizeof marks / sizeof *marks };

_Static_assert((int)SYNTH_MAX_CLASSES == (int)SHAPES * (int)TEXTURES * (int)N_MARKS,
               "every combination is a class");

/* Classes with consecutive labels differ in both shape and texture. So a set that has only a few
 * classes is easy to classify. */
struct synth_kind synth_kind(int label)
{
    int round = label / SHAPES;
    return (struct synth_kind){
        .shape = label % SHAPES,
        .texture = (label + round) % TEXTURES,
        .mark = &marks[label / (SHAPES * TEXTURES)],
    };
}

void synth_class_name(int label, char *out, size_t size)
{
    struct synth_kind k = synth_kind(label);
    snprintf(out, size, "c%04d-%s-%s%s", label, shape_names[k.shape], texture_names[k.texture],
             k.mark->name);
}
