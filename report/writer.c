/* Tables, and the way to a format. */
#include "report/writer.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 4096 };

static void add(struct table *t, const char *text)
{
    if (t->n == t->capacity) {
        int capacity = t->capacity ? 2 * t->capacity : 64;
        char **grown = realloc(t->text, (size_t)capacity * sizeof *grown);
        t->failed = t->failed || !grown;
        if (!grown)
            return;
        t->text = grown;
        t->capacity = capacity;
    }
    t->text[t->n] = strdup(text);
    if (t->text[t->n])
        t->n++;
    else
        t->failed = true;
}

struct table table_begin(int columns, const char *const *headings)
{
    struct table t = {.columns = columns};
    for (int i = 0; headings && i < columns; i++)
        add(&t, headings[i]);
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

void writer_heading(struct writer *w, int level, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    w->format->heading(w->out, level, text);
}

void writer_paragraph(struct writer *w, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    w->format->paragraph(w->out, text);
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
