/* Recognises images by their names, and compares paths for the order of ImageFolder. */
#pragma once

#include <stdbool.h>

/* Returns whether a name has an extension that ImageFolder knows. */
bool image_name_is(const char *name);

/* Compares two paths, each with at least one '/', by folder, then by file name. So the files of a
 * folder come before the files of its subfolders. */
int image_name_compare(const char *a, const char *b);
