/* Threads that take items from a shared counter. */
#include "input/workers.h"

#include "base/thread_pool.h"

#include <pthread.h>
#include <stdbool.h>

struct shared {
    const struct worker_job *job;
    pthread_mutex_t lock;
    int64_t next;
    bool failed;
};

/* Records the status `st` of the item that a thread has just finished. Returns the thread's next
 * item, or -1 if no item is left. */
static int64_t workers_next(struct shared *shared, enum status st)
{
    int64_t i = -1;
    pthread_mutex_lock(&shared->lock);
    shared->failed = shared->failed || st != STATUS_OK;
    if (!shared->failed && shared->next < shared->job->total) {
        i = shared->next++;
        bar_step(shared->job->bar);
    }
    pthread_mutex_unlock(&shared->lock);
    return i;
}

static enum status workers_main(void *context, int member)
{
    struct shared *shared = context;
    const struct worker_job *job = shared->job;
    void *own = NULL;
    enum status st = job->open ? job->open(job->context, &own) : STATUS_OK;
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
    bar_begin(job->bar, job->total);
    enum status st = thread_pool_run(pool, workers_main, &shared);
    thread_pool_close(pool);
    bar_erase(job->bar);
    return st;
}
