/* Generated pictures to learn from.
 *
 * A picture shows several objects of its class (synth_kind.h) at random places and in random sizes,
 * tilts and colours (the second of an object's two is the lighter), over a ground drawn from the
 * same lines and blobs for every class. Pixels say next to nothing one by one, so a linear
 * classifier stays near chance, while a convolutional network that sees a part of the picture,
 * mirrored or enlarged, finds what it needs. */
#ifndef INPUT_SYNTH_DRAW_H
#define INPUT_SYNTH_DRAW_H

#include "base/rng.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { SYNTH_MIN_SIZE = 32, SYNTH_MAX_SIZE = 4096 };

/* A picture; the pixels grow from one to the next. Zero it before first use. */
struct canvas {
    int width, height;
    uint8_t *pixels; /* (height, width, 3) RGB */
    size_t capacity;
};

/* Draws a picture of class `label` with what `rng` gives: about size * size pixels, between a half
 * and the double of them, in the proportions that photographs have. */
MUST_CHECK enum status synth_draw(struct canvas *canvas, int label, int size, struct rng *rng);

void canvas_free(struct canvas *canvas);
#endif
