/* A suite of cases on one device: runs them within a time limit, continues after a case that ends
 * with an error, and prints the results. Used by selftest.h and determinism.h. */
#pragma once

#include "base/bar.h"
#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Settings of the suites in selftest.h and determinism.h. */
struct selftest_config {
    const char *oracle;  /* file; NULL: the built-in one */
    const char *devices; /* one: "cpu", "cuda:1" ... */
    int threads;         /* of the host; 0: all cores */
    int repeats;         /* executions of each step, for determinism.h */
    int64_t limit_s;     /* seconds for all cases together; 0: unlimited. A case is left out if less
                          * than the time of the slowest case so far is left */
    bool quick;   /* skip cases larger than 64 pixels; in determinism.h, run only the smallest
                   * network */
    bool json;    /* print one JSON object instead of lines */
    bool verbose; /* after the summary, print all cases and values, not only the failures */
    FILE *out;
    struct bar *bar; /* shows how many cases have been run; NULL: none */
};

/* A running suite. */
struct suite {
    const struct selftest_config *config;
    struct device *dev;
    json_t *report; /* the cases, if JSON is printed */
    FILE *lines;    /* text of the cases, printed after the summary */
    int ran, failed;
    int left_out; /* cases that were not run, because of the limit or of a broken device */
    struct first_failure error;
    bool broken;                           /* the device does not work after an error */
    uint64_t due_ns, begun_ns, slowest_ns; /* end of the limit (0: none), begin of the case, and
                                            * duration of the slowest case */
};

/* Whether the next case can run now. If not, counts it as left out. */
bool suite_begin_case(struct suite *s);

/* Counts a case. `st` is STATUS_OK, STATUS_MISMATCH if it failed, or an error with its message. */
void suite_end_case(struct suite *s, enum status st);

/* A function that runs, counts and reports all cases of a suite. It fails only if no case can run.
 */
typedef enum status suite_cases(struct suite *s, void *context);

/* Opens the device, calls `run`, and prints how many cases passed. Then prints the failures or, if
 * verbose, all cases. `verdict` is the verb of the first line, such as "hold". Fails with the first
 * error of a case, or with STATUS_MISMATCH if a case failed, or with STATUS_DATA if one was left
 * out. */
MUST_CHECK enum status suite_run(const struct selftest_config *config, suite_cases *run,
                                 void *context, const char *verdict);
