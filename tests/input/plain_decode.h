/* Decoding by libjpeg alone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes a whole file to RGB at 1/shrink of its size, in *pixels, malloc'ed. Returns false if it
 * is damaged as far as libjpeg warns of wrong pixels. */
bool plain_decode(const uint8_t *bytes, size_t size, int shrink, uint8_t **pixels);
