/* Arrays of checked sizes. */
#include "base/array.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_new_is_zeroed(void **state)
{
    (void)state;
    double *x;
    assert_int_equal(array_new(&x, 100), STATUS_OK);
    for (int i = 0; i < 100; i++)
        assert_true(x[i] == 0);
    free(x);
    assert_int_equal(array_new(&x, (size_t)0), STATUS_OK);
    assert_non_null(x);
    free(x);
}

static void test_new_checks_its_size(void **state)
{
    (void)state;
    struct large {
        char bytes[1 << 20];
    } *x = (void *)state;
    assert_int_equal(array_new(&x, INT64_MAX / 4), STATUS_OOM);
    assert_null(x);
    assert_non_null(strstr(status_message(), "of 1048576 bytes (test_new_checks_its_size)"));
    x = (void *)state;
    assert_int_equal(array_new(&x, -1), STATUS_OOM);
    assert_null(x);
}

static void test_reserve_keeps_what_is_there(void **state)
{
    (void)state;
    int *v = NULL;
    for (int n = 0; n < 1000; n++) {
        assert_int_equal(array_reserve(&v, n), STATUS_OK);
        assert_int_equal(v[n], 0);
        v[n] = n + 1;
    }
    for (int n = 0; n < 1000; n++)
        assert_int_equal(v[n], n + 1);
    free(v);
}

static void test_reserve_checks_its_size(void **state)
{
    (void)state;
    struct large {
        char bytes[1 << 20];
    } *v = NULL, *was;
    assert_int_equal(array_reserve(&v, 0), STATUS_OK);
    was = v;
    v->bytes[5] = 7;
    assert_int_equal(array_reserve(&v, INT64_C(1) << 62), STATUS_OOM);
    assert_ptr_equal(v, was);
    assert_int_equal(v->bytes[5], 7);
    assert_int_equal(array_reserve(&v, -4), STATUS_OOM);
    assert_ptr_equal(v, was);
    free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_is_zeroed),
        cmocka_unit_test(test_new_checks_its_size),
        cmocka_unit_test(test_reserve_keeps_what_is_there),
        cmocka_unit_test(test_reserve_checks_its_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
