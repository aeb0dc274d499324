/* Inside results/: the records of a run, taken in line by line. */
#ifndef RESULTS_ROWS_H
#define RESULTS_ROWS_H

#include "results/run.h"

/* A growing array of records of one kind, kept ascending by an int64_t key inside them. */
struct rows {
    const char *file; /* in the run's folder */
    const char *name; /* of the key, in resume events */
    const struct schema *schema;
    size_t size;  /* of a record */
    size_t key;   /* offset of the key */
    size_t minor; /* offset of what orders rows of equal key; of the key itself: there are none */
    /* Looks at a record of the right shape before it joins the others. */
    enum status (*take)(struct run *run, const void *row);
    char *row;
    int64_t n, capacity;
};

/* A run's files in the order in which they are read: the resume events of the steps say who took
 * part in each attempt. */
enum { ROWS_STEPS, ROWS_EPOCHS, ROWS_RANKS, ROWS_TELEMETRY, ROWS_FILES };

/* Nothing read yet. Each of them is freed with free(row), unless a run has taken it over. */
void rows_begin(struct rows rows[ROWS_FILES]);

/* Takes in a line: a record or an event. */
MUST_CHECK enum status rows_line(struct rows *r, const char *line, size_t size, struct run *run);

/* Drops all but the latest `keep` records. */
void rows_keep(struct rows *r, int64_t keep);

/* Lets the run see what has been read. */
void rows_show(const struct rows rows[ROWS_FILES], struct run *run);

/* Who took part in the attempt that run.json or a resume event describes. */
MUST_CHECK enum status run_add_attempt(struct run *run, const json_t *info);

/* A run with its documents and its name, and without records. The caller frees with run_free. */
MUST_CHECK enum status run_begin(const char *dir, struct run **run);

/* Loads summary.json where it is; one that is gone is NULL. */
MUST_CHECK enum status run_load_summary(struct run *run);

#endif
