/* The record of a benchmark: a JSON object with the benchmark, time, host and program version, then
 * the results. Functions of base/json.h print and write it in the layout JSON_RECORD. */
#pragma once

#include "bench/table.h"

struct bench_head {
    const char *bench;
    int schema;
    const char *device; /* NULL: without "device" */
    int threads;        /* -1: without "threads" */
    bool plain;         /* whether "measured", "host" and the version are left out */
};

/* Makes an object with "schema", "bench", "measured" (the time), "device", "threads", "host" and
 * the version of the program, then the keys of `more`, which this function releases. If `more` is
 * NULL because an allocation failed, returns STATUS_OOM. */
MUST_CHECK enum status bench_record(const struct bench_head *head, json_t *more, json_t **record);

/* If the table's format is JSON, prints a record that has the rows of the table under the key
 * `rows`. Otherwise prints nothing. */
MUST_CHECK enum status bench_record_rows(const struct bench_head *head, json_t *more,
                                         const char *rows, struct bench_table *t);
