/* Inside report/: which records a folder holds. */
#ifndef REPORT_SCAN_H
#define REPORT_SCAN_H

#include "report/sections.h"

enum item_kind {
    ITEM_STUDY,  /* a folder with analysis.json */
    ITEM_RUNS,   /* a folder of runs */
    ITEM_RUN,    /* a run's folder */
    ITEM_RECORD, /* a JSON file */
};

struct item {
    enum item_kind kind;
    char path[REPORT_PATH_SIZE];  /* of the record */
    char place[REPORT_PATH_SIZE]; /* the folder that it is in: records of one place share a machine
                                   */
    char figures[REPORT_PATH_SIZE]; /* folder of its pictures */
    char name[256];                 /* its own, cleaned for display */
};

struct items {
    int n, capacity;
    struct item *v; /* (n) */
};

/* Adds the records in `dir`, and in folders inside that are none themselves (an acceptance is one):
 * by place, studies before runs before files, by name; folders of no known kind are left alone.
 * STATUS_IO for a folder that cannot be read. */
MUST_CHECK enum status items_scan(struct items *items, const char *dir);
void items_free(struct items *items);

/* The names in a folder that end in `suffix` ("" is all), but for hidden ones, in the order of
 * their bytes. The caller frees with names_free. */
MUST_CHECK enum status names_in(const char *dir, const char *suffix, char ***names, int *n);
void names_free(char **names, int n);

#endif
