/* Text of unknown origin (file names, arguments, other people's records) made fit to be shown. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stddef.h>

/* Copies `in` as valid UTF-8 on one line: a control character, one that reorders text
 * (U+202E and its like) or a byte that is no part of a character becomes '?', and what does not fit
 * in `size` bytes (NUL included) is cut between characters. */
void text_clean(char *out, size_t size, const char *in);
#endif
