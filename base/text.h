/* Cleans text of unknown origin (file names, arguments, foreign records), and appends text to a
 * buffer. For text on the heap see base/text_new.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Copies `in` as valid UTF-8 on one line. '?' replaces control characters, characters that reorder
 * text (such as U+202E), and bytes that belong to no character. Text that does not fit in `size`
 * bytes (NUL included) is cut between characters. */
void text_clean(char *out, size_t size, const char *in);

/* Prints a line and a newline. The line is cleaned, and cut at TEXT_LINE_MAX bytes. Use it for
 * lines that contain the name of a file, an argument, or text of another process. */
enum { TEXT_LINE_MAX = 8192 };
void text_print(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prints a field of a CSV file (RFC 4180). Cleans the text, and quotes it if it contains a quote or
 * a comma. Puts an apostrophe before text that a spreadsheet would read as a formula. */
void text_print_csv(FILE *out, const char *text);

bool text_ends_with(const char *text, const char *end);

/* Compares texts in an array of pointers, for qsort. */
int text_order(const void *a, const void *b);

/* Appends to the text in `out`, a buffer of `size` bytes. Text that does not fit is cut between
 * characters, and the result is false. */
bool text_append(char *out, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends an item of a list as text_append does. If `out` has text, appends `between` first.
 *
 *     char names[256] = "";
 *     for (int i = 0; i < n; i++)
 *         text_join(names, sizeof names, ", ", "%s", item[i].name);
 */
bool text_join(char *out, size_t size, const char *between, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
