/* Shared by cmocka tests of operations: a reference device that all tests of a group use, and a
 * check that a call succeeds. */
#pragma once

#include "kernels/backend.h"

/* Fails the test with the status's message unless the call succeeds. */
#define OK(expr)                                                                                   \
    do {                                                                                           \
        enum status ok_status_ = (expr);                                                           \
        if (ok_status_ != STATUS_OK)                                                               \
            fail_msg("%s: %s", status_str(ok_status_), status_message());                          \
    } while (0)

/* Opens the reference device as the state of the group's tests; rig_group_teardown() closes it. */
static inline int rig_group_setup(void **state)
{
    struct device *dev;
    if (device_open("ref", 1, &dev) != STATUS_OK)
        return -1;
    *state = dev;
    return 0;
}

static inline int rig_group_teardown(void **state)
{
    device_close(*state);
    return 0;
}
