/* Processes many items with several threads. */
#pragma once

#include "base/bar.h"
#include "base/status.h"

#include <stdint.h>

struct worker_job {
    int64_t total;   /* number of items; each is processed once, and they are begun in order */
    int workers;     /* threads, >= 1 */
    struct bar *bar; /* shows the number of items begun; may be NULL */
    void *context;   /* passed to the functions below; all threads share it */

    /* Each thread calls `open` (NULL: none) for its own state, and `close` at the end. */
    enum status (*open)(void *context, void **own);
    enum status (*run)(void *context, void *own, int64_t i);
    void (*close)(void *own); /* not called with NULL */
};

/* Runs the job to its end or to the first failure. Returns that failure, with its message. */
MUST_CHECK enum status workers_run(const struct worker_job *job);
