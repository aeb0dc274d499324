/* Tests the places of values in the arena. Values that are alive at the same time do not overlap.
 * Values that are alive at different times share memory. A value that no operation uses takes no
 * memory. */
#include "model/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { VALUES_MAX = 8 };

struct span {
    size_t bytes;
    int first, last; /* indices of the first and last operation; -1: no operation uses it */
    int storage;     /* index of the value whose memory it uses; -1: own memory */
};

static size_t place(struct program *p, struct value *value, const struct span *span, int n)
{
    for (int i = 0; i < n; i++)
        value[i] = (struct value){.desc.bytes = span[i].bytes,
                                  .storage = span[i].storage < 0 ? i : span[i].storage,
                                  .first = span[i].first,
                                  .last = span[i].last,
                                  .offset = SIZE_MAX};
    *p = (struct program){.value = value, .n_values = n};
    assert_int_equal(program_place(p), STATUS_OK);
    return p->arena_bytes;
}

static void test_alive_together(void **state)
{
    struct program p;
    struct value v[VALUES_MAX];
    const struct span span[] = {{512, 0, 2, -1}, {256, 1, 3, -1}, {400, 2, 2, -1}};
    (void)state;
    assert_int_equal(place(&p, v, span, 3), 512 + 256 + 512);
    assert_int_not_equal(v[0].offset, v[1].offset);
}

static void test_one_after_another(void **state)
{
    struct program p;
    struct value v[VALUES_MAX];
    const struct span span[] = {{512, 0, 1, -1}, {256, 2, 3, -1}, {512, 4, 4, -1}};
    (void)state;
    assert_int_equal(place(&p, v, span, 3), 512);
    assert_int_equal(v[1].offset, v[0].offset);
}

static void test_shared_storage(void **state)
{
    struct program p;
    struct value v[VALUES_MAX];
    const struct span span[] = {{256, 0, 3, -1}, {512, 0, 3, -1}, {256, 2, 3, 0}};
    (void)state;
    assert_int_equal(place(&p, v, span, 3), 512 + 256);
    assert_int_equal(v[2].offset, v[0].offset);
}

static void test_untouched(void **state)
{
    struct program p;
    struct value v[VALUES_MAX];
    const struct span span[] = {{1 << 20, -1, -1, -1}, {256, 0, 1, -1}, {4096, -1, -1, -1}};
    (void)state;
    assert_int_equal(place(&p, v, span, 3), 256);
    assert_int_equal(v[1].offset, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alive_together),
        cmocka_unit_test(test_one_after_another),
        cmocka_unit_test(test_shared_storage),
        cmocka_unit_test(test_untouched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
