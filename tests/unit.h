/* What a suite needs: cmocka with the headers that it presupposes, and tests in a folder of their
 * own. */
#pragma once

#include "tests/results/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

/* A test whose *state is the name of a new folder. */
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, scratch_set_up, scratch_tear_down)
