/* Checks both splits of a data set, and prints the result as text or JSON. */
#pragma once

#include "base/bar.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>

/* Decodes every image of DIR/train and DIR/val with `workers` threads and prints their properties
 * to `out`, as text or as one JSON object. *sound becomes true if nothing is missing or damaged.
 * STATUS_DATA if the folder does not exist. `bar` shows the number of images of a split; it may be
 * NULL. */
MUST_CHECK enum status scan_folder(const char *dir, int workers, struct bar *bar, bool json,
                                   FILE *out, bool *sound);
