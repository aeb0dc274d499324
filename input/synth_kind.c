/* Defines the shapes, textures and marks by which classes differ. */
#include "input/synth_kind.h"

#include "base/rng.h"

#include <stdint.h>
#include <stdio.h>

/* ---- shapes ---- */

static double disc(double u, double v)
{
    return synth_length(u, v) - 0.95;
}

static double ring(double u, double v)
{
    return fabs(synth_length(u, v) - 0.72) - 0.26;
}

static double square(double u, double v)
{
    return fmax(fabs(u), fabs(v)) - 0.8;
}

static double triangle(double u, double v)
{
    return fmax(-v, 0.8660254 * fabs(u) + 0.5 * v) - 0.55;
}

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

static double cross(double u, double v)
{
    double narrow = fmin(fabs(u), fabs(v)), wide = fmax(fabs(u), fabs(v));
    return fmax(narrow - 0.34, wide - 1.0);
}

static double bar(double u, double v)
{
    return fmax(fabs(u) - 1.1, fabs(v) - 0.42);
}

static double crescent(double u, double v)
{
    return fmax(synth_length(u, v) - 1.0, 0.72 - synth_length(u - 0.5, v));
}

static double hexagon(double u, double v)
{
    return fmax(fabs(v), 0.8660254 * fabs(u) + 0.5 * fabs(v)) - 0.85;
}

static double frame(double u, double v)
{
    return fabs(fmax(fabs(u), fabs(v)) - 0.65) - 0.24;
}

static double chevron(double u, double v)
{
    return fmax(fabs(fabs(u) + v - 0.42) * 0.7071068 - 0.35, fabs(u) - 0.8);
}

static double dumbbell(double u, double v)
{
    return fmin(synth_length(fabs(u) - 0.68, v) - 0.44, fmax(fabs(u) - 0.6, fabs(v) - 0.18));
}

static const struct synth_shape shapes[] = {
    {"disc", disc},       {"ring", ring},   {"square", square},   {"triangle", triangle},
    {"star", star},       {"cross", cross}, {"bar", bar},         {"crescent", crescent},
    {"hexagon", hexagon}, {"frame", frame}, {"chevron", chevron}, {"dumbbell", dumbbell},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* ---- textures ---- */

/* Returns the value at `x` of a triangle wave with period 1 and values from -1 to 1. */
static double wave(double x)
{
    return 4 * fabs(x - floor(x) - 0.5) - 1;
}

static double plain(double u, double v, double px)
{
    (void)u, (void)v, (void)px;
    return 0.5;
}

static double stripes(double u, double v, double px)
{
    (void)v;
    return synth_step(wave(1.5 * u), 6 * px);
}

static double checks(double u, double v, double px)
{
    return synth_step(wave(1.1 * u) * wave(1.1 * v), 4.4 * px);
}

static double dots(double u, double v, double px)
{
    double du = 2.2 * u - floor(2.2 * u) - 0.5, dv = 2.2 * v - floor(2.2 * v) - 0.5;
    return synth_step(0.3 - synth_length(du, dv), 2.2 * px);
}

static double rings(double u, double v, double px)
{
    return synth_step(wave(1.7 * synth_length(u, v)), 6.8 * px);
}

static double spokes(double u, double v, double px)
{
    double sectors = u * v * (u - v) * (u + v);
    double r = synth_length(u, v) + 0.1;
    return synth_step(sectors / (r * r * r), 2 * px);
}

static double grid(double u, double v, double px)
{
    return synth_step(fmax(wave(1.5 * u), wave(1.5 * v)) - 0.5, 6 * px);
}

static double zigzag(double u, double v, double px)
{
    return synth_step(wave(1.6 * v + 0.3 * wave(1.2 * u)), 7 * px);
}

static double speckle(double u, double v, double px)
{
    (void)px;
    int64_t x = (int64_t)floor(5.5 * u) + 64, y = (int64_t)floor(5.5 * v) + 64;
    return (double)(hash_splitmix64((uint64_t)(x * 256 + y)) >> 63);
}

static double glow(double u, double v, double px)
{
    (void)px;
    return synth_clamp(1 - synth_length(u, v));
}

static double fade(double u, double v, double px)
{
    (void)v, (void)px;
    return synth_clamp(0.5 + 0.55 * u);
}

static double halves(double u, double v, double px)
{
    (void)v;
    return synth_step(u, px);
}

static const struct synth_texture textures[] = {
    {"plain", plain},     {"stripes", stripes}, {"checks", checks}, {"dots", dots},
    {"rings", rings},     {"spokes", spokes},   {"grid", grid},     {"zigzag", zigzag},
    {"speckle", speckle}, {"glow", glow},       {"fade", fade},     {"halves", halves},
};
enum { N_TEXTURES = sizeof textures / sizeof *textures };

/* ---- marks ---- */

static const struct synth_mark marks[] = {
    {"", INK_NONE, false, false},           {"-black", INK_BLACK, false, false},
    {"-white", INK_WHITE, false, false},    {"-dot", INK_NONE, true, false},
    {"-black-dot", INK_BLACK, true, false}, {"-white-dot", INK_WHITE, true, false},
    {"-hole", INK_NONE, false, true},       {"-black-hole", INK_BLACK, false, true},
};
enum { N_MARKS = sizeof marks / sizeof *marks };

_Static_assert((int)SYNTH_MAX_CLASSES == (int)N_SHAPES * (int)N_TEXTURES * (int)N_MARKS,
               "every combination is a class");

/* Classes with consecutive labels differ in both shape and texture. So a set that has only a few
 * classes is easy to classify. */
struct synth_kind synth_kind(int label)
{
    int round = label / N_SHAPES;
    return (struct synth_kind){
        .shape = &shapes[label % N_SHAPES],
        .texture = &textures[(label + round) % N_TEXTURES],
        .mark = &marks[label / (N_SHAPES * N_TEXTURES)],
    };
}

void synth_class_name(int label, char *out, size_t size)
{
    struct synth_kind k = synth_kind(label);
    snprintf(out, size, "c%04d-%s-%s%s", label, k.shape->name, k.texture->name, k.mark->name);
}
