/* Tests which lines of the kernel's log count as errors of a GPU. */
#include "telemetry/xid.h"
#include "tests/unit.h"

static const char log_text[] =
    "<6>[    1.2] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.133.20\n"
    "<3>[ 9.1] NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n"
    "<3>[ 9.2] NVRM: Xid (PCI:0000:1b:00): 31, pid=1234, name=python, Ch 00000008, MMU Fault\n"
    "<3>[ 9.3] NVRM: Xid (PCI:0000:1b:00): 63, pid='<unknown>', Row Remapper: New row marked\n"
    "<3>[ 9.4] NVRM: Xid (PCI:0000:9d:00): 74, NVLink: fatal error detected on link 2\n"
    "<3>[ 9.5] NVRM: Xid (PCI:0001:1b:00): 48, pid=7, Double Bit ECC Error\n"
    "<3>[ 9.6] NVRM: Xid (PCI:0000:1b:00";

static void test_count(void **state)
{
    (void)state;
    assert_int_equal(xid_count(log_text, "0000:1b:00.0"), 2);
    assert_int_equal(xid_count(log_text, "0000:1B:00.0"), 2);
    assert_int_equal(xid_count(log_text, "00000000:9D:00.0"), 1);
    assert_int_equal(xid_count(log_text, "0001:1b:00.0"), 1);
    assert_int_equal(xid_count(log_text, "0000:3b:00.0"), 0);
    assert_int_equal(xid_count(log_text, ""), 0);
    assert_int_equal(xid_count("", "0000:1b:00.0"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_count)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
