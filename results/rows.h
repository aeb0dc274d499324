/* Internal to results/: reads a run's records line by line (run.c). */
#pragma once

#include "results/run.h"

/* A growing array of records of one kind, in ascending order of a key. The key is an int64_t member
 * of the record. */
struct rows {
    const char *file; /* name of the file in the run's folder */
    const char *name; /* name of the key in resume events */
    const struct schema *schema;
    size_t size;    /* bytes of a record */
    size_t key;     /* offset of the key */
    size_t minor;   /* offset of the second key; equal to `key` if there is none */
    size_t elapsed; /* offset of `elapsed`, a double; 0: the record has none */
    char *row;
    int64_t n;
};

/* A run's files in the order of reading. The file of steps is first, because its resume events list
 * the ranks of each attempt. */
enum { ROWS_STEPS, ROWS_EPOCHS, ROWS_RANKS, ROWS_TELEMETRY, ROWS_FILES };

/* Sets up empty rows. The caller frees each `row`, unless a run has taken it over (rows_show). */
void rows_begin(struct rows rows[ROWS_FILES]);

/* Reads a line: a record or an event. */
MUST_CHECK enum status rows_line(struct rows *r, const char *line, size_t size, struct run *run);

/* Drops all but the latest `keep` records. */
void rows_keep(struct rows *r, int64_t keep);

/* Sets the run's arrays of records to the rows read so far. */
void rows_show(const struct rows rows[ROWS_FILES], struct run *run);

/* Loads a run with its documents and its name, without records. The caller frees *run with
 * run_free. */
MUST_CHECK enum status run_begin(const char *dir, struct run **run);

/* Reloads summary.json and outcome.json; the run's member is NULL for a missing file. */
MUST_CHECK enum status run_load_end(struct run *run);
