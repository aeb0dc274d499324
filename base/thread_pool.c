/* A fixed set of threads that run one function at a time. */
#include "base/thread_pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct member {
    struct thread_pool *pool;
    int number;
    bool started;
    pthread_t thread;
};

struct thread_pool {
    int n;
    pthread_mutex_t lock;
    pthread_cond_t begin, end;
    uint64_t call; /* number of the current call of thread_pool_run, from 1 */
    int running;   /* members other than the caller that have not finished this call */
    struct first_failure failure; /* first failure of this call, with its message, because the
                                   * caller cannot read the messages of other members */
    bool closing;
    enum status (*work)(void *context, int member);
    void *context;
    struct member member[];
};

void thread_pool_fail(struct thread_pool *t, enum status st)
{
    pthread_mutex_lock(&t->lock);
    first_failure_keep(&t->failure, st);
    pthread_mutex_unlock(&t->lock);
}

static void *serve(void *argument)
{
    struct member *m = argument;
    struct thread_pool *t = m->pool;
    pthread_mutex_lock(&t->lock);
    for (uint64_t seen = 0;; seen++) {
        while (t->call == seen && !t->closing)
            pthread_cond_wait(&t->begin, &t->lock);
        if (t->closing)
            break;
        pthread_mutex_unlock(&t->lock);
        enum status st = t->work(t->context, m->number);
        pthread_mutex_lock(&t->lock);
        first_failure_keep(&t->failure, st);
        if (--t->running == 0)
            pthread_cond_signal(&t->end);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

enum status thread_pool_open(int members, struct thread_pool **out)
{
    struct thread_pool *t = calloc(1, sizeof *t + (size_t)members * sizeof t->member[0]);
    *out = NULL;
    if (!t)
        return status_fail(STATUS_OOM, "no memory for %d threads", members);
    t->n = members;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->begin, NULL);
    pthread_cond_init(&t->end, NULL);
    for (int i = 1; i < members; i++) {
        struct member *m = &t->member[i];
        m->pool = t;
        m->number = i;
        if (pthread_create(&m->thread, NULL, serve, m) != 0) {
            thread_pool_close(t);
            return status_fail(STATUS_IO, "cannot start thread %d of %d", i + 1, members);
        }
        m->started = true;
    }
    *out = t;
    return STATUS_OK;
}

void thread_pool_close(struct thread_pool *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->closing = true;
    pthread_cond_broadcast(&t->begin);
    pthread_mutex_unlock(&t->lock);
    for (int i = 1; i < t->n; i++)
        if (t->member[i].started)
            pthread_join(t->member[i].thread, NULL);
    pthread_cond_destroy(&t->begin);
    pthread_cond_destroy(&t->end);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

enum status thread_pool_run(struct thread_pool *t, enum status (*work)(void *context, int member),
                            void *context)
{
    if (t->n == 1)
        return work(context, 0);
    pthread_mutex_lock(&t->lock);
    t->work = work;
    t->context = context;
    t->failure.status = STATUS_OK;
    t->running = t->n - 1;
    t->call++;
    pthread_cond_broadcast(&t->begin);
    pthread_mutex_unlock(&t->lock);

    thread_pool_fail(t, work(context, 0));

    pthread_mutex_lock(&t->lock);
    while (t->running > 0)
        pthread_cond_wait(&t->end, &t->lock);
    pthread_mutex_unlock(&t->lock);
    return first_failure_return(&t->failure);
}

enum status thread_start(pthread_t *thread, const char *what, void *(*run)(void *arg), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return status_fail(STATUS_IO, "cannot start the %s: %s", what, strerror(error));
    return STATUS_OK;
}
