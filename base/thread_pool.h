/* Threads that run one function together; each thread is a member of the pool. */
#pragma once

#include "base/status.h"

#include <pthread.h>

struct thread_pool;

/* Opens a pool of `members` >= 1. Member 0 is the thread that calls thread_pool_run; the pool
 * starts one thread for each other member. */
MUST_CHECK enum status thread_pool_open(int members, struct thread_pool **pool);
void thread_pool_close(struct thread_pool *pool); /* NULL is fine */

/* Runs work(context, member) for every member, each member always on the same thread. Returns when
 * all members are done: STATUS_OK, or the failure that occurred first, with its message. */
MUST_CHECK enum status thread_pool_run(struct thread_pool *pool,
                                       enum status (*work)(void *context, int member),
                                       void *context);

/* Records `st` as the first failure, if no failure is recorded yet. A member whose work fails calls
 * this function before it wakes other members: their work then fails too, but their failures must
 * not be recorded as the first failure. */
void thread_pool_fail(struct thread_pool *pool, enum status st);

/* Starts a thread that runs run(arg). It and the threads that it starts block all signals, so
 * that the caller's threads receive them. `what` is for the message: "communication thread". */
MUST_CHECK enum status thread_start(pthread_t *thread, const char *what, void *(*run)(void *arg),
                                    void *arg);
