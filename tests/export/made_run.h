/* A run folder with known contents, for tests of exports. */
#pragma once

#include "base/status.h"

#include <stdbool.h>

/* Writes the records of a run into `dir`, which must exist: it began at 2024-01-31T12:00:00Z; two
 * epochs of two steps of 32 images, half a second each, with a loss scale and an overflow in step
 * 1; the loss of step 2 is not finite; validation of the second epoch has 78 % top-1. */
MUST_CHECK enum status made_run_write(const char *dir);
