/* Functions for tests that decode whole pictures, and compare parts of a picture with the whole
 * picture. */
#pragma once

#include "input/decode.h"

/* One decoder for all tests of a program. cmocka calls decoder_set_up before the tests and
 * decoder_tear_down after them. */
extern struct decoder *decoder;
int decoder_set_up(void **state);
int decoder_tear_down(void **state);

struct image {
    int w, h;
    uint8_t *pixels; /* (h, w, 3), malloc'ed */
};

struct rect decoded_size(const struct image_info *info, int shrink);

/* Decodes a whole file, which must be valid. */
struct image decode_all(struct decoder *d, const uint8_t *bytes, size_t size, int shrink);

/* Decodes random rectangles at each reduction of size. Compares them with the same parts of the
 * whole picture, decoded at the same reduction. Every third rectangle reaches the right and bottom
 * edges. */
void check_regions(struct decoder *d, const uint8_t *bytes, size_t size);

/* Decodes a random part of a picture whose file may be damaged. Returns STATUS_OK or STATUS_DATA.
 */
struct rng;
enum status decode_some(struct decoder *d, const uint8_t *bytes, size_t size, struct rng *rng);

/* Checks that the decoder refuses the file with a message that contains `reason`. */
void decode_refused(struct decoder *d, const void *bytes, size_t size, const char *reason);
