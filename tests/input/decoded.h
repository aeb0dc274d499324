/* Functions for tests that decode pictures, and compare parts of a picture with the whole. */
#pragma once

#include "base/rng.h"
#include "input/decode.h"

/* One decoder for all tests of a suite, made by the suite's set-up. */
extern struct decoder *decoder;
int decoder_set_up(void **state);
int decoder_tear_down(void **state);

struct image {
    int w, h;
    uint8_t *pixels; /* (h, w, 3), malloc'ed */
};

/* Decodes a whole file, which must be valid. */
struct image decode_all(const uint8_t *bytes, size_t size, int shrink);

/* Decodes random rectangles at each reduction of size. Compares them with the same parts of the
 * whole picture, decoded at the same reduction. */
void check_regions(const uint8_t *bytes, size_t size);

/* Decodes a random part of a picture whose file may be damaged. Returns STATUS_OK or STATUS_DATA.
 */
enum status decode_some(const uint8_t *bytes, size_t size, struct rng *rng);

/* Checks that the decoder refuses the file with a message that contains `reason`. */
void decode_refused(const void *bytes, size_t size, const char *reason);
