/* Internal to report/: finding the records in a folder, and writing their pictures. */
#pragma once

#include "report/report_sections.h"

#include <sys/stat.h>

enum item_kind {
    ITEM_STUDY,  /* a folder with analysis.json */
    ITEM_RUNS,   /* a folder of runs */
    ITEM_RUN,    /* a run's folder */
    ITEM_RECORD, /* a JSON file */
};

struct item {
    enum item_kind kind;
    char path[REPORT_PATH_SIZE];    /* path of the record */
    char place[REPORT_PATH_SIZE];   /* folder of the record; all records in one folder are from one
                                     * machine */
    char figures[REPORT_PATH_SIZE]; /* folder of its pictures */
    char name[256];                 /* last part of the path, cleaned for display */
};

struct items {
    int n;
    struct item *v;      /* (n) */
    struct table unread; /* messages about entries that cannot be looked at */
    int n_scanned;
    struct stat *scanned; /* (n_scanned) folders that are themselves no record */
};

/* Adds the records in `dir` and in its subfolders, but not the records inside another record, such
 * as an acceptance. Scans a folder once, also if links lead to it. Ignores other folders and files;
 * of a single entry that cannot be looked at, keeps the message. Sorts the items by place, then by
 * kind (studies, runs, files), then by name. STATUS_DATA if `dir` is not a folder, STATUS_IO if a
 * folder cannot be read. */
MUST_CHECK enum status items_scan(struct items *items, const char *dir);
void items_free(struct items *items);

/* Write the pictures of an item: first the main results of a study or of runs, then the others by
 * name. The first picture belongs near the headline; the others are folded. Both functions write
 * nothing if there are none. */
void figures_first(struct writer *w, const struct item *item);
void figures_rest(struct writer *w, const struct item *item);

/* Whether `figure` ("loss", "loss.svg") is a learning curve. A report shows only these for a folder
 * of runs (ITEM_RUNS), because times are compared by studies. */
bool figure_is_learning(const char *figure);
