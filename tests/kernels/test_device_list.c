/* What --devices may say. */
#include "kernels/device_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void processors_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *text, *backend;
        int n;
    } cases[] = {
        {"cpu", "cpu", 1}, {"cpu:1", "cpu", 1}, {"cpu:2", "cpu", 2}, {"ref:64", "ref", 64}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct device_list list;
        assert_int_equal(device_list_parse(cases[k].text, &list), STATUS_OK);
        assert_string_equal(list.backend->name, cases[k].backend);
        assert_int_equal(list.n, cases[k].n);
        for (int i = 0; i < list.n; i++)
            assert_int_equal(list.index[i], i);
    }
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",       ":",         ":2",      "cpu:",
                                        "cpu:0",  "cpu:-1",    "cpu:x",   "cpu:2x",
                                        "cpu:65", "cpu:99999", "cpu:1,2", "gpu",
                                        "CPU",    "cpu 2",     "cpu:1:1", "averyverylongname:1",
                                        "cpu:2 "};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        struct device_list list;
        if (device_list_parse(texts[k], &list) != STATUS_USAGE)
            fail_msg("'%s' was taken", texts[k]);
        assert_non_null(strchr(status_message(), '\''));
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(processors_are_counted),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests_name("device_list", tests, NULL, NULL);
}
