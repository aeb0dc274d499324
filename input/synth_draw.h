/* Generated pictures for training.
 *
 * A picture shows several objects of its class (synth_kind.h) at random places, in random sizes,
 * tilts and colours. Of an object's two main colours, the second is the lighter one. The background
 * has lines and blobs with the same distribution for every class. Single pixels contain almost no
 * information about the class: a linear classifier's accuracy stays near chance. A convolutional
 * network can recognise a class from a part of the picture, even if that part is mirrored or
 * enlarged. */
#pragma once

#include "base/rng.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { SYNTH_MIN_SIZE = 32, SYNTH_MAX_SIZE = 4096 };

/* A picture; the buffer grows to the size of the largest picture. Zero it before first use. */
struct canvas {
    int width, height;
    uint8_t *pixels; /* (height, width, 3) RGB */
    size_t capacity;
};

/* Draws a picture of class `label` with random numbers from `rng`. It has about size * size pixels
 * (0.42 to 1.83 times as many) and usually a common aspect ratio of photographs. */
MUST_CHECK enum status synth_draw(struct canvas *canvas, int label, int size, struct rng *rng);

void canvas_free(struct canvas *canvas);
