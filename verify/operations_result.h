/* The results of workers, for operations.c and operations_report.c. */
#pragma once

#include "verify/operations.h"

enum { OPERATIONS_TEXT_SIZE = 400 };

/* The results for one kind of operation, over all workers. */
struct operations_kind {
    const char *name;
    bool covered; /* the device's backend has operations of the kind, and they are not fused */
    int cases;    /* number of selected cases; each case has one result per form */
    int passed, skipped, failed, findings;
    int oom;           /* of `failed`: cases for which memory ran out */
    int late, crashed; /* number of workers ended by the time limit, and by a failure */
    int missing;       /* number of workers without a device, plus 1 if no case could run */
    double seconds;    /* of the slowest worker */
    char skip[OPERATIONS_TEXT_SIZE]; /* why the first skipped case was skipped */
    /* "completed", or how the first worker that failed ended. */
    char ended[OPERATIONS_TEXT_SIZE];
};

struct operations_failure {
    const char *kind;
    int number; /* number of the case; -1: no case had begun */
    char reason[OPERATIONS_TEXT_SIZE];
};

enum { OPERATIONS_FAILURES_MAX = 200, OPERATIONS_FAILURES_OF_KIND = 10 };

struct operations_result {
    const struct case_list *list;
    char device[256];
    struct operations_kind total, kind[OP_KIND_COUNT];
    int n_kinds;
    int n_failures; /* number of failures, at most OPERATIONS_FAILURES_OF_KIND of each kind */
    struct operations_failure failure[OPERATIONS_FAILURES_MAX];
    char first_finding[OPERATIONS_TEXT_SIZE]; /* of a sanitizer; "": none */
    bool unsupported;                         /* the sanitizer does not support the device */
};

/* How far a worker came. */
struct operations_progress {
    int at;    /* the last case that began; -1: none */
    bool done; /* no case is left */
};

/* Adds the results in a worker's log to `k`. */
MUST_CHECK enum status operations_read_log(struct operations_result *r, struct operations_kind *k,
                                           const char *path, struct operations_progress *progress);

void operations_add_failure(struct operations_result *r, const struct operations_kind *k,
                            int number, const char *reason);

/* Prints all results, as lines or as JSON. */
void operations_report(const struct operations_config *c, const struct operations_result *r);
