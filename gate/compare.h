/* Holding the repeats of a new version against those of a base, metric by metric.
 *
 * A regression is significant, by a two-sided rank test, and larger than a threshold, in the ratio
 * of the medians. What cannot be judged has not passed: too few repeats, runs that did not end, a
 * cell that one side lacks, and sides of different configuration or hardware, which are not
 * compared at all. */
#ifndef GATE_COMPARE_H
#define GATE_COMPARE_H

#include "gate/metric.h"
#include "results/stats.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    GATE_LEAST_REPEATS = 5,
    GATE_RESAMPLES = 2000, /* of the bootstrap */
    GATE_SEED = 1,
    GATE_NAME_SIZE = 160,
    GATE_TEXT_SIZE = 640,
};

/* A part of less than this share of a step, on both sides, is too small to judge. */
#define GATE_LEAST_SHARE 0.01

struct gate_config {
    double threshold[METRICS]; /* share of the base's median: 0.03 */
    double alpha;              /* a p below it is significant */
    char *const *allowed;      /* (n_allowed) fields that may differ (fingerprint.h) */
    int n_allowed;
};

enum gate_verdict { GATE_SAME, GATE_BETTER, GATE_REGRESSION, GATE_SMALL, GATE_FEW };

/* "same", "better", "REGRESSION", "too small to judge", "not enough repeats" */
const char *gate_verdict_str(enum gate_verdict v);

/* One metric of one cell. Numbers that are not known are NAN. */
struct gate_result {
    enum metric_id metric;
    struct stats base, new; /* .n 0: no run has it, and all else is NAN or 0 */
    double ratio;           /* of the medians, new by base */
    double low, high;       /* its 95 % bootstrap interval */
    double p;
    bool exact; /* p is of the exact distribution */
    double threshold;
    enum gate_verdict verdict;
};

/* One configuration. It is without results where fields differ or a side has no runs. */
struct gate_cell {
    char name[GATE_NAME_SIZE];    /* of a study's cell; else network, precision, mode */
    int64_t n_base, n_new;        /* runs that ended in order */
    json_t *differences;          /* object of fingerprint.h */
    char missing[GATE_TEXT_SIZE]; /* what is not there, and the way out; "": nothing */
    int n_results;
    struct gate_result result[METRICS];
};

struct gate_report {
    double alpha;
    int64_t n_cells, capacity;
    struct gate_cell *cell;                    /* (n_cells) */
    int regressions, better, same, small, few; /* verdicts over all cells */
    int refused;                               /* cells whose sides differ */
    int incomplete; /* cells with something missing, too few repeats among it */
};

/* Compares what the folders hold: runs, folders of runs, or one study on either side, cell by cell.
 * STATUS_USAGE for a study beside something else; STATUS_DATA for what cannot be read. On success
 * the caller frees with gate_report_free. */
MUST_CHECK enum status gate_compare(char *const *base, int n_base, char *const *new, int n_new,
                                    const struct gate_config *config, struct gate_report *report);
void gate_report_free(struct gate_report *report);

/* Whether everything was judged, and nothing was a regression. */
bool gate_passed(const struct gate_report *report);

#ifdef __cplusplus
}
#endif
#endif
