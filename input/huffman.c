/* The highest bits of a 64-bit window are the next bits of the data. A right shift of the window
 * gives an index into a table; a left shift removes decoded bits. */
#include "input/huffman.h"

#include <string.h>

/* All functions that decode a block are inlined into one function, so its state stays in registers.
 * This function is compiled twice: for processors with BMI2, and for processors without it. */
#define INLINE static inline __attribute__((always_inline))

enum {
    WINDOW = 64,
    FULL = 56,  /* bits that a refill guarantees */
    USUAL = 18, /* maximum number of bits of a code in `first` together with its value */
    USUAL_PER_REFILL = FULL / USUAL,
    SKIMS_PER_REFILL = FULL / HUFFMAN_SKIM,
    CODE_MAX = 16,
    SIZE_MAX_DC = 15,
    RUN_OF_ZEROS = 0xf0,

    /* An entry of `first`. Bits 0-5: length of code and value; 8-12: length of the code; 16-21: 63
     * minus the size of the value; 24-30: number of coefficients that the code covers (64 for the
     * end of a block). An entry is 0 if the code is too long for `first` or does not exist. */
    SIZE_AT = 16,
    COVER_AT = 24,

    /* An entry of `skim`, which stands for several codes. Bits 0-3: total length of the codes and
     * their values; 4-9: number of coefficients that these codes cover, without the last code;
     * 10-15: number of coefficients that the last code covers (END for the end of a block). */
    SKIM_BEFORE_AT = 4,
    SKIM_LAST_AT = 10,
    END = 63,
};

/* The index in natural order of each coefficient in zigzag order. In damaged data a run of
 * zeros may end outside the block; the value after the run is then stored in the last coefficient,
 * as in libjpeg. The code for the end of a block covers 64 coefficients, so its value, 0, is stored
 * there too. */
static const uint8_t natural[2 * HUFFMAN_BLOCK] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 63, 63,
    63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
    63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
    63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63};

static uint32_t entry_of(int length, int symbol)
{
    int size = symbol & 15, run = symbol >> 4;
    int cover = size > 0 || symbol == RUN_OF_ZEROS ? run + 1 : HUFFMAN_BLOCK;
    return (uint32_t)((length + size) | length << 8 | (63 - size) << SIZE_AT | cover << COVER_AT);
}

INLINE int entry_bits(uint32_t e)
{
    return e & 63;
}

INLINE int entry_cover(uint32_t e)
{
    return (int)(e >> COVER_AT);
}

/* Returns the entry of `skim` for a window of HUFFMAN_SKIM bits. The entry stands for all codes in
 * the window whose values are in the window too. */
static uint16_t skim_of(const struct huffman_table *t, uint32_t window)
{
    int used = 0, before = 0, last = 0;
    for (;;) {
        uint32_t index = window << used & ((1u << HUFFMAN_SKIM) - 1);
        uint32_t e = t->first[index >> (HUFFMAN_SKIM - HUFFMAN_LOOK)];
        if (e == 0 || used + entry_bits(e) > HUFFMAN_SKIM || before + last >= END)
            break;
        used += entry_bits(e);
        before += last;
        last = entry_cover(e);
        if (last == HUFFMAN_BLOCK) {
            last = END;
            break;
        }
    }
    return (uint16_t)(used | before << SKIM_BEFORE_AT | last << SKIM_LAST_AT);
}

/* Assigns the codes to the symbols (T.81, annex C), and stores the short codes in `first`. A code
 * is short if it has at most HUFFMAN_LOOK bits, and at most USUAL bits together with its value. */
static bool number_codes(struct huffman_table *t, bool dc)
{
    uint32_t code = 0;
    int n = 0;
    memset(t->first, 0, sizeof t->first);
    for (int length = 1; length <= CODE_MAX; length++, code <<= 1) {
        t->offset[length] = n - (int32_t)code;
        for (int i = 0; i < t->count[length]; i++, n++, code++) {
            if (n >= HUFFMAN_SYMBOLS || code >= 1u << length || (dc && t->symbol[n] > SIZE_MAX_DC))
                return false;
            uint32_t e = entry_of(length, t->symbol[n]);
            int spare = entry_bits(e) <= USUAL ? HUFFMAN_LOOK - length : -1;
            for (int k = 0; spare >= 0 && k < 1 << spare; k++)
                t->first[(code << spare) + (uint32_t)k] = e;
        }
        t->limit[length] = code << (CODE_MAX - length);
    }
    return true;
}

