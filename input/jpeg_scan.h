/* Decodes the entropy-coded data of usual JPEG files in place of libjpeg: files with one
 * sequential, Huffman-coded scan. If only a part of an image is wanted, this code is faster,
 * because it skips most blocks. libjpeg does the rest: headers, transforms, upsampling, colours. */
#pragma once

#include "input/huffman.h"

#include <stdio.h>

#include <jpeglib.h>

/* Zero it before first use; keeps tables from one image to the next. */
struct jpeg_scan {
    struct huffman_table dc[NUM_HUFF_TBLS], ac[NUM_HUFF_TBLS];
    struct huffman_bits bits;
    struct huffman_part part[D_MAX_BLOCKS_IN_MCU];
    int last[MAX_COMPS_IN_SCAN]; /* first coefficient of the component's last block */
    JDIMENSION column;           /* index of the next unit (MCU) in its row */
    JDIMENSION begin, end;       /* columns whose coefficients are needed */
    unsigned left;               /* units before the next restart marker */
    unsigned restarts;
};

/* Prepares to decode the scan at which `jpeg` stands after jpeg_start_decompress and
 * jpeg_crop_scanline. Returns false for a file of another kind, which libjpeg must decode. */
bool jpeg_scan_begin(struct jpeg_scan *s, j_decompress_ptr jpeg, JDIMENSION x, JDIMENSION width);

/* Decodes the next unit into libjpeg's blocks, or passes over it if `blocks` is NULL. For damaged
 * data, calls libjpeg's emit_message with a warning, as libjpeg's own decoder does; emit_message
 * must not return. */
void jpeg_scan_unit(struct jpeg_scan *s, j_decompress_ptr jpeg, JBLOCKROW *blocks);
