/* A folder for a test to write in, and small things to do there. A failure fails the test. */
#pragma once

#include <stddef.h>

enum { SCRATCH_MAX = 64 };

/* Makes an empty folder and returns its name in `dir`; the second removes it with all it holds. */
void scratch_make(char dir[SCRATCH_MAX]);
void scratch_remove(const char *dir);

/* Fixture of a test whose state is such a folder's name. */
int scratch_set_up(void **state);
int scratch_tear_down(void **state);

/* Writes or appends to "<dir>/<file>". */
void scratch_write(const char *dir, const char *file, const void *bytes, size_t size);
void scratch_append(const char *dir, const char *file, const void *bytes, size_t size);

/* The content of "<dir>/<file>", NUL-terminated; the caller frees. */
char *scratch_read(const char *dir, const char *file, size_t *size);
