/* Comparing the repeats of a new version with those of a base version, metric by metric.
 *
 * If the runs of both sides took turns (repeats.h), a run and its neighbour in time are a pair, and
 * the ratio within pairs is tested by a signed-rank test (paired.h): the speed of a machine drifts,
 * and neighbours drift together. Otherwise, or if there are too few pairs for a p below alpha, the
 * sides are compared without pairs, by a rank test and the ratio of their medians (significance.h).
 * Both tests are two-sided.
 *
 * Few metrics are gating; the others are informational. A regression is a gating metric that is
 * worse by more than its threshold, with a p below alpha after Holm's correction for all gating
 * metrics in all cells. So at most a fraction alpha of comparisons raises a false alarm, for any
 * number of metrics (Holm, "A simple sequentially rejective multiple test procedure", 1979).
 *
 * A comparison that cannot be judged has not passed: it has too few repeats, incomplete runs, or a
 * cell that one side lacks, or its sides differ in configuration or hardware and are not
 * compared. */
#pragma once

#include "compare/compare_verdict.h"

/* Compares the contents of folders: runs, folders of runs, or one study on each side, cell by cell.
 * STATUS_USAGE for a study together with anything else; STATUS_DATA for folders that cannot be
 * read. On success the caller frees with compare_report_free. */
MUST_CHECK enum status compare_compare(char *const *base, int n_base, char *const *new, int n_new,
                                       const struct compare_config *config,
                                       struct compare_report *report);

/* A rolling base: the last `most` accepted runs in the history in `dir` (history.h) with the
 * configuration and hardware of the new runs; without the new runs and those in `without`. */
struct compare_rolling {
    const char *dir;
    int64_t most;
    char *const *without; /* (n_without) folders of runs to leave out */
    int n_without;
};

/* Compares new runs with a rolling base, otherwise as compare_compare does. The new runs must not
 * be a study. */
MUST_CHECK enum status compare_compare_history(const struct compare_rolling *base, char *const *new,
                                               int n_new, const struct compare_config *config,
                                               struct compare_report *report);

/* Adds new runs to the history in `dir`; `accepted`: they may be a base. If one of them is
 * incomplete or damaged, nothing is added: STATUS_DATA. STATUS_USAGE for a study. */
MUST_CHECK enum status compare_record(const char *dir, char *const *new, int n_new, bool accepted);
