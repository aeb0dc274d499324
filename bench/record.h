/* The record of a benchmark: a JSON object with the benchmark, time, host and program version, then
 * the results. Functions of base/json.h print and write it in the layout JSON_RECORD. */
#pragma once

#include "bench/table.h"

struct bench_head {
    const char *bench;
    int schema;
    const char *device; /* NULL: without "device" */
    int threads;        /* -1: without "threads" */
    int workers;        /* threads that compute at once on this host; 0: `threads` */
    const char *time;   /* key of the time; NULL: "measured" */
};

/* Makes an object with "schema", "bench", "measured" (the time), "device", "threads", whether the
 * host has fewer cores than threads, "host" and the version of the program, then the keys of
 * `more`, which this function releases. */
json_t *bench_record(const struct bench_head *head, json_t *more);

/* Ends a report: says on stderr which rows are doubtful, and whether the host has too few cores. */
void bench_warn(const struct bench_head *head, const struct bench_table *t);

/* Ends a report. If the table's format is JSON, prints a record that has the rows of the table
 * under the key `rows`, and t->noise. Otherwise prints only the remark on t->noise. Warns as
 * bench_warn does. */
MUST_CHECK enum status bench_record_rows(const struct bench_head *head, json_t *more,
                                         const char *rows, struct bench_table *t);
