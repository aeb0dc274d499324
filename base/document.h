/* A document of headings, paragraphs, tables, lists and pictures, described once and written as
 * Markdown or as HTML. If it has several records, it begins with a list of them, each with its
 * summary; the HTML page also has a table of contents. All text is plain text and may come from an
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
 * "name|>number|~>extra|other". '>' before a heading marks a column of numbers, which is
 * right-aligned. '~' before it marks a column that a narrow screen does not show. */
struct table table_begin(const char *headings);
void table_add(struct table *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
void table_free(struct table *t);

/* Adds `x` with `decimals` decimals, or a dash if `x` is not finite. */
void table_add_number(struct table *t, double x, int decimals);

/* Add a quantity, and a quantity with its interval, as digits.h writes them. */
void table_add_amount(struct table *t, double x);
void table_add_interval(struct table *t, double x, double low, double high);

/* A column's heading without its marks, and the marks. */
struct column {
    const char *text;
    bool number, extra;
};
struct column column_of(const char *heading);

/* The columns of the contents. A row is a heading, a fold or a figure. */
enum contents_column {
    CONTENTS_LEVEL, /* "2" to "6", or "figure" */
    CONTENTS_TEXT,
    CONTENTS_ID,      /* unique in the document, in the form of GitHub's links to headings: letters,
                       * digits, '-', '_', and characters beyond ASCII */
    CONTENTS_SUMMARY, /* what the heading's section says, in a sentence; "": none */
    CONTENTS_COLUMNS
};

struct format {
    void (*begin)(FILE *out, const char *title, const struct table *contents);
    /* A list of the headings of levels 2 and 3, with links and summaries. */
    void (*overview)(FILE *out, const struct table *contents);
    void (*heading)(FILE *out, int level, const char *text, const char *id); /* level: 2 to 6 */
    void (*escape)(FILE *out, const char *text);
    const char *paragraph, *headline; /* forms (xml.h); a headline is a paragraph that stands out */
    /* A paragraph "<what>: <mark>. <text>"; the mark is coloured as a verdict is. */
    void (*marked)(FILE *out, const char *what, const char *mark, const char *text);
    /* What follows, up to fold_end, is hidden until the reader opens it. Folds are not nested. */
    void (*fold_begin)(FILE *out, const char *text, const char *id);
    const char *fold_end;
    void (*code)(FILE *out, const char *text); /* lines, unchanged */
    void (*list)(FILE *out, const struct table *items);
    void (*table)(FILE *out, const struct table *t);
    /* `link` is the picture's path relative to the document's folder. */
    enum status (*figure)(FILE *out, const char *path, const char *link, const char *caption,
                          const char *id);
    const char *end;
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
    struct table contents; /* see enum contents_column */
    bool output;           /* the user names the file (output_file_open) */
};

/* writer_begin: begins a document in memory; if it fails, writer_end need not be called.
 * writer_end: writes the document to the file `path`, whole or not at all, and returns the first
 * failure. */
MUST_CHECK enum status writer_begin(struct writer *w, const struct format *format, const char *path,
                                    const char *title);
MUST_CHECK enum status writer_end(struct writer *w);

/* Headings of level 2 are places, such as machines; headings of level 3 are their records. */
void writer_heading(struct writer *w, int level, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* writer_summary sets the summary of the last heading, for the list at the document's beginning.
 * writer_headline also writes it as a headline. */
void writer_summary(struct writer *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
void writer_headline(struct writer *w, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* See `marked` and `fold_begin` of struct format. The caller of writer_fold has added what is
 * folded between it and writer_fold_end. */
void writer_marked(struct writer *w, const char *what, const char *mark, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
void writer_fold(struct writer *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
void writer_fold_end(struct writer *w);

/* Writes a picture with its caption, and adds it to the contents. */
void writer_figure(struct writer *w, const char *path, const char *link, const char *caption);

void writer_paragraph(struct writer *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
void writer_code(struct writer *w, const char *text);

/* Writes a table and frees it; writes nothing for a table without rows. */
void writer_table(struct writer *w, struct table *t);
void writer_list(struct writer *w, struct table *items);
