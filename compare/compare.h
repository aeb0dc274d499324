/* Compares the repeats of a new version with the repeats of a base version, metric by metric.
 *
 * If the runs of both sides took turns (repeats.h), a run and its neighbour in time are a pair, and
 * the ratio within pairs is tested by a signed-rank test (significance.h). The reason is that the
 * speed of a machine drifts, which changes both runs of a pair alike. Otherwise, or if there are
 * too few pairs for a p below alpha, the sides are compared without pairs, by a rank test and the
 * ratio of their medians (significance.h). Both tests are two-sided.
 *
 * Few metrics are gating; the others are informational. A regression is a gating metric that is
 * worse by more than its threshold, with a p below alpha after Hochberg's correction for all gating
 * metrics in all cells (configurations). So at most a fraction alpha of comparisons raises a false
 * alarm, for any number of metrics (Hochberg, "A sharper Bonferroni procedure for multiple tests of
 * significance", 1988). This holds for p that are independent, as of different cells, or depend
 * positively, as of the metrics of one run (Sarkar, "Some probability inequalities for ordered MTP2
 * random variables: a proof of the Simes conjecture", 1998). Passing needs no correction: each
 * interval must exclude a regression by itself, however many metrics there are.
 *
 * A comparison that cannot be judged does not pass. This is so if there are too few repeats, if
 * runs are incomplete, if one side lacks a cell, or if the sides are not compared because their
 * configuration or hardware differs. */
#pragma once

#include "compare/compare_verdict.h"

/* Compares the contents of folders: runs, folders of runs, or one study on each side, cell by cell.
 * STATUS_USAGE if a study is given together with anything else; STATUS_DATA if a folder cannot be
 * read. On success the caller frees the report with compare_report_free. */
MUST_CHECK enum status compare_compare(char *const *base, int n_base, char *const *new, int n_new,
                                       const struct compare_config *config,
                                       struct compare_report *report);

/* A rolling base: the last `most` accepted runs in the history in `dir` (history.h) that have the
 * configuration and hardware of the new runs. The new runs themselves are left out.
 *
 * If there are fewer than COMPARE_LEAST_REPEATS, report->lacking says why. With `begins`, complete
 * new runs are then not compared: they begin a base (report->begins). A missing history counts as
 * an empty one. */
struct compare_rolling {
    const char *dir;
    int64_t most;
    bool begins;
};

/* Compares new runs with a rolling base, in the same way as compare_compare. The new runs must not
 * be a study. */
MUST_CHECK enum status compare_compare_history(const struct compare_rolling *base, char *const *new,
                                               int n_new, const struct compare_config *config,
                                               struct compare_report *report);

/* Adds new runs to the history in `dir`. `accepted` says whether they may be a base. If a run is
 * incomplete or damaged, adds no run and returns STATUS_DATA. STATUS_USAGE for a study. */
MUST_CHECK enum status compare_record(const char *dir, char *const *new, int n_new, bool accepted);
