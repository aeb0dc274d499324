/* The same work on many things, by several threads. */
#ifndef INPUT_WORKERS_H
#define INPUT_WORKERS_H

#include "base/status.h"

#include <stdint.h>
#include <stdio.h>

struct worker_job {
    int64_t total;  /* things, numbered from 0; each is taken once, in order */
    int workers;    /* threads, >= 1 */
    FILE *progress; /* "n of total images", drawn again and again; NULL for none */
    void *context;  /* given to the functions below, and shared */

    /* Each thread opens what it works with and closes it again. */
    enum status (*open)(void *context, void **own);
    enum status (*run)(void *context, void *own, int64_t i);
    void (*close)(void *own); /* not called with NULL */
};

/* Runs the job to its end, or to the first failure, which it returns with its message. */
MUST_CHECK enum status workers_run(const struct worker_job *job);
#endif
