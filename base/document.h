/* A document of headings, paragraphs, tables, lists and pictures, described once and written as
 * Markdown or as HTML, with a table of contents. All text is plain text and may come from an
 * untrusted source. All of it except code blocks is cleaned (text.h), and each format escapes its
 * special characters. */
#pragma once

#include "base/status.h"
#include "base/text_new.h"

#include <stdbool.h>
#include <stdio.h>

/* A table, whose rows all have `columns` texts. A list is a table without a heading row, and starts
 * as {0}. If memory runs out, `failed` is set, and writing the document fails. */
struct table {
    int columns;
    int n;       /* texts in the table */
    char **text; /* (n) row by row; owned */
    bool failed;
};

/* Returns a table with only the heading row, whose headings are separated by '|':
 * "name|>number|other". '>' before a heading marks a column of numbers, which is right-aligned. */
struct table table_begin(const char *headings);
void table_add(struct table *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
void table_free(struct table *t);

/* Adds `x` with `decimals` decimals, or a dash if `x` is not finite. */
void table_add_number(struct table *t, double x, int decimals);

/* Adds a quantity, such as seconds or images/s, with at least four digits: with 3 decimals if it is
 * below 10, with 2 below 100, with 1 below 1000, and without decimals from 1000 on. */
void table_add_amount(struct table *t, double x);

struct format {
    /* `contents` has a row for each heading: level, text, id. */
    void (*begin)(FILE *out, const char *title, const struct table *contents);
    /* level: 2 to 6; id: unique in the document, of letters, digits and '-'. */
    void (*heading)(FILE *out, int level, const char *text, const char *id);
    void (*paragraph)(FILE *out, const char *text);
    void (*code)(FILE *out, const char *text); /* lines, unchanged */
    void (*list)(FILE *out, const struct table *items);
    void (*table)(FILE *out, const struct table *t);
    /* `link` is the picture's path relative to the document's folder. */
    enum status (*figure)(FILE *out, const char *path, const char *link, const char *caption);
    void (*end)(FILE *out);
};

extern const struct format format_markdown;
extern const struct format format_html; /* self-contained: pictures are embedded */

/* A document being written; `st` is the first failure. */
struct writer {
    const struct format *format;
    const char *path, *title; /* of the document; not copied */
    FILE *out;                /* for functions of `format` */
    enum status st;
    struct text_stream body;
    struct table contents; /* see struct format */
};

/* writer_begin: begins a document in memory; if it fails, writer_end need not be called.
 * writer_end: writes the document to the file `path`, whole or not at all, and returns the first
 * failure. */
MUST_CHECK enum status writer_begin(struct writer *w, const struct format *format, const char *path,
                                    const char *title);
MUST_CHECK enum status writer_end(struct writer *w);

void writer_heading(struct writer *w, int level, const char *fmt, ...) PRINTF_LIKE(3, 4);
void writer_paragraph(struct writer *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
void writer_code(struct writer *w, const char *text);

/* Writes a table and frees it; writes nothing for a table without rows. */
void writer_table(struct writer *w, struct table *t);
void writer_list(struct writer *w, struct table *items);