bool huffman_build(struct huffman_table *t, const uint8_t count[HUFFMAN_LENGTHS],
                   const uint8_t symbol[HUFFMAN_SYMBOLS], bool dc)
{
    if (t->ready && memcmp(t->count, count, sizeof t->count) == 0 &&
        memcmp(t->symbol, symbol, sizeof t->symbol) == 0)
        return true;
    memcpy(t->count, count, sizeof t->count);
    memcpy(t->symbol, symbol, sizeof t->symbol);
    t->ready = number_codes(t, dc);
    for (uint32_t i = 0; t->ready && !dc && i < 1 << HUFFMAN_SKIM; i++)
        t->skim[i] = skim_of(t, i);
    return t->ready;
}

/* --- bits --- */

void huffman_begin(struct huffman_bits *b, const uint8_t *from, const uint8_t *end)
{
    *b = (struct huffman_bits){.at = from, .end = end};
}

bool huffman_overrun(const struct huffman_bits *b)
{
    return b->added > b->held;
}

/* Adds bytes one by one. In the data, a byte 0xff is written as 0xff 0; more bytes 0xff may precede
 * the 0. If a byte other than 0 follows 0xff, both bytes are a marker, which ends the data. From
 * the marker on, zeros are added instead. */
INLINE struct huffman_bits refill_slowly(struct huffman_bits b)
{
    while (b.held < FULL) {
        const uint8_t *p = b.at;
        while (p < b.end && *p == 0xff)
            p++;
        if (p == b.end || (p > b.at && *p != 0)) {
            b.at = p > b.at ? p - 1 : p; /* so that later calls do not scan repeated 0xff again */
            b.added += 8;
        } else {
            b.window |= (uint64_t)(p > b.at ? 0xff : *p) << (FULL - b.held);
            b.at = p + 1;
        }
        b.held += 8;
    }
    return b;
}

/* Makes `held` at least FULL. If the next eight bytes contain no 0xff, adds as many whole bytes as
 * fit. The first bits of the next byte may then be in the window already; the next refill writes
 * the same bits to the same place. */
INLINE void refill(struct huffman_bits *b)
{
    uint64_t next;
    if (b->end - b->at >= (ptrdiff_t)sizeof next) {
        memcpy(&next, b->at, sizeof next);
        if ((next & ~(next + UINT64_C(0x0101010101010101)) & UINT64_C(0x8080808080808080)) == 0) {
            b->window |= __builtin_bswap64(next) >> b->held;
            b->at += (63 - b->held) >> 3;
            b->held |= FULL;
            return;
        }
    }
    *b = refill_slowly(*b);
}

INLINE void drop(struct huffman_bits *b, int bits)
{
    b->window <<= bits;
    b->held -= bits;
}

/* --- codes --- */

/* Returns the entry of a code that `first` lacks; 0 if the table has no such code. */
INLINE uint32_t long_code(const struct huffman_table *t, uint64_t window)
{
    uint32_t next = (uint32_t)(window >> (WINDOW - CODE_MAX));
    for (int length = 1; length <= CODE_MAX; length++)
        if (next < t->limit[length])
            return entry_of(
                length,
                t->symbol[(t->offset[length] + (int32_t)(next >> (CODE_MAX - length))) & 255]);
    return 0;
}

INLINE uint32_t look(const struct huffman_table *t, uint64_t window)
{
    uint32_t e = t->first[window >> (WINDOW - HUFFMAN_LOOK)];
    return __builtin_expect(e != 0, 1) ? e : long_code(t, window);
}

/* Returns the value that follows a code. A value of n bits that begins with 0 is negative (table
 * F.1 and figure F.12). */
