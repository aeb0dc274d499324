/* A table of results: rows of cells, printed as text, CSV or Markdown, or kept as JSON objects for
 * a record (bench/record.h).
 *
 * A benchmark lists its columns in one function, one line per column, with the row's value:
 *
 *     static void gemm_columns(struct bench_table *t, const void *row)
 *     {
 *         const struct gemm_row *w = row;
 *         column_int(t, "m", "m", 7, w->what->size.m);
 *         column_real(t, "bytes", "MiB", 9, 1, 0x1p-20, gemm_bytes(w));
 *     }
 *
 * `name` is the column's name in CSV and its key in JSON, and includes the unit, without an SI
 * prefix. `heading` is its name in text and Markdown, with the unit used there; `scale` converts
 * values to that unit. If `name` is NULL, the column is absent from CSV and JSON; if `heading` is
 * NULL, it is absent from text and Markdown. `width` is the minimum width of the column in text;
 * negative: aligned left; 0: the last column, not padded. The function is also called for the
 * heading, with a row whose values are not used. */
#pragma once

#include "base/bar.h"
#include "base/status.h"
#include "results/noise.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum bench_format { BENCH_TEXT, BENCH_CSV, BENCH_MARKDOWN, BENCH_JSON };

struct bench_table {
    enum bench_format format;
    FILE *out;
    void (*columns)(struct bench_table *t, const void *row);
    const void *context; /* for use by columns() */
    struct bar *bar;     /* progress bar, which is erased before a line is printed; NULL: none */
    bool absent;         /* set by columns(): the next cells have no value in this row. They are
                          * absent from JSON, empty in CSV, and "n/a" in text and Markdown */
    const struct host_noise *noise; /* of all rows, measured together; NULL: each has its own */
    int judged, disturbed, above;   /* counted by bench_table_remarks */
    /* Inside table.c: */
    bool heading;         /* the line is the heading */
    int cells;            /* number of cells in the line so far */
    json_t *rows;         /* BENCH_JSON: the array of rows */
    json_t *row, *object; /* the current row, and the object that gets its cells: the row, or an
                           * object in the row */
};

/* Prints the heading, or begins the JSON. `blank` is any row that columns() can read; its values
 * are not printed. */
void bench_table_open(struct bench_table *t, const void *blank);

/* Prints a row, or keeps it for JSON. */
void bench_table_row(struct bench_table *t, const void *row);

/* Prints a heading and `n` rows, or keeps the rows for JSON. `size` is the size of one row in
 * bytes. Prints no heading if there are no rows. */
void bench_table_rows(struct bench_table *t, const void *rows, int n, size_t size);

/* Gives the caller the JSON array of kept rows. */
json_t *bench_table_take(struct bench_table *t);

/* Frees the kept rows. Also accepts a zeroed table, and a table whose rows were taken by
 * bench_table_take. */
void bench_table_close(struct bench_table *t);

#define BENCH_SHARE_MAX 1.05 /* a larger share of a measured peak: the peak is too low */

enum { BENCH_REMARKS_MAX = 512 };

/* Counts a row, and writes to `text` what makes it doubtful: "disturbed: 34.0 % of the processors'
 * time went to other processes", "above the measured peak"; "" if nothing does. t->noise is only
 * counted. `share` may be NaN. */
void bench_table_remarks(struct bench_table *t, const struct host_noise *noise, double share,
                         char text[BENCH_REMARKS_MAX]);

/* --- cells, for columns() --- */

/* An empty text is printed as "-". */
void column_text(struct bench_table *t, const char *name, const char *heading, int width,
                 const char *value);
void column_int(struct bench_table *t, const char *name, const char *heading, int width,
                int64_t value);
/* In text, the number has `digits` digits after the point. NaN is null in JSON, empty in CSV, "n/a"
 * in text. */
void column_real(struct bench_table *t, const char *name, const char *heading, int width,
                 int digits, double scale, double value);
/* The last columns. CSV has the shares of other work; JSON "noise", and "above_peak" if there is a
 * share of a peak; text and Markdown the remarks. `noise` is NULL if the row was not measured, or
 * if t->noise has that of all rows. */
void column_noise(struct bench_table *t, const struct host_noise *noise, double share);
/* true and false in JSON, 1 and 0 in CSV; absent from text. */
void column_bool(struct bench_table *t, const char *name, bool value);

/* For JSON only. column_json takes over `value`; NULL means out of memory. The cells between
 * column_group_begin and column_group_end become members of an object with this name. */
void column_json(struct bench_table *t, const char *name, json_t *value);
void column_group_begin(struct bench_table *t, const char *name);
void column_group_end(struct bench_table *t);
