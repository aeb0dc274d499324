/* Threads that run one function at a time together, a member each. */
#ifndef BASE_THREAD_POOL_H
#define BASE_THREAD_POOL_H

#include "base/status.h"

struct thread_pool;

/* `members` >= 1; member 0 is the caller of thread_pool_run, so that a pool of one starts no
 * thread. */
MUST_CHECK enum status thread_pool_open(int members, struct thread_pool **pool);
void thread_pool_close(struct thread_pool *pool); /* NULL is fine */

/* Runs work(context, member) for every member, each always on the same thread, and returns when
 * all are done: the failure that came first, with its message. */
MUST_CHECK enum status thread_pool_run(struct thread_pool *pool,
                                       enum status (*work)(void *context, int member),
                                       void *context);

/* For work that is about to fail with `st` and has others fail for its sake, before it tells them:
 * its own failure comes first. */
void thread_pool_fail(struct thread_pool *pool, enum status st);

#endif
