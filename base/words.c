/* Lists of words, and their form on a shell's command line. */
#include "base/words.h"

#include "base/shell.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status words_add(struct words *w, const char *fmt, ...)
{
    va_list ap;
    char *word = NULL;
    va_start(ap, fmt);
    int length = vasprintf(&word, fmt, ap);
    va_end(ap);
    if (length < 0)
        return status_fail(STATUS_OOM, "no memory for a command line");
    char **v = realloc(w->v, ((size_t)w->n + 2) * sizeof *v);
    if (!v) {
        free(word);
        return status_fail(STATUS_OOM, "no memory for a command line");
    }
    w->v = v;
    v[w->n++] = word;
    v[w->n] = NULL;
    return STATUS_OK;
}

enum status words_add_list(struct words *w, int n, char *const *list)
{
    for (int i = 0; i < n; i++)
        TRY(words_add(w, "%s", list[i]));
    return STATUS_OK;
}

void words_free(struct words *w)
{
    for (int i = 0; i < w->n; i++)
        free(w->v[i]);
    free(w->v);
    *w = (struct words){0};
}

enum status words_shell(const struct words *w, char **line)
{
    size_t size;
    *line = NULL;
    FILE *out = open_memstream(line, &size);
    if (!out)
        return status_fail(STATUS_OOM, "no memory for a command line");
    for (int i = 0; i < w->n; i++) {
        if (i > 0)
            fputc(' ', out);
        shell_word(out, w->v[i]);
    }
    bool failed = ferror(out) != 0;
    if (fclose(out) == 0 && !failed)
        return STATUS_OK;
    free(*line);
    *line = NULL;
    return status_fail(STATUS_OOM, "no memory for a command line");
}
