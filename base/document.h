/* A document of headings, paragraphs, tables, lists and pictures, described once and written as
 * Markdown or as HTML. Text is plain text of any origin: all but code is cleaned (text.h), and each
 * format escapes its special characters. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>

/* Rows with equal numbers of texts. A list is a table without a heading, and begins as {0}. If
 * memory is short, `failed` is set, and writing the document fails. */
struct table {
    int columns;
    int n;       /* texts in the table */
    char **text; /* (n) row by row; owned */
    bool failed;
};

/* Begins with a heading row, "name|>number|other". '>' before a heading marks a column of numbers,
 * which is right-aligned. */
struct table table_begin(const char *headings);
void table_add(struct table *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
void table_free(struct table *t);

/* Adds a number with this number of decimals, or a dash if the number is not finite. */
void table_add_number(struct table *t, double x, int decimals);

/* Adds a quantity, such as seconds or images/s: four digits or more, of which 0 to 3 decimals. */
void table_add_amount(struct table *t, double x);

struct format {
    void (*begin)(FILE *out, const char *title);
    void (*heading)(FILE *out, int level, const char *text); /* 2 to 6 */
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

/* A document being written; keeps the first failure. */
struct writer {
    const struct format *format;
    FILE *out;
    const char *path; /* of the document */
    enum status st;
};

void writer_heading(struct writer *w, int level, const char *fmt, ...) PRINTF_LIKE(3, 4);
void writer_paragraph(struct writer *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
void writer_code(struct writer *w, const char *text);

/* Writes a table and frees it; writes nothing for a table without rows. */
void writer_table(struct writer *w, struct table *t);
void writer_list(struct writer *w, struct table *items);
