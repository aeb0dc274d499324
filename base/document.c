/* Builds tables, and calls the functions of the document's format. */
#include "base/document.h"

#include "base/array.h"
#include "base/file.h"
#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 4096, ID_SIZE = 64, CONTENTS_COLUMNS = 3 };

/* Appends a text to the table. Cleans the text, because it may come from an untrusted record. */
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

enum status writer_begin(struct writer *w, const struct format *format, const char *path,
                         const char *title)
{
    *w = (struct writer){.format = format, .path = path, .title = title};
    w->contents.columns = CONTENTS_COLUMNS;
    TRY(text_stream_open(&w->body));
    w->out = w->body.out;
    return STATUS_OK;
}

/* Writes the document: its beginning, its body and its end. */
static enum status assemble(const struct writer *w)
{
    struct text_stream whole;
    TRY(text_stream_open(&whole));
    w->format->begin(whole.out, w->title, &w->contents);
    fwrite(w->body.text, 1, w->body.size, whole.out);
    w->format->end(whole.out);
    enum status st = text_stream_close(&whole);
    if (st == STATUS_OK)
        st = file_replace(w->path, whole.text, whole.size);
    free(whole.text);
    return st;
}

enum status writer_end(struct writer *w)
{
    enum status st = text_stream_close(&w->body);
    w->st = w->st == STATUS_OK ? st : w->st;
    if (w->st == STATUS_OK && w->contents.failed)
        w->st = status_fail(STATUS_OOM, "no memory for the contents of '%s'", w->path);
    if (w->st == STATUS_OK)
        w->st = assemble(w);
    free(w->body.text);
    table_free(&w->contents);
    return w->st;
}

/* Makes an id, such as "peers-gemm", from the letters and digits of a heading. */
static void slug_make(char id[ID_SIZE], const char *text)
{
    size_t n = 0;
    for (; *text && n < ID_SIZE - 16; text++) {
        char c = *text;
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            id[n++] = c;
        else if (n > 0 && id[n - 1] != '-')
            id[n++] = '-';
    }
    while (n > 0 && id[n - 1] == '-')
        n--;
    id[n] = '\0';
    if (n == 0)
        strcpy(id, "section");
}

static bool id_is_used(const struct table *contents, const char *id)
{
    for (int i = CONTENTS_COLUMNS - 1; i < contents->n; i += CONTENTS_COLUMNS)
        if (strcmp(contents->text[i], id) == 0)
            return true;
    return false;
}

/* Sets an id that no earlier heading has, such as "throughput" or "throughput-2". */
static void id_make(const struct table *contents, char id[ID_SIZE], const char *text)
{
    slug_make(id, text);
    size_t n = strlen(id);
    for (int k = 2; id_is_used(contents, id); k++)
        snprintf(id + n, ID_SIZE - n, "-%d", k);
}

static void format_clean(char clean[TEXT_MAX], const char *fmt, va_list args)
{
    char text[TEXT_MAX];
    vsnprintf(text, sizeof text, fmt, args);
    text_clean(clean, TEXT_MAX, text);
}

void writer_heading(struct writer *w, int level, const char *fmt, ...)
{
    char clean[TEXT_MAX], id[ID_SIZE];
    va_list args;
    va_start(args, fmt);
    format_clean(clean, fmt, args);
    va_end(args);
    id_make(&w->contents, id, clean);
    table_add(&w->contents, "%d", level);
    table_add(&w->contents, "%s", clean);
    table_add(&w->contents, "%s", id);
    w->format->heading(w->out, level, clean, id);
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
