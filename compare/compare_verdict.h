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
    COMPARE_OPTION,        /* gating, if the base has it */
    COMPARE_DECIDES,       /* gating; a cell that lacks the metric is incomplete */
};

enum compare_pairing {
    COMPARE_PAIR_AUTO,   /* runs are compared in pairs if the two sides alternated in time */
    COMPARE_PAIR_NEVER,  /* runs are never pairs */
    COMPARE_PAIR_ALWAYS, /* runs are compared in pairs; a cell whose two sides did not alternate is
                          * incomplete */
};

struct compare_config {
    double threshold[METRICS]; /* share of the base: 0.03 */
    enum compare_role role[METRICS];
    enum compare_pairing pairing;
    double alpha;               /* a p below it is significant */
    const char *const *allowed; /* (n_allowed) fields that may differ (fingerprint.h) */
    int n_allowed;
};

/* A significant change beyond the threshold is COMPARE_BETTER, COMPARE_REGRESSION, or for a
 * non-gating metric COMPARE_WORSE. Without one the 95 % interval of the ratio decides:
 * COMPARE_EQUIVALENT if all of it is within the threshold, by two one-sided tests of 2.5 %
 * (Schuirmann, "A comparison of the two one-sided tests procedure and the power approach", 1987);
 * COMPARE_NOT_WORSE if it exceeds the threshold on the better side only; COMPARE_INCONCLUSIVE if it
 * contains a regression beyond the threshold, or if it is not known. COMPARE_UNCONFIRMED is a
 * regression that the second measurement did not find (compare_confirm.h). */
enum compare_verdict {
    COMPARE_EQUIVALENT,
    COMPARE_NOT_WORSE,
    COMPARE_INCONCLUSIVE,
    COMPARE_BETTER,
    COMPARE_WORSE,
    COMPARE_REGRESSION,
    COMPARE_UNCONFIRMED,
    COMPARE_SMALL,
    COMPARE_FEW,
    COMPARE_VERDICTS
};

/* "equivalent", "no regression", "inconclusive", "better", "worse", "REGRESSION", "not confirmed",
 * "too small to judge", "not enough repeats" */
const char *compare_verdict_str(enum compare_verdict v);

/* The ratio of the sides, and its significance. Numbers that are not known are NAN. */
struct compare_estimate {
    bool paired;      /* estimated from pairs of neighbours in time */
    double ratio;     /* new / base of the medians; for pairs, the estimate of paired.h */
    double low, high; /* its 95 % interval: bootstrap; for pairs, the test's own */
    double p;         /* p of this metric alone, not corrected */
    bool exact;       /* p is computed from the exact distribution */
    double least_p;   /* smallest p possible with this number of repeats */
};

/* One metric of one cell. */
struct compare_result {
    enum metric_id metric;
    struct stats base, new;        /* .n 0: no run has the metric, and all other members are NAN or
                                    * 0 */
    struct compare_estimate is;    /* the estimate that is judged */
    struct compare_estimate sides; /* the estimate without pairs */
    bool decides;                  /* gating: one of report.family */
    double corrected_p;            /* p corrected by Holm's method if gating, else p */
    double threshold;
    enum compare_verdict verdict;
};

/* One configuration. It has no results if fields differ or a side has no runs. */
struct compare_cell {
    char name[COMPARE_NAME_SIZE]; /* name of a study's cell; for other runs network, precision,
                                   * mode */
    int64_t n_base, n_new;        /* completed runs */
    int64_t disturbed_base, disturbed_new; /* of these, by other work (results/noise.h) */
    bool never;                      /* compared without pairs, whether they took turns or not */
    bool turns;                      /* the runs of the two sides alternate in time */
    bool ended_alike;                /* all runs have the same steps and epochs, and ended for the
                                      * same reason */
    json_t *differences;             /* {field: {"base", "new"}} (fingerprint.h) */
    char missing[COMPARE_TEXT_SIZE]; /* list of missing runs and metrics; "": nothing */
    int n_results;
    struct compare_result result[METRICS];
};

struct compare_report {
    double alpha;
    bool pairs_only; /* COMPARE_PAIR_ALWAYS */
    int64_t n_cells;
    struct compare_cell *cell;      /* (n_cells) */
    int family;                     /* number of gating results, in all cells */
    int verdicts[COMPARE_VERDICTS]; /* number of results of each verdict */
    int undecided;                  /* number of gating results with COMPARE_FEW */
    int inconclusive;               /* number of gating results with COMPARE_INCONCLUSIVE */
    int refused;                    /* number of cells that were not compared, because their sides
                                     * differ in a field */
    int incomplete;                 /* number of cells with `missing` not empty */
};

/* About how many runs per side would decide an inconclusive result. The width of the interval falls
 * with the square root of their number; with these runs it excludes the threshold with a chance of
 * 80 %. COMPARE_RUNS_MANY if that many or more are needed. */
enum { COMPARE_RUNS_MANY = 1000 };
int64_t compare_deciding_runs(const struct compare_result *result);

/* The first gating result that is inconclusive, and its cell; NULL: there is none. */
const struct compare_result *compare_first_inconclusive(const struct compare_report *report,
                                                        const struct compare_cell **cell);

/* The least number of runs per side with which every gating metric can have a p below alpha. */
int64_t compare_enough_repeats(const struct compare_report *report);

/* Alpha is 0.01, the threshold 3 %. Gating metrics are the throughput of the median step, and
 * val_top1 if runs were validated. The fastest step is informational: on a processor with few clock
 * rates it shows the highest rate that the run reached, so it differs most between runs. */
struct compare_config compare_defaults(void);

void compare_report_free(struct compare_report *report);

/* Whether everything was judged, and nothing was a regression. */
bool compare_passed(const struct compare_report *report);

/* --- inside compare/ --- */

/* Adds the results of the cell's metrics, without their verdicts; missing gating metrics are
 * reported in c->missing. If c->turns, the i-th runs of both sides are neighbours in time. */
MUST_CHECK enum status judge_measure(const struct repeats *base, const struct repeats *new,
                                     const struct compare_config *config, struct compare_cell *c);

/* Gives every result its verdict, and counts them. */
MUST_CHECK enum status judge_report(struct compare_report *report);
