/* Functions for tests that decode whole pictures, and compare parts of a picture with the whole. */
#pragma once

#include "input/decode.h"

/* The decoder that all tests of a program use. cmocka calls the functions before and after them. */
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

/* Decodes random rectangles at each reduction, and compares them with a full decode at that
 * reduction. Every third rectangle ends at the last column and row. */
void check_regions(struct decoder *d, const uint8_t *bytes, size_t size);

/* Decodes a random part of a file that may be damaged; returns STATUS_OK or STATUS_DATA. */
struct rng;
enum status decode_some(struct decoder *d, const uint8_t *bytes, size_t size, struct rng *rng);

/* Checks that the file is refused with `reason` in the message. */
void decode_refused(struct decoder *d, const void *bytes, size_t size, const char *reason);
