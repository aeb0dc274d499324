/* Compares the Huffman decoder with a simple decoder that reads one bit at a time. */
#include "base/rng.h"
#include "input/huffman.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES = 3000, CASES = 300 };

/* A Huffman code with random lengths. As in every JPEG file, no code word has only 1 bits. */
struct code {
    uint8_t count[HUFFMAN_LENGTHS], symbol[HUFFMAN_SYMBOLS];
};

static struct code random_code(struct rng *rng, int symbols)
{
    struct code c = {0};
    uint8_t depth[HUFFMAN_SYMBOLS + 1] = {0}, deepest = 0;
    for (int i = 0; i < symbols; i++)
        c.symbol[i] = (uint8_t)i;
    for (uint32_t i = 0; i < (uint32_t)symbols; i++) {
        uint32_t k = rng_below(rng, (uint32_t)symbols);
        uint8_t swap = c.symbol[i];
        c.symbol[i] = c.symbol[k];
        c.symbol[k] = swap;
    }
    for (uint32_t leaves = 1; leaves <= (uint32_t)symbols;) {
        uint32_t split = rng_below(rng, leaves);
        if (depth[split] < HUFFMAN_LENGTHS - 1)
            depth[leaves++] = ++depth[split];
    }
    for (int i = 0; i <= symbols; i++) {
        deepest = depth[i] > deepest ? depth[i] : deepest;
        c.count[depth[i]]++;
    }
    c.count[deepest]--; /* leave out the code word that has only 1 bits */
    return c;
}

/* --- one bit at a time --- */

struct slow {
    const uint8_t *bytes; /* without stuffing */
    size_t bits, at;
};

static int slow_bit(struct slow *s)
{
    size_t at = s->at++;
    return at < s->bits ? s->bytes[at / 8] >> (7 - at % 8) & 1 : 0;
}

static int slow_symbol(struct slow *s, const struct code *c)
{
    int code = 0, first = 0, index = 0;
    for (int length = 1; length < HUFFMAN_LENGTHS; length++) {
        code = code * 2 + slow_bit(s);
        if (code - first < c->count[length])
            return c->symbol[index + code - first];
        index += c->count[length];
        first = (first + c->count[length]) * 2;
    }
    return -1;
}

static int slow_value(struct slow *s, int size)
{
    int value = 0;
    for (int i = 0; i < size; i++)
        value = value * 2 + slow_bit(s);
    return size > 0 && value < 1 << (size - 1) ? value - (1 << size) + 1 : value;
}

static const uint8_t zigzag[HUFFMAN_BLOCK] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

static bool slow_block(struct slow *s, const struct code *dc, const struct code *ac, int *last,
                       int16_t block[HUFFMAN_BLOCK])
{
    int size = slow_symbol(s, dc);
    if (size < 0)
        return false;
    *last += slow_value(s, size);
    block[0] = (int16_t)*last;
    for (int k = 1; k < HUFFMAN_BLOCK; k++) {
        int symbol = slow_symbol(s, ac);
        if (symbol < 0)
            return false;
        if (symbol % 16 == 0 && symbol != 0xf0)
            break;
        k += symbol / 16;
        int value = slow_value(s, symbol % 16);
        if (symbol % 16 > 0)
            block[zigzag[k < HUFFMAN_BLOCK ? k : HUFFMAN_BLOCK - 1]] = (int16_t)value;
    }
    return true;
}

/* --- both decoders on the same bits --- */

struct data {
    uint8_t plain[BYTES], stuffed[2 * BYTES];
    size_t size; /* size of `stuffed` in bytes */
};

static void random_data(struct rng *rng, struct data *d)
{
    uint32_t ones = rng_below(rng, 4); /* some data has many bytes of 0xff */
    d->size = 0;
    for (size_t i = 0; i < BYTES; i++) {
        d->plain[i] = rng_below(rng, 40) < ones ? 0xff : (uint8_t)rng_u32(rng);
        d->stuffed[d->size++] = d->plain[i];
        if (d->plain[i] == 0xff)
            d->stuffed[d->size++] = 0;
    }
}

/* Decodes until the data ends, or until a code word does not exist. With `skim`, huffman_decode
 * stores the coefficients of every fourth block only. It must still compute the first coefficient
 * of the other blocks, and find their end. */
