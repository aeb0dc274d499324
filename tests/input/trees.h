/* Data sets of tests, in folders and in archives. If a function fails, the test fails. */
#pragma once

#include "input/dataset.h"

#include <stddef.h>

/* Writes "<dir>/<path>", and makes the folders of its path. */
void tree_put(const char *dir, const char *path, const void *bytes, size_t size);

/* Checks that a split has exactly these images, each "CLASS PATH CONTENT"; `want` ends with NULL.
 */
void tree_lists(const char *from, const char *split, const char *const *want);

/* Checks that a split is refused with a message that contains `reason`. */
void tree_refused(const char *from, const char *split, enum status st, const char *reason);

uint64_t tree_fingerprint(const char *from);
