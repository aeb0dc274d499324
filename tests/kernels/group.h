/* Shared by tests of operations: a reference device that all tests of a group use, and a comparison
 * of results. */
#pragma once

#include "kernels/backend.h"
#include "tests/unit.h"

#include <math.h>
#include <string.h>

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

/* Compares n values with an error of at most `tolerance` times the largest of them, because
 * rounding of the largest values causes most of the error. NaN matches NaN. */
static inline void assert_close(const char *what, const float *got, const float *want, int64_t n,
                                double tolerance)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= tolerance * largest) &&
            !(isnan(got[i]) && isnan(want[i])))
            fail_msg("%s[%d] is %.9g, not %.9g", what, (int)i, (double)got[i], (double)want[i]);
}
