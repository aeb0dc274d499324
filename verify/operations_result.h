/* What workers found, for operations.c and operations_report.c. */
#ifndef VERIFY_OPERATIONS_RESULT_H
#define VERIFY_OPERATIONS_RESULT_H

#include "verify/operations.h"

enum { OPERATIONS_TEXT_SIZE = 400 };

/* All workers of one kind of operation. */
struct operations_kind {
    const char *name;
    bool covered; /* the device's backend has operations of the kind, and they are no fused forms */
    int cases;    /* chosen; each has a result for every form that it was run in */
    int passed, skipped, failed, findings;
    int late, crashed;               /* workers that the limit or a failure ended */
    int missing;                     /* workers without a device; or no case could run */
    double seconds;                  /* of the worker that took longest */
    char skip[OPERATIONS_TEXT_SIZE]; /* why the first was skipped */
    char
        ended[OPERATIONS_TEXT_SIZE]; /* "completed", or how the first that did not complete ended */
};

struct operations_failure {
    const char *kind;
    int number; /* of the case; -1: none had begun */
    char reason[OPERATIONS_TEXT_SIZE];
};

enum { OPERATIONS_FAILURES_MAX = 200, OPERATIONS_FAILURES_OF_KIND = 10 };

struct operations_result {
    const struct case_list *list;
    char device[256];
    struct operations_kind total, kind[OP_KIND_COUNT];
    int n_kinds;
    int n_failures; /* the first of each kind */
    struct operations_failure failure[OPERATIONS_FAILURES_MAX];
    char first_finding[OPERATIONS_TEXT_SIZE]; /* of a sanitizer; "": none */
    bool unsupported;                         /* the sanitizer cannot work on the device */
};

/* Adds what a worker's log says to its kind. *at: the case that it was at last; -1: none. */
MUST_CHECK enum status operations_read_log(struct operations_result *r, struct operations_kind *k,
                                           const char *path, int *at);

void operations_add_failure(struct operations_result *r, const struct operations_kind *k,
                            int number, const char *reason);

/* Prints all of it, as lines or JSON. */
MUST_CHECK enum status operations_report(const struct operations_config *c,
                                         const struct operations_result *r);
#endif
