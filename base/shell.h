/* Words of a command line, to be copied into a shell. */
#ifndef BASE_SHELL_H
#define BASE_SHELL_H

#include <stdio.h>

/* Writes a word for a POSIX shell: what would not come out as it went in is quoted. Errors stay in
 * the stream. */
void shell_word(FILE *out, const char *word);
#endif
