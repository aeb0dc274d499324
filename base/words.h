/* A list of words that becomes a program's arguments. */
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

#include "base/status.h"

/* Begins as {0}; `v` then ends with NULL, as execv wants it. */
struct words {
    char **v; /* (n + 1) */
    int n;
};

/* Appends a word; STATUS_OOM leaves the list as it was. */
MUST_CHECK enum status words_add(struct words *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
MUST_CHECK enum status words_add_list(struct words *w, int n, char *const *list);
void words_free(struct words *w);

/* The words as a line for a POSIX shell, in malloc'ed memory: what would not come out as it went in
 * is quoted. */
MUST_CHECK enum status words_shell(const struct words *w, char **line);
#endif
