/* Decodes the Huffman codes of a sequential JPEG scan (ITU-T T.81, sections F.2.2 and B.1.1.5).
 *
 * A block is 64 coefficients. The first coefficient is coded as the difference from the first
 * coefficient of the component's previous block. The other coefficients are coded as pairs: a run
 * of zeros and a value. Skipping a block that is not needed is faster than decoding it, because one
 * table lookup covers several codes.
 *
 * The data is not trusted: for any data, the decoder reads only bytes from `from` to `end`, and
 * writes only to the block. */
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
    uint32_t limit[HUFFMAN_LENGTHS + 1]; /* for each length: a code has at most this length if the
                                            next 16 bits are below this limit */
    int32_t offset[HUFFMAN_LENGTHS + 1]; /* for each length, the index of a symbol minus its code */
};

/* Entropy-coded data, and the position of the decoder in it. */
struct huffman_bits {
    const uint8_t *at, *end;
    uint64_t window; /* the next bits, from the highest downwards */
    int held;        /* number of valid bits in `window` */
    int added;       /* number of zero bits added so far after the end of the data */
};

/* Builds the table from the number of codes of each length, and from the symbols in the order of
 * their codes. Does nothing if the table was built from the same values. `dc`: the symbols are
 * sizes, at most 15. Returns false if the values define no Huffman code. */
bool huffman_build(struct huffman_table *t, const uint8_t count[HUFFMAN_LENGTHS],
                   const uint8_t symbol[HUFFMAN_SYMBOLS], bool dc);

void huffman_begin(struct huffman_bits *b, const uint8_t *from, const uint8_t *end);

/* A block, and the tables and state with which it is decoded. */
struct huffman_part {
    const struct huffman_table *dc, *ac;
    int *last; /* first coefficient of the component's previous block; huffman_decode updates it */
    bool first_only; /* skip the other coefficients */
    int16_t *block;  /* coefficients in natural order, initially 0; NULL: nothing is stored */
};

/* Decodes n consecutive blocks. Returns false for a code that a table lacks. After the end of the
 * data, decodes zeros; huffman_overrun then returns true. */
bool huffman_decode(struct huffman_bits *b, int n, const struct huffman_part *part);

/* Returns whether more bits were decoded than the data has up to its end or to its next marker. */
bool huffman_overrun(const struct huffman_bits *b);
