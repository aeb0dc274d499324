/* Text of unknown origin (file names, arguments, other people's records) made fit to be shown. */
#ifndef RESULTS_TEXT_H
#define RESULTS_TEXT_H

#include <jansson.h>
#include <stddef.h>

/* Copies `in` as valid UTF-8 on one line: a control character or a byte that is no part of a
 * character becomes '?', and what does not fit in `size` bytes (NUL included) is cut between
 * characters. */
void text_clean(char *out, size_t size, const char *in);

/* The same as a new JSON string of any length; NULL when memory is short. */
json_t *text_json(const char *in);
#endif