INLINE int value_of(uint32_t e, uint64_t window)
{
    uint64_t bits = window << (e >> 8 & 63);
    int64_t negative = (int64_t)~bits >> 63;
    int64_t size = (int64_t)((bits ^ (uint64_t)negative) >> 1 >> (e >> SIZE_AT & 63));
    return (int)((size ^ negative) - negative);
}

/* Finds the entry of any code. Refills first, because the window may have too few bits left for a
 * long code and its value. */
INLINE uint32_t rare_code(struct huffman_bits *b, const struct huffman_table *t)
{
    refill(b);
    return look(t, b->window);
}

/* Stores the value of a code. A code without a value (end of block, or run of zeros) stores 0,
 * which changes nothing, because the block starts as zeros. */
INLINE int decode_one(struct huffman_bits *b, uint32_t e, int k, int16_t *block)
{
    k += entry_cover(e);
    block[natural[k - 1]] = (int16_t)value_of(e, b->window);
    drop(b, entry_bits(e));
    return k;
}

INLINE bool decode_others(struct huffman_bits *b, const struct huffman_table *ac, int16_t *block)
{
    for (int k = 1; k < HUFFMAN_BLOCK;) {
        refill(b);
#pragma GCC unroll 3
        for (int i = 0; i < USUAL_PER_REFILL; i++) {
            uint32_t e = ac->first[b->window >> (WINDOW - HUFFMAN_LOOK)];
            if (__builtin_expect(e == 0, 0)) {
                e = rare_code(b, ac);
                if (e == 0)
                    return false;
                k = decode_one(b, e, k, block);
                break;
            }
            k = decode_one(b, e, k, block);
            if (k >= HUFFMAN_BLOCK)
                return true;
        }
    }
    return true;
}

INLINE bool pass_others(struct huffman_bits *b, const struct huffman_table *ac)
{
    for (int k = 1; k < HUFFMAN_BLOCK;) {
        refill(b);
#pragma GCC unroll 4
        for (int i = 0; i < SKIMS_PER_REFILL; i++) {
            uint32_t s = ac->skim[b->window >> (WINDOW - HUFFMAN_SKIM)];
            int last = k + (int)(s >> SKIM_BEFORE_AT & 63);
            if (s == 0 || last >= HUFFMAN_BLOCK) {
                uint32_t e = rare_code(b, ac);
                if (e == 0)
                    return false;
                k += entry_cover(e);
                drop(b, entry_bits(e));
                break;
            }
            k = last + (int)(s >> SKIM_LAST_AT);
            drop(b, s & 15);
            if (k >= HUFFMAN_BLOCK)
                return true;
        }
    }
    return true;
}

INLINE bool decode_block(struct huffman_bits *b, const struct huffman_part *part)
{
    refill(b);
    uint32_t e = look(part->dc, b->window);
    if (e == 0)
        return false;
    /* The sum may wrap in damaged data. */
    *part->last = (int)((uint32_t)*part->last + (uint32_t)value_of(e, b->window));
    drop(b, entry_bits(e));
    if (part->block)
        part->block[0] = (int16_t)*part->last;
    return part->block && !part->first_only ? decode_others(b, part->ac, part->block)
                                            : pass_others(b, part->ac);
}

INLINE bool decode_unit(struct huffman_bits *from, int n, const struct huffman_part *part)
{
    struct huffman_bits b = *from; /* in registers */
    bool known = true;
    for (int i = 0; i < n && known; i++)
        known = decode_block(&b, &part[i]);
    *from = b;
    return known;
}

#if defined __x86_64__
/* BMI2 has shorter instructions for shifts by a variable number of bits. */
__attribute__((target("bmi2"))) static bool decode_unit_bmi2(struct huffman_bits *from, int n,
                                                             const struct huffman_part *part)
{
    return decode_unit(from, n, part);
}
#endif

bool huffman_decode(struct huffman_bits *from, int n, const struct huffman_part *part)
{
#if defined __x86_64__
    if (__builtin_cpu_supports("bmi2"))
        return decode_unit_bmi2(from, n, part);
#endif
    return decode_unit(from, n, part);
}
