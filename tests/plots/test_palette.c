/* Tests colours and shapes of names over several figures. */
#include "plots/palette.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MANY = PALETTE_LOOKS };

/* Writes the names "<first>", "<first + 1>", ... */
static void names_make(char name[][PALETTE_NAME_SIZE], int n, int first)
{
    for (int i = 0; i < n; i++)
        snprintf(name[i], PALETTE_NAME_SIZE, "%d", first + i);
}

static void take(struct palette *p, int n, char name[][PALETTE_NAME_SIZE], int look[])
{
    palette_take(p, n, (const char(*)[PALETTE_NAME_SIZE])name, look);
}

static void test_names_keep_looks(void **state)
{
    struct palette p = {.n = 0};
    char one[3][PALETTE_NAME_SIZE] = {"a", "b", "a"}, two[3][PALETTE_NAME_SIZE] = {"c", "b", "d"};
    int look[3];
    (void)state;
    take(&p, 3, one, look);
    assert_int_equal(look[0], 0);
    assert_int_equal(look[1], 1);
    assert_int_equal(look[2], 0);
    take(&p, 3, two, look);
    assert_int_equal(look[0], 2);
    assert_int_equal(look[1], 1);
    assert_int_equal(look[2], 3);
}

static void test_without_a_palette(void **state)
{
    char name[3][PALETTE_NAME_SIZE] = {"x", "y", "x"};
    int look[3];
    (void)state;
    for (int round = 0; round < 2; round++) {
        take(NULL, 3, name, look);
        assert_int_equal(look[0], 0);
        assert_int_equal(look[1], 1);
        assert_int_equal(look[2], 0);
    }
}

/* All colours are in use. A figure with new names still uses each colour at most once. The new
 * names get pairs of colour and shape that no earlier name has. */
static void test_more_names_than_colours(void **state)
{
    struct palette p = {.n = 0};
    char first[PALETTE_COLOURS][PALETTE_NAME_SIZE], second[PALETTE_COLOURS][PALETTE_NAME_SIZE];
    int a[PALETTE_COLOURS], b[PALETTE_COLOURS];
    bool seen[PALETTE_COLOURS] = {false};
    (void)state;
    names_make(first, PALETTE_COLOURS, 0);
    /* the palette knows one of these names already */
    names_make(second, PALETTE_COLOURS, PALETTE_COLOURS - 1);
    take(&p, PALETTE_COLOURS, first, a);
    take(&p, PALETTE_COLOURS, second, b);
    assert_int_equal(b[0], a[PALETTE_COLOURS - 1]);
    for (int i = 0; i < PALETTE_COLOURS; i++) {
        assert_false(seen[b[i] % PALETTE_COLOURS]);
        seen[b[i] % PALETTE_COLOURS] = true;
        assert_true(i == 0 || b[i] >= PALETTE_COLOURS);
    }
}

/* Each pair of colour and shape is used once before any pair is used twice. */
static void test_all_looks(void **state)
{
    struct palette p = {.n = 0};
    static char name[MANY + 1][PALETTE_NAME_SIZE];
    int look[MANY + 1];
    bool seen[PALETTE_COLOURS][PALETTE_SHAPES] = {{false}};
    (void)state;
    names_make(name, MANY + 1, 0);
    take(&p, MANY + 1, name, look);
    for (int i = 0; i < MANY; i++) {
        bool *pair = &seen[look[i] % PALETTE_COLOURS][look[i] % PALETTE_SHAPES];
        assert_false(*pair);
        *pair = true;
    }
    assert_in_range(look[MANY], 0, PALETTE_LOOKS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_keep_looks),
        cmocka_unit_test(test_without_a_palette),
        cmocka_unit_test(test_more_names_than_colours),
        cmocka_unit_test(test_all_looks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
