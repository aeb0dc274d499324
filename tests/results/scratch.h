/* Temporary folders for tests, and functions that read and write files in them. If a function
 * fails, the test fails. Includes cmocka. */
#pragma once

#include "tests/status_str.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { SCRATCH_MAX = 64 };

/* Fails with the message of a call that does not return STATUS_OK. */
#define expect_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != STATUS_OK)                                                                   \
            fail_msg("%s: %s", #call, status_message());                                           \
    } while (0)

/* Fails unless a call returned `want` with one line of a message that contains `says`. */
void expect_failed(enum status got, enum status want, const char *says);

/* scratch_make makes an empty folder and writes its name to `dir`. scratch_remove removes it with
 * its contents. */
void scratch_make(char dir[SCRATCH_MAX]);
void scratch_remove(const char *dir);

/* cmocka's set-up and tear-down for a test with such a folder. *state is the name of the folder. */
int scratch_set_up(void **state);
int scratch_tear_down(void **state);

/* Returns "<dir>/<file>"; the next call of a function of scratch.h overwrites it. */
const char *scratch_path(const char *dir, const char *file);

/* Write or append to "<dir>/<file>". scratch_write_changed replaces the first occurrence of `old`
 * in `text` by `new`. */
void scratch_write(const char *dir, const char *file, const void *bytes, size_t size);
void scratch_write_text(const char *dir, const char *file, const char *text);
void scratch_write_changed(const char *dir, const char *file, const char *text, const char *old,
                           const char *new);
void scratch_append(const char *dir, const char *file, const void *bytes, size_t size);

/* Removes "<dir>/<file>". */
void scratch_remove_file(const char *dir, const char *file);

/* Returns the content of "<dir>/<file>", NUL-terminated; the caller frees it. */
char *scratch_read(const char *dir, const char *file, size_t *size);
