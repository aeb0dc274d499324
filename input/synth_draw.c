/* Draws a background, then clutter on it, then objects of one kind over both. */
#include "input/synth_draw.h"

#include "base/array.h"
#include "input/synth_kind.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

struct colour {
    double c[3];
};

struct vec {
    double x, y;
};

static double between(struct rng *rng, double lo, double hi)
{
    return lo + (hi - lo) * rng_double(rng);
}

static struct colour any_colour(struct rng *rng, double lo, double hi)
{
    struct colour k;
    for (int c = 0; c < 3; c++)
        k.c[c] = between(rng, lo, hi);
    return k;
}

/* Returns a random direction. */
static struct vec any_turn(struct rng *rng)
{
    for (;;) {
        double x = between(rng, -1, 1), y = between(rng, -1, 1), r = synth_length(x, y);
        if (r > 0.1 && r < 1)
            return (struct vec){x / r, y / r};
    }
}

/* Returns a random tilt of up to 25 degrees to either side. Larger tilts would let the direction of
 * textures vary too much for a network to learn a class from a few hundred pictures. */
static struct vec slight_turn(struct rng *rng)
{
    double y = between(rng, -0.45, 0.45), r = synth_length(1, y);
    return (struct vec){1 / r, y / r};
}

static uint8_t to_byte(double x)
{
    return (uint8_t)(fmin(fmax(x, 0), 255) + 0.5);
}

static void blend(struct canvas *k, int x, int y, const struct colour *colour, double opacity)
{
    uint8_t *p = k->pixels + ((size_t)y * (size_t)k->width + (size_t)x) * 3;
    for (int c = 0; c < 3; c++)
        p[c] = to_byte(p[c] + (colour->c[c] - p[c]) * opacity);
}

struct object {
    struct synth_kind kind;
    struct vec centre, turn;
    double radius; /* in pixels */
    struct colour colour[3];
};

static void draw_object_pixel(struct canvas *k, const struct object *o, int x, int y)
{
    static const struct colour ink[] = {[INK_BLACK] = {{0, 0, 0}}, [INK_WHITE] = {{255, 255, 255}}};
    double dx = (x + 0.5 - o->centre.x) / o->radius, dy = (y + 0.5 - o->centre.y) / o->radius;
    double u = o->turn.x * dx + o->turn.y * dy, v = o->turn.x * dy - o->turn.y * dx;
    double px = 1 / o->radius, edge = synth_edge(&o->kind, u, v);
    double cover = synth_step(-edge, px);
    const struct synth_mark *mark = o->kind.mark;
    if (mark->hole)
        cover *= synth_step(synth_length(u, v) - 0.3, px);
    if (cover <= 0)
        return;
    double t = synth_fill(&o->kind, u, v, px);
    double line = mark->outline != INK_NONE ? synth_step(edge + 0.12, px) : 0;
    double dot = mark->dot ? synth_step(0.28 - synth_length(u, v), px) : 0;
    struct colour mix;
    for (int c = 0; c < 3; c++) {
        double value = o->colour[0].c[c] + (o->colour[1].c[c] - o->colour[0].c[c]) * t;
        value += (o->colour[2].c[c] - value) * dot;
        mix.c[c] = value + (ink[mark->outline].c[c] - value) * line;
    }
    blend(k, x, y, &mix, cover);
}

/* Sets *begin .. *end-1 to the pixels that a disc may cover in one direction, in which the picture
 * has `n` pixels. */
static void bounds(double centre, double radius, int n, int *begin, int *end)
{
    *begin = (int)fmax(floor(centre - radius), 0);
    *end = (int)fmin(floor(centre + radius) + 1, n);
}

static void draw_object(struct canvas *k, const struct object *o)
{
    int left, right, top, bottom;
    bounds(o->centre.x, 1.25 * o->radius, k->width, &left, &right);
    bounds(o->centre.y, 1.25 * o->radius, k->height, &top, &bottom);
    for (int y = top; y < bottom; y++)
        for (int x = left; x < right; x++)
            draw_object_pixel(k, o, x, y);
}

static double shorter_side(const struct canvas *k)
{
    return k->width < k->height ? k->width : k->height;
}

/* Draws one object near the middle of each cell of a coarse grid, so that most crops show a part of
 * an object. */
static void draw_objects(struct canvas *k, struct synth_kind kind, struct rng *rng)
{
    double side = shorter_side(k), cell = side / between(rng, 1.4, 2.4);
    int columns = (int)(k->width / cell + 0.5), rows = (int)(k->height / cell + 0.5);
    columns = columns < 1 ? 1 : columns;
    rows = rows < 1 ? 1 : rows;
    for (int i = 0; i < columns * rows; i++) {
        struct object o = {.kind = kind};
        o.centre.x = (i % columns + between(rng, 0.25, 0.75)) * k->width / columns;
        o.centre.y = (int)(i / columns) * (double)k->height / rows +
                     between(rng, 0.25, 0.75) * k->height / rows;
        o.radius = cell * between(rng, 0.4, 0.52);
        o.turn = slight_turn(rng);
        o.colour[0] = any_colour(rng, 0, 110);
        o.colour[1] = any_colour(rng, 145, 255);
        o.colour[2] = any_colour(rng, 0, 255);
        draw_object(k, &o);
    }
}

