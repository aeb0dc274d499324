/* Holding the repeats of a new version against those of a base, metric by metric.
 *
 * Where the runs of both sides took turns (repeats.h), a run and its neighbour in time are a pair,
 * and what is judged is the ratio within pairs, by a signed-rank test (paired.h): a machine's speed
 * drifts, and neighbours drift together. Else the sides are judged as they are, by a rank test and
 * the ratio of their medians (significance.h); so they are too where there are too few pairs to
 * come below alpha. Both tests are two-sided.
 *
 * Few metrics decide; the others are told. A regression is a metric that decides, worse by more
 * than its threshold, whose p, corrected by Holm's method for all that decide in all cells, is
 * below alpha: all verdicts together raise a false alarm in no more than a share alpha of
 * comparisons (Holm, "A simple sequentially rejective multiple test procedure", 1979).
 *
 * What cannot be judged has not passed: too few repeats, runs that did not end, a cell that one
 * side lacks, and sides of different configuration or hardware, which are not compared at all. */
#ifndef COMPARE_COMPARE_H
#define COMPARE_COMPARE_H

#include "base/stats.h"
#include "compare/metric.h"

enum {
    COMPARE_LEAST_REPEATS = 5,
    COMPARE_RESAMPLES = 2000, /* of the bootstrap */
    COMPARE_SEED = 1,
    COMPARE_NAME_SIZE = 160,
    COMPARE_TEXT_SIZE = 640,
};

/* A part of less than this share of a step, on both sides, is too small to judge. */
#define COMPARE_LEAST_SHARE 0.01

/* What a metric is to the verdict. */
enum compare_role {
    COMPARE_TOLD,    /* nothing */
    COMPARE_OPTION,  /* decides where the base has it */
    COMPARE_DECIDES, /* decides; a cell without it is incomplete */
};

enum compare_pairing {
    COMPARE_PAIR_AUTO,   /* runs that took turns are pairs */
    COMPARE_PAIR_NEVER,  /* they are not */
    COMPARE_PAIR_ALWAYS, /* and runs that did not are incomplete */
};

struct compare_config {
    double threshold[METRICS]; /* share of the base: 0.03 */
    enum compare_role role[METRICS];
    enum compare_pairing pairing;
    double alpha;         /* a p below it is significant */
    char *const *allowed; /* (n_allowed) fields that may differ (fingerprint.h) */
    int n_allowed;
};

/* COMPARE_WORSE is a regression of a metric that does not decide, COMPARE_UNCONFIRMED one that was
 * not found again (confirm.h). */
enum compare_verdict {
    COMPARE_SAME,
    COMPARE_BETTER,
    COMPARE_WORSE,
    COMPARE_REGRESSION,
    COMPARE_UNCONFIRMED,
    COMPARE_SMALL,
    COMPARE_FEW,
    COMPARE_VERDICTS
};

/* "same", "better", "worse", "REGRESSION", "not confirmed", "too small to judge", "not enough
 * repeats" */
const char *compare_verdict_str(enum compare_verdict v);

/* By how much the sides differ, and whether that is chance. Numbers that are not known are NAN. */
struct compare_estimate {
    bool paired;      /* of pairs of neighbours in time */
    double ratio;     /* new by base: of the medians; of pairs, the estimate of paired.h */
    double low, high; /* its 95 % interval: bootstrap; of pairs, the test's own */
    double p;         /* of this metric alone */
    bool exact;       /* p is of the exact distribution */
    double least_p;   /* that so many repeats can have */
};

/* One metric of one cell. */
struct compare_result {
    enum metric_id metric;
    struct stats base, new;        /* .n 0: no run has it, and all else is NAN or 0 */
    struct compare_estimate is;    /* what is judged */
    struct compare_estimate sides; /* the same without pairs */
    bool decides;                  /* as one of report.family */
    double corrected_p;            /* by Holm's method where it decides, else p */
    double threshold;
    enum compare_verdict verdict;
};

/* One configuration. It is without results where fields differ or a side has no runs. */
struct compare_cell {
    char name[COMPARE_NAME_SIZE];    /* of a study's cell; else network, precision, mode */
    int64_t n_base, n_new;           /* runs that ended in order */
    bool turns;                      /* those of either side took turns */
    bool ended_alike;                /* after as many steps and epochs, for the same reason */
    json_t *differences;             /* object of fingerprint.h */
    char missing[COMPARE_TEXT_SIZE]; /* what is not there, and the way out; "": nothing */
    int n_results;
    struct compare_result result[METRICS];
};

struct compare_report {
    double alpha;
    bool pairs_only; /* COMPARE_PAIR_ALWAYS */
    int64_t n_cells, capacity;
    struct compare_cell *cell;      /* (n_cells) */
    int family;                     /* results that decide, in all cells */
    int verdicts[COMPARE_VERDICTS]; /* how often each was given */
    int undecided;                  /* of COMPARE_FEW, those that decide */
    int refused;                    /* cells whose sides differ */
    int incomplete;                 /* cells with something missing, too few repeats among it */
};

/* Runs a side, as many on either, with which every metric that decides can come below alpha. */
int64_t compare_enough_repeats(const struct compare_report *report);

/* Alpha is 0.01, the threshold 3 %. What decides is the throughput of the median step, and val_top1
 * where runs were validated. The fastest step is told and does not decide: where a processor's
 * clock has a few speeds, it tells which of them a run has met, and runs differ by it most. */
struct compare_config compare_defaults(void);

/* Compares what the folders hold: runs, folders of runs, or one study on either side, cell by cell.
 * STATUS_USAGE for a study beside something else; STATUS_DATA for what cannot be read. On success
 * the caller frees with compare_report_free. */
MUST_CHECK enum status compare_compare(char *const *base, int n_base, char *const *new, int n_new,
                                       const struct compare_config *config,
                                       struct compare_report *report);

/* A rolling base: the last `most` accepted runs in the history in `dir` (history.h) that are of the
 * configuration and hardware of the new runs and none of them, nor of others that are left out. */
struct compare_rolling {
    const char *dir;
    int64_t most;
    char *const *without; /* (n_without) folders of those others */
    int n_without;
};

/* The same against a rolling base. The new runs are no study. */
MUST_CHECK enum status compare_compare_history(const struct compare_rolling *base, char *const *new,
                                               int n_new, const struct compare_config *config,
                                               struct compare_report *report);

/* Adds new runs to the history in `dir`, as ones that may be a base, or may not. Nothing is added
 * unless all of them ended in order. STATUS_USAGE for a study. */
MUST_CHECK enum status compare_record(const char *dir, char *const *new, int n_new, bool accepted);

void compare_report_free(struct compare_report *report);

/* Whether everything was judged, and nothing was a regression. */
bool compare_passed(const struct compare_report *report);
#endif
