/* What --devices may say. */
#include "kernels/device_list.h"
#include "tests/unit.h"

#include <string.h>

static void counts_are_taken_and_nonsense_is_refused(void **state)
{
    static const struct {
        const char *text, *backend;
        int n;
    } counts[] = {
        {"cpu", "cpu", 1}, {"cpu:1", "cpu", 1}, {"cpu:2", "cpu", 2}, {"ref:64", "ref", 64}};
    static const char *const nonsense[] = {"",       ":",         ":2",      "cpu:",
                                           "cpu:0",  "cpu:-1",    "cpu:x",   "cpu:2x",
                                           "cpu:65", "cpu:99999", "cpu:1,2", "gpu",
                                           "CPU",    "cpu 2",     "cpu:1:1", "averyverylongname:1",
                                           "cpu:2 "};
    struct device_list list;
    for (int k = 0; k < COUNT(counts); k++) {
        assert_int_equal(device_list_parse(counts[k].text, &list), STATUS_OK);
        assert_string_equal(list.backend->name, counts[k].backend);
        assert_int_equal(list.n, counts[k].n);
        for (int i = 0; i < list.n; i++)
            assert_int_equal(list.index[i], i);
    }
    for (int k = 0; k < COUNT(nonsense); k++)
        if (device_list_parse(nonsense[k], &list) != STATUS_USAGE ||
            !strchr(status_message(), '\''))
            fail_msg("'%s' was taken", nonsense[k]);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_taken_and_nonsense_is_refused)};
    return cmocka_run_group_tests_name("device_list", tests, NULL, NULL);
}