/* Draws a gradient between two colours across the picture. */
static void draw_ground(struct canvas *k, struct rng *rng)
{
    struct colour from = any_colour(rng, 0, 255), to = any_colour(rng, 0, 255);
    struct vec turn = any_turn(rng);
    for (int y = 0; y < k->height; y++)
        for (int x = 0; x < k->width; x++) {
            double u = (x + 0.5) / k->width - 0.5, v = (y + 0.5) / k->height - 0.5;
            double t = 0.5 + 0.7 * (turn.x * u + turn.y * v);
            uint8_t *p = k->pixels + ((size_t)y * (size_t)k->width + (size_t)x) * 3;
            for (int c = 0; c < 3; c++)
                p[c] = to_byte(from.c[c] + (to.c[c] - from.c[c]) * t);
        }
}

/* A line or a soft blob. */
struct clutter {
    bool line;
    struct vec centre, turn;
    double radius, thick; /* in pixels */
    double opacity;
    struct colour colour;
};

static void draw_clutter(struct canvas *k, const struct clutter *o)
{
    int left, right, top, bottom;
    bounds(o->centre.x, o->radius, k->width, &left, &right);
    bounds(o->centre.y, o->radius, k->height, &top, &bottom);
    for (int y = top; y < bottom; y++)
        for (int x = left; x < right; x++) {
            double dx = x + 0.5 - o->centre.x, dy = y + 0.5 - o->centre.y;
            double u = (o->turn.x * dx + o->turn.y * dy) / o->radius;
            double v = (o->turn.x * dy - o->turn.y * dx) / o->thick;
            double ends = synth_step(1 - fabs(u), 1 / o->radius);
            double cover = o->line ? ends * synth_step(1 - fabs(v), 1 / o->thick)
                                   : synth_clamp(1 - u * u - v * v);
            if (cover > 0)
                blend(k, x, y, &o->colour, cover * o->opacity);
        }
}

static void draw_all_clutter(struct canvas *k, struct rng *rng)
{
    double side = shorter_side(k);
    int n = 6 + (int)rng_below(rng, 10);
    for (int i = 0; i < n; i++) {
        struct clutter o;
        o.line = rng_below(rng, 2) == 0;
        o.centre.x = between(rng, 0, k->width);
        o.centre.y = between(rng, 0, k->height);
        o.turn = any_turn(rng);
        o.radius = side * (o.line ? between(rng, 0.1, 0.3) : between(rng, 0.03, 0.12));
        o.thick = o.line ? 0.5 + side * between(rng, 0.004, 0.012) : o.radius;
        o.opacity = between(rng, 0.3, 0.8);
        o.colour = any_colour(rng, 0, 255);
        draw_clutter(k, &o);
    }
}

/* Adds sensor noise, with a strength that differs between pictures. */
static void draw_noise(struct canvas *k, struct rng *rng)
{
    uint32_t span = 3 + 2 * rng_below(rng, 8);
    size_t n = (size_t)k->width * (size_t)k->height * 3;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t word = rng_u32(rng);
        for (size_t c = 0; c < 3; c++, word >>= 8)
            k->pixels[i + c] =
                to_byte(k->pixels[i + c] + (double)((word & 0xff) * span >> 8) - span / 2);
    }
}

/* Chooses width and height: mostly landscape 4:3, some portrait or square, a few with a random
 * ratio. */
static void choose_size(struct canvas *k, int size, struct rng *rng)
{
    static const double common[10] = {4.0 / 3, 4.0 / 3, 4.0 / 3, 4.0 / 3, 4.0 / 3,
                                      3.0 / 4, 3.0 / 4, 3.0 / 2, 1,       0};
    double ratio = common[rng_below(rng, 10)];
    if (ratio == 0)
        ratio = between(rng, 0.5, 2);
    double side = size * between(rng, 0.65, 1.35), root = sqrt(ratio);
    k->width = (int)(side * root);
    k->height = (int)(side / root);
}

enum status synth_draw(struct canvas *k, int label, int size, struct rng *rng)
{
    if (label < 0 || label >= SYNTH_MAX_CLASSES || size < SYNTH_MIN_SIZE || size > SYNTH_MAX_SIZE)
        return status_fail(STATUS_INVALID, "cannot draw a picture of class %d and size %d", label,
                           size);
    choose_size(k, size, rng);
    size_t bytes = (size_t)k->width * (size_t)k->height * 3;
    if (bytes > k->capacity) {
        free(k->pixels);
        k->capacity = 0;
        TRY(array_new(&k->pixels, bytes));
        k->capacity = bytes;
    }
    draw_ground(k, rng);
    draw_all_clutter(k, rng);
    draw_objects(k, synth_kind(label), rng);
    draw_noise(k, rng);
    return STATUS_OK;
}

void canvas_free(struct canvas *k)
{
    free(k->pixels);
    *k = (struct canvas){0};
}
