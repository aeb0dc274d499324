/* Makes JPEG files of many kinds in memory, through libjpeg. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum jpeg_kind { JPEG_COLOR, JPEG_GRAY, JPEG_CMYK, JPEG_YCCK, JPEG_RAW_RGB, JPEG_TWO_CHANNELS };

struct jpeg_spec {
    int width, height;
    enum jpeg_kind kind;
    int h_samp, v_samp; /* sampling factors of the first component; 0 means 1 */
    bool progressive;
    bool arithmetic;
    bool plain_cmyk; /* CMYK in a file without Adobe's marker */
    int restart;     /* rows between restart markers; 0: none */
    int exif;        /* orientation tag, 1..8; 0: no EXIF */
    int quality;     /* 0: 90 */
    int code;        /* seed of random Huffman codes; 0: the usual codes */
    int flat; /* 1 to 256: every sample has the value flat - 1; 0: a smooth picture with noise */
};

/* The file's bytes, malloc'ed. */
uint8_t *jpeg_make(const struct jpeg_spec *spec, size_t *size);

/* Returns the offset of the first marker with the bytes 0xff `code`, or 0 if the file has none. */
size_t jpeg_find(const uint8_t *bytes, size_t size, uint8_t code);
