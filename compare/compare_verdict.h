/* The configuration of a comparison, the measurements of each cell, and the verdicts over all cells
 * together (compare.h describes the method). */
#pragma once

#include "base/stats.h"
#include "compare/repeats.h"

enum {
    COMPARE_LEAST_REPEATS = 5,
    COMPARE_RESAMPLES = 2000, /* of the bootstrap */
    COMPARE_SEED = 1,
    COMPARE_NAME_SIZE = 160,
    COMPARE_TEXT_SIZE = 640,
};

/* A part of a step that takes less than this fraction of the step on both sides is too small to
 * judge. */
#define COMPARE_LEAST_SHARE 0.01

/* Whether a metric is gating. */
enum compare_role {
    COMPARE_INFORMATIONAL, /* non-gating */
    COMPARE_OPTION,        /* gating if the base has the metric; the mean throughput: if all
                            * runs have it */
    COMPARE_DECIDES,       /* gating; a cell that lacks the metric is incomplete */
};

enum compare_pairing {
    COMPARE_PAIR_AUTO, /* runs are compared in pairs if the two sides took turns */
    COMPARE_PAIR_NEVER,
    COMPARE_PAIR_ALWAYS, /* a cell whose two sides did not take turns is incomplete */
};

struct compare_config {
    double threshold[METRICS]; /* fraction of the base's value, such as 0.03 */
    enum compare_role role[METRICS];
    enum compare_pairing pairing;
    double alpha;               /* a p below it is significant */
    const char *const *allowed; /* (n_allowed) fields that may differ (fingerprint.h) */
    int n_allowed;
};

/* A significant change beyond the threshold is COMPARE_BETTER, COMPARE_REGRESSION, or for a
 * non-gating metric COMPARE_WORSE. If there is no such change, the 95 % interval of the ratio
 * decides. The verdict is COMPARE_EQUIVALENT if the whole interval is within the threshold, by two
 * one-sided tests of 2.5 % (Schuirmann, "A comparison of the two one-sided tests procedure and the
 * power approach", 1987); COMPARE_NOT_WORSE if the interval exceeds the threshold on the better
 * side only; COMPARE_INCONCLUSIVE if the interval contains a regression beyond the threshold, or if
 * there is no interval. */
enum compare_verdict {
    COMPARE_EQUIVALENT,
    COMPARE_NOT_WORSE,
    COMPARE_INCONCLUSIVE,
    COMPARE_BETTER,
    COMPARE_WORSE,
    COMPARE_REGRESSION,
    COMPARE_SMALL,
    COMPARE_FEW,
    COMPARE_VERDICTS
};

/* Returns "equivalent", "no regression", "too small to judge" ... */
const char *compare_verdict_str(enum compare_verdict v);

/* The ratio of the new side to the base, and its significance. Numbers that are not known are
 * NAN. */
struct compare_estimate {
    bool paired;  /* estimated from pairs of neighbours in time */
    double ratio; /* median of new / median of base; for pairs, the estimate of hodges_lehmann */
    double low, high; /* 95 % interval of the ratio: by bootstrap; for pairs, from the signed-rank
                       * test */
    double p;         /* p of this metric alone, uncorrected */
    bool exact;       /* p is computed from the exact distribution */
    double least_p;   /* smallest p possible with this number of repeats */
};

/* One metric of one cell. */
struct compare_result {
    enum metric_id metric;
    struct stats base, new;        /* if .n is 0, no run of this side has the metric, and all other
                                    * members are NAN or 0 */
    struct compare_estimate is;    /* the estimate from which the verdict follows */
    struct compare_estimate sides; /* the estimate without pairs */
    bool decides;                  /* gating: counted in report.family */
    double corrected_p;            /* p corrected by Hochberg's method if gating, else p */
    double threshold;
    enum compare_verdict verdict;
    int64_t deciding_runs; /* if inconclusive: see compare_deciding_runs */
};

/* The runs of one side, in a cell or in all cells. */
struct compare_side {
    int64_t runs, disturbed; /* completed runs; of these, runs that other work disturbed
                              * (results/noise.h) */
    char commits[96];        /* "1a2b3c4, 5d6e7f8", as far as recorded */
    char hosts[96];          /* likewise; a history has none */
};

/* The comparison of one configuration. It has no results if fields of the fingerprints differ, or
 * if a side has no runs. */
struct compare_cell {
    char name[COMPARE_NAME_SIZE];    /* name of a study's cell; for other runs: network, precision
                                      * and mode */
    struct compare_side side[2];     /* base, new */
    bool turns;                      /* the runs of the two sides took turns */
    bool ended_alike;                /* all runs have the same steps and epochs, and ended for the
                                      * same reason */
    json_t *differences;             /* {field: {"base", "new"}} (fingerprint.h) */
    char missing[COMPARE_TEXT_SIZE]; /* list of missing runs and metrics; "" if there are none */
    int n_results;
    struct compare_result result[METRICS];
};

struct compare_report {
    double alpha;
    struct compare_side side[2]; /* of all cells */
    enum compare_pairing pairing;
    int64_t n_cells;
    struct compare_cell *cell;       /* (n_cells) */
    int family;                      /* number of gating results, in all cells */
    int verdicts[COMPARE_VERDICTS];  /* number of results of each verdict */
    int undecided, inconclusive;     /* numbers of gating results with COMPARE_FEW, and with
                                      * COMPARE_INCONCLUSIVE */
    int refused;                     /* number of cells whose `differences` are not empty */
    int incomplete;                  /* number of cells whose `missing` is not empty */
    char lacking[COMPARE_TEXT_SIZE]; /* why the history has no base for the new runs; "": it has
                                      * one, or there is no history */
    bool begins;                     /* the new runs were not compared, because they begin a base */
};

/* Returns about how many runs per side would decide an inconclusive result: with this number, the
 * interval excludes the threshold with a chance of 80 %, and the result can be significant alone.
 * The width of the interval is assumed to fall with the square root of the number of runs. Returns
 * COMPARE_RUNS_MANY if that many runs or more are needed, and 0 if no number decides: values of 0
 * in the base leave the ratio without an interval. */
enum { COMPARE_RUNS_MANY = 1000 };
int64_t compare_deciding_runs(const struct compare_report *report,
                              const struct compare_result *result);

/* Returns the least number of runs per side with which every gating metric alone can have a
 * corrected p below alpha. */
int64_t compare_enough_repeats(const struct compare_report *report);

/* Returns the defaults. Alpha is 0.01, and the threshold is 3 %. Gating metrics are the throughputs
 * of all steps (the mean over time, which stalls lower) and of the median step, the metrics that
 * `ampscale record` found and, if runs were validated, val_top1. The fastest step is informational:
 * on a processor with few clock rates, it depends on the highest clock rate that the run happened
 * to reach, so it varies more between runs than the other metrics. */
struct compare_config compare_defaults(void);

void compare_report_free(struct compare_report *report);

/* Whether everything was judged and there was no regression. */
bool compare_passed(const struct compare_report *report);

/* --- inside compare/ --- */

/* Adds the results of the cell's metrics, without their verdicts. Reports missing gating metrics in
 * c->missing. If c->turns, the i-th runs of both sides are neighbours in time. */
MUST_CHECK enum status judge_measure(const struct repeats *base, const struct repeats *new,
                                     const struct compare_config *config, struct compare_cell *c);

/* Sets the verdict of every result, and counts the verdicts. */
MUST_CHECK enum status judge_report(struct compare_report *report);
