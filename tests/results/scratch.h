/* Temporary folders for tests, and functions that read and write files in them. If a function
 * fails, the test fails. */
#pragma once

#include <stddef.h>

enum { SCRATCH_MAX = 64 };

/* scratch_make makes an empty folder and writes its name to `dir`. scratch_remove removes it with
 * its contents. */
void scratch_make(char dir[SCRATCH_MAX]);
void scratch_remove(const char *dir);

/* cmocka's set-up and tear-down for a test with such a folder. *state is the name of the folder. */
int scratch_set_up(void **state);
int scratch_tear_down(void **state);

/* Write or append to "<dir>/<file>". */
void scratch_write(const char *dir, const char *file, const void *bytes, size_t size);
void scratch_append(const char *dir, const char *file, const void *bytes, size_t size);

/* Returns the content of "<dir>/<file>", NUL-terminated; the caller frees it. */
char *scratch_read(const char *dir, const char *file, size_t *size);
