/* Constants of the safetensors format, and functions that its reader and writer share. For use
 * inside model/ only. */
#pragma once

#include "model/safetensors.h"

#define SAFETENSORS_METADATA "__metadata__"
#define SAFETENSORS_CRC_KEY  "file_crc32"

enum {
    SAFETENSORS_PREFIX = 8,             /* bytes that hold the header's length */
    SAFETENSORS_HEADER_MAX = 100000000, /* bytes, the format's own limit */
    SAFETENSORS_CRC_DIGITS = 8,
};

/* Sets *bytes to the size of `e`'s data, from its type and shape. Returns false on overflow or for
 * a negative dimension. */
bool safetensors_shape_bytes(const struct safetensors_entry *e, size_t *bytes);

/* Finds the digits of the checksum in a header that was written without spaces; NULL if the header
 * has no checksum. */
char *safetensors_crc_digits(char *header, size_t length);

/* The checksum of a file whose header has zeros in place of the digits: safetensors_crc_header
 * computes the CRC of prefix and header, and safetensors_crc_data continues it over the data, which
 * may come in parts. */
uint32_t safetensors_crc_header(const char *header, size_t length);
uint32_t safetensors_crc_data(uint32_t crc, const void *data, size_t bytes);

/* Writes and reads the header's length, the first 8 bytes of the file. */
void safetensors_prefix_put(unsigned char out[SAFETENSORS_PREFIX], uint64_t length);
uint64_t safetensors_prefix_get(const unsigned char in[SAFETENSORS_PREFIX]);
