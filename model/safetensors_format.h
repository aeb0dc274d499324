/* Inside model/: what the reader and the writer of safetensors agree on. */
#ifndef MODEL_SAFETENSORS_FORMAT_H
#define MODEL_SAFETENSORS_FORMAT_H

#include "model/safetensors.h"

#define SAFETENSORS_METADATA "__metadata__"
#define SAFETENSORS_CRC_KEY  "file_crc32"

enum {
    SAFETENSORS_PREFIX = 8,             /* bytes that hold the header's length */
    SAFETENSORS_HEADER_MAX = 100000000, /* bytes, the format's own limit */
    SAFETENSORS_CRC_DIGITS = 8,
};

/* Bytes of `e`'s data by its type and shape; false when they overflow or a dimension is negative.
 */
bool safetensors_shape_bytes(const struct safetensors_entry *e, size_t *bytes);

/* The place of the checksum's digits in a header written without spaces, NULL where there is none.
 */
char *safetensors_crc_digits(char *header, size_t length);

/* The checksum of a file whose header has zeros for digits. `data` may come in parts: start with
 * the CRC of prefix and header. */
uint32_t safetensors_crc_header(const char *header, size_t length);
uint32_t safetensors_crc_data(uint32_t crc, const void *data, size_t bytes);

/* The header's length as the file begins with it. */
void safetensors_prefix_put(unsigned char out[SAFETENSORS_PREFIX], uint64_t length);
uint64_t safetensors_prefix_get(const unsigned char in[SAFETENSORS_PREFIX]);

#endif
