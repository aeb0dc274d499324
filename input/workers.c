/* Threads that take items from a shared counter. */
#include "input/workers.h"

#include "base/thread_pool.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>

enum { PROGRESS_STEP = 64 };

struct shared {
    const struct worker_job *job;
    pthread_mutex_t lock;
    int64_t next;
    bool failed;
};

static void show_progress(const struct worker_job *job, int64_t taken)
{
    if (!job->progress || (taken % PROGRESS_STEP != 0 && taken != job->total))
        return;
    fprintf(job->progress, "\r%" PRId64 " of %" PRId64 " images%s", taken, job->total,
            taken == job->total ? "\n" : "");
    fflush(job->progress);
}

/* Records the status `st` of a thread's last item; returns the next item, or -1 if there is
 * none. */
static int64_t workers_next(struct shared *shared, enum status st)
{
    int64_t i = -1;
    pthread_mutex_lock(&shared->lock);
    shared->failed = shared->failed || st != STATUS_OK;
    if (!shared->failed && shared->next < shared->job->total) {
        i = shared->next++;
        show_progress(shared->job, shared->next);
    }
    pthread_mutex_unlock(&shared->lock);
    return i;
}

static enum status workers_main(void *context, int member)
{
    struct shared *shared = context;
    const struct worker_job *job = shared->job;
    void *own = NULL;
    enum status st = job->open(job->context, &own);
    (void)member;
    for (int64_t i; (i = workers_next(shared, st)) >= 0;)
        st = job->run(job->context, own, i);
    if (own)
        job->close(own);
    return st;
}

enum status workers_run(const struct worker_job *job)
{
    struct shared shared = {.job = job, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct thread_pool *pool;
    TRY(thread_pool_open(job->workers, &pool));
    enum status st = thread_pool_run(pool, workers_main, &shared);
    thread_pool_close(pool);
    return st;
}
