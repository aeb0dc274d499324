/* Tests how AMPSCALE_CUDNN_WITHOUT is read. */
#include "kernels/cuda/excluded_engines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static enum status set_without(const char *text, struct excluded_engines *e)
{
    assert_int_equal(setenv("AMPSCALE_CUDNN_WITHOUT", text, 1), 0);
    enum status st = excluded_engines_read(e);
    assert_int_equal(unsetenv("AMPSCALE_CUDNN_WITHOUT"), 0);
    return st;
}

static void the_users_text_is_read_strictly(void **state)
{
    static const char *const wrong[] = {" ",     ",",  "62,", ",62", "62,,63",     "62 63",
                                        "62, 3", "-1", "0x1", "6x",  "1000000000", "62;63"};
    struct excluded_engines e;
    char quoted[80];
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(set_without(wrong[i], &e), STATUS_USAGE);
        snprintf(quoted, sizeof quoted, "AMPSCALE_CUDNN_WITHOUT is '%s'; give ", wrong[i]);
        assert_non_null(strstr(status_message(), quoted));
        assert_int_equal(e.n, 0);
    }
    char many[3 * EXCLUDED_ENGINES_MAX + 1] = "";
    for (int i = 0; i < EXCLUDED_ENGINES_MAX; i++)
        strcat(many, i ? ",7" : "7");
    assert_int_equal(set_without(many, &e), STATUS_OK);
    assert_int_equal(e.n, EXCLUDED_ENGINES_MAX);
    assert_int_equal(set_without(strcat(many, ",8"), &e), STATUS_USAGE);
    assert_int_equal(set_without("", &e), STATUS_OK);
    assert_int_equal(e.n, 0);
    assert_int_equal(set_without("62,0", &e), STATUS_OK);
    assert_int_equal(e.n, 2);
    assert_true(excluded_engines_has(&e, 62) && excluded_engines_has(&e, 0));
    assert_false(excluded_engines_has(&e, 2) || excluded_engines_has(NULL, 62));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_users_text_is_read_strictly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
