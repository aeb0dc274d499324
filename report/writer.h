/* A document of headings, paragraphs, tables, lists and pictures, told once and
 * written as Markdown or as HTML. Text comes as plain text; a format escapes what it must. */
#ifndef REPORT_WRITER_H
#define REPORT_WRITER_H

#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>

/* Rows of texts of one width. A list is a table of one column. Without memory it remembers so, and
 * the document fails when it is written. */
struct table {
    int columns;
    int n; /* texts that are there */
    int capacity;
    char **text; /* (n) row by row; owned */
    bool failed;
};

/* A row for the heading: "name", or ">name" for a column of numbers, which stand to the right. */
struct table table_begin(int columns, const char *const *headings);
void table_add(struct table *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
void table_free(struct table *t);

/* A number with `decimals`, or a dash for one that is not finite. */
void table_add_number(struct table *t, double x, int decimals);

/* Images per second, seconds: as many decimals as leave four digits. */
void table_add_amount(struct table *t, double x);

struct format {
    void (*begin)(FILE *out, const char *title);
    void (*heading)(FILE *out, int level, const char *text); /* 2 to 6 */
    void (*paragraph)(FILE *out, const char *text);
    void (*code)(FILE *out, const char *text);          /* lines as they are */
    void (*list)(FILE *out, const struct table *items); /* of one column, without a heading */
    void (*table)(FILE *out, const struct table *t);
    /* `link` is the picture's file as seen from the document's folder. */
    enum status (*figure)(FILE *out, const char *path, const char *link, const char *caption);
    void (*end)(FILE *out);
};

extern const struct format format_markdown;
extern const struct format format_html; /* pictures are in it; it needs nothing else */

/* A document being written; the first failure stays. */
struct writer {
    const struct format *format;
    FILE *out;
    const char *path; /* of the document */
    enum status st;
};

void writer_heading(struct writer *w, int level, const char *fmt, ...) PRINTF_LIKE(3, 4);
void writer_paragraph(struct writer *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
void writer_code(struct writer *w, const char *text);

/* Writes and frees; nothing for a table without rows. */
void writer_table(struct writer *w, struct table *t);
void writer_list(struct writer *w, struct table *items);

#endif
