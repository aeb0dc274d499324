/* Decodes the Huffman codes of a sequential JPEG scan (ITU-T T.81, sections F.2.2 and B.1.1.5).
 *
 * A block is 64 coefficients: the first is coded as a difference from the previous block's, the
 * others as pairs of a run of zeros and a value. Blocks that nobody needs are passed over faster
 * than they are decoded: one look into a table then covers up to three codes.
 *
 * The data is not trusted: whatever it holds, nothing outside `from` .. `end` is read and nothing
 * outside the block is written. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HUFFMAN_BLOCK = 64,   /* coefficients of a block */
    HUFFMAN_LENGTHS = 17, /* code lengths 1 .. 16; index 0 is unused */
    HUFFMAN_SYMBOLS = 256,
    HUFFMAN_LOOK = 10, /* bits that index `first` */
    HUFFMAN_SKIM = 12, /* bits that index `skim` */
};

/* The codes of one table of a file, as the decoder looks them up. */
struct huffman_table {
    uint8_t count[HUFFMAN_LENGTHS], symbol[HUFFMAN_SYMBOLS]; /* as in the file */
    bool ready;
    uint32_t first[1 << HUFFMAN_LOOK];
    uint16_t skim[1 << HUFFMAN_SKIM];
    uint32_t limit[HUFFMAN_LENGTHS + 1]; /* the first 16-bit window above the codes of a length */
    int32_t offset[HUFFMAN_LENGTHS + 1]; /* symbol index of a code of a length, less the code */
};

/* Entropy-coded data and the place in it. */
struct huffman_bits {
    const uint8_t *at, *end;
    uint64_t window; /* the next bits, from the highest downwards */
    int held;        /* bits of `window` that count */
    int added;       /* of these, zeros put behind the last bit of the data */
};

/* Builds the table from the counts of codes of each length and the symbols in the order of their
 * codes, unless it is already built from the same. `dc`: symbols are sizes up to 15. Returns false
 * if they are no Huffman code. */
bool huffman_build(struct huffman_table *t, const uint8_t count[HUFFMAN_LENGTHS],
                   const uint8_t symbol[HUFFMAN_SYMBOLS], bool dc);

void huffman_begin(struct huffman_bits *b, const uint8_t *from, const uint8_t *end);

/* A block and what it is decoded with. */
struct huffman_part {
    const struct huffman_table *dc, *ac;
    int *last;       /* the component's previous first coefficient; becomes this block's */
    bool first_only; /* the other coefficients are passed over */
    int16_t *block;  /* zero, in natural order; NULL: all are passed over */
};

/* Decodes n blocks that follow each other. Returns false for a code that a table lacks. Reads zeros
 * behind the data's end: huffman_overrun. */
bool huffman_decode(struct huffman_bits *b, int n, const struct huffman_part *part);

/* Returns whether more bits were decoded than the data has up to its end or to its next marker. */
bool huffman_overrun(const struct huffman_bits *b);
