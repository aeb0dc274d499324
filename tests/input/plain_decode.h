/* Decoding by libjpeg alone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes a whole file with libjpeg to RGB at 1/shrink of its size. Stores the pixels in *pixels,
 * which malloc allocates. Returns false if libjpeg warns of damage that makes pixels wrong. */
bool plain_decode(const uint8_t *bytes, size_t size, int shrink, uint8_t **pixels);
