/* Internal to report/: runs of a folder, grouped by their configuration. */
#pragma once

#include "report/report_sections.h"
#include "results/run.h"

/* Runs that differ only in their seeds. */
struct group {
    char key[RUN_KEY_SIZE];
    char precision[64]; /* the precision, then ", emulated" if it was emulated */
    int n;
    double top1[REPORT_MAX_RUNS];
    double mean; /* of top1; NAN: no run was validated */
    int rates;
    double rate[REPORT_MAX_RUNS]; /* (rates) images/s of the median step */
    const struct run *first;
};

struct groups {
    int n, runs;
    struct group *v; /* (n) fp32 first, then by precision; owned */
};

MUST_CHECK enum status groups_make(struct run *const *runs, int n, struct groups *groups);
void groups_free(struct groups *groups);

/* Returns how far images/s of the runs of a group differ, divided by their median: the largest of
 * all groups; NAN: no group has two runs. */
double groups_apart(const struct groups *groups);

/* Writes the accuracy of each group as a headline; without a validation, the throughput. */
void groups_headline(struct writer *w, const struct groups *groups);

/* Writes the means over the seeds, and how they differ from the first group's. */
void groups_compare(struct writer *w, const struct groups *groups);

/* Returns the last epoch with a validation; NULL if no epoch was validated. */
const struct epoch_record *run_last_validated(const struct run *run);

/* Writes the precision, such as "O1, emulated". */
void run_precision(const struct run *run, char *out, size_t size);