static int compare(const struct data *d, const struct code *dc, const struct code *ac, bool skim)
{
    static struct huffman_table tables[2];
    struct slow slow = {d->plain, (size_t)BYTES * 8, 0};
    struct huffman_bits bits;
    int slow_last = 0, last = 0, blocks = 0;
    uint8_t *end_of_heap = malloc(d->size); /* a sanitizer detects a read past the end */
    assert_non_null(end_of_heap);
    memcpy(end_of_heap, d->stuffed, d->size);
    assert_true(huffman_build(&tables[0], dc->count, dc->symbol, true));
    assert_true(huffman_build(&tables[1], ac->count, ac->symbol, false));
    huffman_begin(&bits, end_of_heap, end_of_heap + d->size);
    for (;; blocks++) {
        int16_t want[HUFFMAN_BLOCK] = {0}, got[HUFFMAN_BLOCK] = {0};
        bool pass = skim && blocks % 4 != 0;
        struct huffman_part part = {&tables[0], &tables[1], &last, false, pass ? NULL : got};
        bool known = slow_block(&slow, dc, ac, &slow_last, want);
        assert_int_equal(huffman_decode(&bits, 1, &part), known);
        if (!known)
            break;
        assert_int_equal(huffman_overrun(&bits), slow.at > slow.bits);
        if (slow.at > slow.bits)
            break;
        assert_int_equal(last, slow_last);
        if (!pass)
            assert_memory_equal(want, got, sizeof want);
    }
    free(end_of_heap);
    return blocks;
}

static void test_random_bits(void **state)
{
    (void)state;
    static struct data d;
    struct rng rng = rng_at(21, RNG_TEST, 0, 0);
    int blocks = 0;
    for (int i = 0; i < CASES; i++) {
        struct code dc = random_code(&rng, 12), ac = random_code(&rng, 256);
        random_data(&rng, &d);
        blocks += compare(&d, &dc, &ac, false);
        blocks += compare(&d, &dc, &ac, true);
    }
    print_message("%d blocks\n", blocks);
    assert_true(blocks > 40 * CASES);
}

/* The data ends at a marker. Fill bytes may precede the marker. The decoder does not read the bytes
 * after it. */
static void test_marker_ends_data(void **state)
{
    (void)state;
    static struct huffman_table t;
    const struct code c = {.count = {0, 2}, .symbol = {0, 1}};
    static const uint8_t bytes[] = {0x00, 0xff, 0x00, 0xff, 0xff, 0xd9, 0x00, 0x00, 0x00};
    struct huffman_bits b;
    int last = 0;
    assert_true(huffman_build(&t, c.count, c.symbol, true));
    huffman_begin(&b, bytes, bytes + sizeof bytes);
    /* In both tables, the code word 0 is symbol 0. As the first code word of a block, it means a DC
     * difference of zero. As the second, it means the end of the block. A block of zeros therefore
     * has 2 bits. */
    struct huffman_part part[] = {{.dc = &t, .ac = &t, .last = &last},
                                  {.dc = &t, .ac = &t, .last = &last}};
    for (int i = 0; i < 2; i++)
        assert_true(huffman_decode(&b, 2, part) && !huffman_overrun(&b));
    /* The eight 1 bits are a DC difference of 1 (2 bits) and three AC values (2 bits each). The
     * data ends before the end of this block. */
    assert_true(huffman_decode(&b, 1, part) && huffman_overrun(&b));
    assert_int_equal(b.at - bytes, 4); /* the position of the marker */
}

static void test_bad_tables(void **state)
{
    (void)state;
    static struct huffman_table t;
    uint8_t symbol[HUFFMAN_SYMBOLS] = {0};
    assert_false(huffman_build(&t, (uint8_t[HUFFMAN_LENGTHS]){0, 3}, symbol, false));
    assert_false(huffman_build(&t, (uint8_t[HUFFMAN_LENGTHS]){0, 2, 1}, symbol, false));
    uint8_t many[HUFFMAN_LENGTHS] = {[15] = 255, [16] = 255};
    assert_false(huffman_build(&t, many, symbol, false));
    symbol[0] = 16; /* a DC difference has at most 15 bits */
    assert_false(huffman_build(&t, (uint8_t[HUFFMAN_LENGTHS]){0, 1}, symbol, true));
    assert_true(huffman_build(&t, (uint8_t[HUFFMAN_LENGTHS]){0, 1}, symbol, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_bits),
        cmocka_unit_test(test_marker_ends_data),
        cmocka_unit_test(test_bad_tables),
    };
    return cmocka_run_group_tests_name("input_huffman", tests, NULL, NULL);
}
