/* Builds tables, and calls the functions of the document's format. */
#include "base/document.h"

#include "base/array.h"
#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 4096 };

/* Cleans the text, because a record may have any origin. */
static void add(struct table *t, const char *text)
{
    char clean[TEXT_MAX];
    text_clean(clean, sizeof clean, text);
    bool added = array_reserve(&t->text, t->n) == STATUS_OK && (t->text[t->n] = strdup(clean));
    t->n += added;
    t->failed = t->failed || !added;
}

struct table table_begin(const char *headings)
{
    struct table t = {.columns = 0};
    for (bool more = true; more; t.columns++) {
        int n = (int)strcspn(headings, "|");
        table_add(&t, "%.*s", n, headings);
        more = headings[n] == '|';
        headings += n + more;
    }
    return t;
}

void table_add(struct table *t, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    add(t, text);
}

void table_add_number(struct table *t, double x, int decimals)
{
    if (isfinite(x))
        table_add(t, "%.*f", decimals, x);
    else
        add(t, "–");
}

void table_add_amount(struct table *t, double x)
{
    table_add_number(t, x, x < 10 ? 3 : x < 100 ? 2 : x < 1000 ? 1 : 0);
}

void table_free(struct table *t)
{
    for (int i = 0; i < t->n; i++)
        free(t->text[i]);
    free(t->text);
    *t = (struct table){0};
}

static void format_clean(char clean[TEXT_MAX], const char *fmt, va_list args)
{
    char text[TEXT_MAX];
    vsnprintf(text, sizeof text, fmt, args);
    text_clean(clean, TEXT_MAX, text);
}

void writer_heading(struct writer *w, int level, const char *fmt, ...)
{
    char clean[TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    format_clean(clean, fmt, args);
    va_end(args);
    w->format->heading(w->out, level, clean);
}

void writer_paragraph(struct writer *w, const char *fmt, ...)
{
    char clean[TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    format_clean(clean, fmt, args);
    va_end(args);
    w->format->paragraph(w->out, clean);
}

void writer_code(struct writer *w, const char *text)
{
    w->format->code(w->out, text);
}

static void write_rows(struct writer *w, struct table *t, int heading,
                       void (*write)(FILE *, const struct table *))
{
    if (t->failed && w->st == STATUS_OK)
        w->st = status_fail(STATUS_OOM, "no memory for a table");
    if (!t->failed && t->n > heading)
        write(w->out, t);
    table_free(t);
}

void writer_table(struct writer *w, struct table *t)
{
    write_rows(w, t, t->columns, w->format->table);
}

void writer_list(struct writer *w, struct table *items)
{
    write_rows(w, items, 0, w->format->list);
}
