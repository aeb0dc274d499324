/* Arrays of checked sizes. */
#include "base/array.h"
#include "tests/unit.h"

#include <stdlib.h>

static void test_new(void **state)
{
    double *x;
    struct large {
        char bytes[1 << 20];
    } *none = (void *)state;
    assert_int_equal(array_new(&x, 100), STATUS_OK);
    for (int i = 0; i < 100; i++)
        assert_true(x[i] == 0);
    free(x);
    assert_int_equal(array_new(&x, (size_t)0), STATUS_OK);
    assert_non_null(x);
    free(x);
    assert_int_equal(array_new(&none, INT64_MAX / 4), STATUS_OOM);
    assert_null(none);
    none = (void *)state;
    assert_int_equal(array_new(&none, -1), STATUS_OOM);
    assert_null(none);
}

/* After a failure, the array is as it was. */
static void test_reserve(void **state)
{
    int *v = NULL, *was;
    for (int n = 0; n < 1000; n++) {
        assert_int_equal(array_reserve(&v, n), STATUS_OK);
        assert_int_equal(v[n], 0);
        v[n] = n + 1;
    }
    was = v;
    assert_int_equal(array_reserve(&v, INT64_C(1) << 62), STATUS_OOM);
    assert_int_equal(array_reserve(&v, -4), STATUS_OOM);
    assert_ptr_equal(v, was);
    for (int n = 0; n < 1000; n++)
        assert_int_equal(v[n], n + 1);
    free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new),
        cmocka_unit_test(test_reserve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
