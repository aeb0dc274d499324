/* A run folder with known contents, for tests of exports. */
#pragma once

#include "base/status.h"

#include <stdbool.h>

/* Writes the records of a run into `dir`, which must exist. The run began at 2024-01-31T12:00:00Z.
 * It has two epochs of two steps, and a loss scale. Each step has 32 images and takes 0.5 s. Step 1
 * overflows. The loss of step 2 is not finite. Validation after the second epoch has 78 % top-1. */
MUST_CHECK enum status made_run_write(const char *dir);
