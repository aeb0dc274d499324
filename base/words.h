/* A list of words, such as the arguments of a program. */
#pragma once

#include "base/status.h"

#include <stdio.h>

/* Starts as {0}. After the first word is added, `v` ends with NULL, as execv requires. */
struct words {
    char **v; /* (n + 1) */
    int n;
};

/* Appends a word; STATUS_OOM leaves the list as it was. */
MUST_CHECK enum status words_add(struct words *w, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Appends a flag and its value. */
MUST_CHECK enum status words_add_flag(struct words *w, const char *flag, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* Append several words: the arguments up to NULL, or the n words of a list. */
MUST_CHECK enum status words_add_all(struct words *w, ...) __attribute__((sentinel));
MUST_CHECK enum status words_add_list(struct words *w, int n, char *const *list);
void words_free(struct words *w);

/* Writes a word for a POSIX shell, quoted if the shell would change it. A word with characters that
 * text_clean replaces is written in bash's form $'...'. The caller checks the stream for errors. */
void shell_word(FILE *out, const char *word);

/* Writes the words as one line for a POSIX shell, each quoted if needed, to memory that the caller
 * frees. */
MUST_CHECK enum status words_shell(const struct words *w, char **line);
