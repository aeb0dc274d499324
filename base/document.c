/* Builds tables, and calls the functions of the document's format. */
#include "base/document.h"

#include "base/array.h"
#include "base/digits.h"
#include "base/file.h"
#include "base/text.h"
#include "base/xml.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 4096, ID_SIZE = 256 };

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
    char text[DIGITS_SIZE];
    digits_amount(text, x);
    add(t, text);
}

void table_add_interval(struct table *t, double x, double low, double high)
{
    char text[DIGITS_SIZE];
    digits_interval(text, x, low, high);
    add(t, text);
}

struct column column_of(const char *heading)
{
    struct column c = {.extra = *heading == '~'};
    heading += c.extra;
    c.number = *heading == '>';
    c.text = heading + c.number;
    return c;
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

/* The number of records in a document. */
static int records(const struct table *contents)
{
    int n = 0;
    for (int i = 0; i < contents->n; i += contents->columns)
        n += strcmp(contents->text[i + CONTENTS_LEVEL], "3") == 0;
    return n;
}

/* Writes the document: its beginning, its body and its end. */
static enum status assemble(const struct writer *w)
{
    struct atomic_file f;
    TRY(w->output ? output_file_open(&f, w->path) : atomic_file_open(&f, w->path));
    w->format->begin(f.stream, w->title, &w->contents);
    if (records(&w->contents) > 1)
        w->format->overview(f.stream, &w->contents);
    fwrite(w->body.text, 1, w->body.size, f.stream);
    fputs(w->format->end, f.stream);
    return atomic_file_commit(&f);
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

/* Makes an id, such as "peers-gemm", from the letters and digits of a text, as GitHub does. */
static void slug_make(char id[ID_SIZE], const char *text)
{
    char cut[ID_SIZE - 16]; /* leaves room for a number */
    size_t n = 0;
    text_clean(cut, sizeof cut, text);
    for (const char *c = cut; *c; c++) {
        if (strncmp(c, "\xe2\x80", 2) == 0 && c[2])
            c += 2; /* a dash, a quotation mark or other punctuation */
        else if (*c >= 'A' && *c <= 'Z')
            id[n++] = (char)(*c - 'A' + 'a');
        else if (*c == ' ')
            id[n++] = '-';
        else if ((unsigned char)*c >= 0x80 || strchr("-_0123456789abcdefghijklmnopqrstuvwxyz", *c))
            id[n++] = *c;
    }
    id[n] = '\0';
    if (n == 0)
        strcpy(id, "section");
}

static bool id_is_used(const struct table *contents, const char *id)
{
    for (int i = 0; i < contents->n; i += contents->columns)
        if (strcmp(contents->text[i + CONTENTS_ID], id) == 0)
            return true;
    return false;
}

/* Sets an id that no earlier heading has, such as "throughput" or "throughput-1". */
static void id_make(const struct table *contents, char id[ID_SIZE], const char *text)
{
    slug_make(id, text);
    size_t n = strlen(id);
    for (int k = 1; id_is_used(contents, id); k++)
        snprintf(id + n, ID_SIZE - n, "-%d", k);
}

/* Adds a row to the contents, and returns its id. */
static const char *contents_add(struct writer *w, const char *level, const char *text)
{
    char id[ID_SIZE];
    int at = w->contents.n + CONTENTS_ID;
    id_make(&w->contents, id, text);
    table_add(&w->contents, "%s", level);
    table_add(&w->contents, "%s", text);
    table_add(&w->contents, "%s", id);
    table_add(&w->contents, "%s", "");
    return w->contents.n > at ? w->contents.text[at] : "";
}

static void format_clean(char clean[TEXT_MAX], const char *fmt, va_list args)
{
    char text[TEXT_MAX];
    vsnprintf(text, sizeof text, fmt, args);
    text_clean(clean, TEXT_MAX, text);
}

#define FORMAT_CLEAN(clean, fmt)                                                                   \
    do {                                                                                           \
        va_list args;                                                                              \
        va_start(args, fmt);                                                                       \
        format_clean(clean, fmt, args);                                                            \
        va_end(args);                                                                              \
    } while (0)

void writer_heading(struct writer *w, int level, const char *fmt, ...)
{
    char clean[TEXT_MAX], number[16];
    FORMAT_CLEAN(clean, fmt);
    snprintf(number, sizeof number, "%d", level);
    w->format->heading(w->out, level, clean, contents_add(w, number, clean));
}

/* Sets the summary of the last heading of level 2 or 3. */
static void summarize(struct writer *w, const char *text)
{
    struct table *c = &w->contents;
    for (int i = c->n - c->columns; i >= 0; i -= c->columns) {
        if (strcmp(c->text[i], "2") != 0 && strcmp(c->text[i], "3") != 0)
            continue;
        char *copy = strdup(text);
        c->failed = c->failed || !copy;
        if (!copy)
            return;
        free(c->text[i + CONTENTS_SUMMARY]);
        c->text[i + CONTENTS_SUMMARY] = copy;
        return;
    }
}

void writer_summary(struct writer *w, const char *fmt, ...)
{
    char clean[TEXT_MAX];
    FORMAT_CLEAN(clean, fmt);
    summarize(w, clean);
}

void writer_headline(struct writer *w, const char *fmt, ...)
{
    char clean[TEXT_MAX];
    FORMAT_CLEAN(clean, fmt);
    summarize(w, clean);
    markup(w->out, w->format->escape, w->format->headline, clean);
}

void writer_marked(struct writer *w, const char *what, const char *mark, const char *fmt, ...)
{
    char clean[TEXT_MAX];
    FORMAT_CLEAN(clean, fmt);
    w->format->marked(w->out, what, mark, clean);
}

void writer_fold(struct writer *w, const char *fmt, ...)
{
    char clean[TEXT_MAX];
    FORMAT_CLEAN(clean, fmt);
    w->format->fold_begin(w->out, clean, contents_add(w, "4", clean));
}

void writer_fold_end(struct writer *w)
{
    fputs(w->format->fold_end, w->out);
}

void writer_figure(struct writer *w, const char *path, const char *link, const char *caption)
{
    char clean[TEXT_MAX];
    text_clean(clean, sizeof clean, caption);
    enum status st = w->format->figure(w->out, path, link, clean, contents_add(w, "figure", clean));
    w->st = w->st == STATUS_OK ? st : w->st;
}

void writer_paragraph(struct writer *w, const char *fmt, ...)
{
    char clean[TEXT_MAX];
    FORMAT_CLEAN(clean, fmt);
    markup(w->out, w->format->escape, w->format->paragraph, clean);
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
