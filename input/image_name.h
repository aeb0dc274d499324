/* Names of images: which files are images, and the order of ImageFolder. */
#pragma once

#include <stdbool.h>

/* Whether a name has an extension that ImageFolder knows. */
bool image_name_is(const char *name);

/* Compares paths with at least one '/' by folder, then by file name: files of a folder come before
 * those of its subfolders. */
int image_name_compare(const char *a, const char *b);
