/* Lists of words, and their form on a shell's command line. */
#include "base/words.h"

#include "base/array.h"
#include "base/text.h"
#include "base/text_new.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static enum status add(struct words *w, const char *fmt, va_list ap)
{
    TRY(array_reserve(&w->v, w->n));
    TRY(array_reserve(&w->v, w->n + 1)); /* the NULL at the end */
    int length = vasprintf(&w->v[w->n], fmt, ap);
    w->v[w->n + (length >= 0)] = NULL;
    w->n += length >= 0;
    return length >= 0 ? STATUS_OK : status_fail(STATUS_OOM, "no memory for a list of words");
}

enum status words_add(struct words *w, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    enum status st = add(w, fmt, ap);
    va_end(ap);
    return st;
}

enum status words_add_flag(struct words *w, const char *flag, const char *fmt, ...)
{
    va_list ap;
    TRY(words_add(w, "%s", flag));
    va_start(ap, fmt);
    enum status st = add(w, fmt, ap);
    va_end(ap);
    return st;
}

enum status words_add_all(struct words *w, ...)
{
    va_list ap;
    const char *word;
    enum status st = STATUS_OK;
    va_start(ap, w);
    while (st == STATUS_OK && (word = va_arg(ap, const char *)))
        st = words_add(w, "%s", word);
    va_end(ap);
    return st;
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

static bool is_plain(const char *word)
{
    for (const char *p = word; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_@%+=:,./-", *p))
            return false;
    return *word != '\0';
}

/* Whether text_clean leaves the word unchanged: a terminal or a viewer then shows all of its
 * characters. */
static bool is_shown(const char *word)
{
    char clean[8];
    for (const char *p = word; *p; p += strlen(clean)) {
        text_clean(clean, sizeof clean, p);
        if (strncmp(clean, p, strlen(clean)) != 0)
            return false;
    }
    return true;
}

void shell_word(FILE *out, const char *word)
{
    if (is_plain(word)) {
        fputs(word, out);
        return;
    }
    if (!is_shown(word)) {
        /* Writes bash's form $'...'. Quotes, backslashes and all bytes other than printable ASCII
         * become \xHH. */
        fputs("$'", out);
        for (const char *p = word; *p; p++) {
            if (*p >= ' ' && *p <= '~' && !strchr("'\\", *p))
                fputc(*p, out);
            else
                fprintf(out, "\\x%02x", (unsigned char)*p);
        }
        fputc('\'', out);
        return;
    }
    fputc('\'', out);
    for (const char *p = word; *p; p++) {
        if (*p == '\'')
            fputs("'\\''", out);
        else
            fputc(*p, out);
    }
    fputc('\'', out);
}

enum status words_shell(const struct words *w, char **line)
{
    struct text_stream s;
    *line = NULL;
    TRY(text_stream_open(&s));
    for (int i = 0; i < w->n; i++) {
        if (i > 0)
            fputc(' ', s.out);
        shell_word(s.out, w->v[i]);
    }
    TRY(text_stream_close(&s));
    *line = s.text;
    return STATUS_OK;
}
