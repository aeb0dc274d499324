/* Tests thread pools. */
#include "base/thread_pool.h"
#include "tests/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MEMBERS = 4, CALLS = 200 };

struct tally {
    pthread_t thread[MEMBERS];
    int calls[MEMBERS];
    int fails; /* the thread that fails; -1: none */
    pthread_barrier_t all;
};

static enum status work(void *context, int member)
{
    struct tally *t = context;
    if (t->calls[member] == 0)
        t->thread[member] = pthread_self();
    if (!pthread_equal(t->thread[member], pthread_self()))
        return status_fail(STATUS_MISMATCH, "member %d changed its thread", member);
    t->calls[member]++;
    pthread_barrier_wait(&t->all); /* returns only when all threads have reached this line */
    return member == t->fails ? status_fail(STATUS_DATA, "member %d fails", member) : STATUS_OK;
}

static void members_work_together(void **state)
{
    struct thread_pool *pool;
    struct tally t = {.fails = -1};
    pthread_barrier_init(&t.all, NULL, MEMBERS);
    assert_int_equal(thread_pool_open(MEMBERS, &pool), STATUS_OK);
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(thread_pool_run(pool, work, &t), STATUS_OK);
    for (int i = 0; i < MEMBERS; i++)
        assert_int_equal(t.calls[i], CALLS);
    assert_true(pthread_equal(t.thread[0], pthread_self()));
    for (t.fails = 0; t.fails < MEMBERS; t.fails++) {
        char message[32];
        snprintf(message, sizeof message, "member %d fails", t.fails);
        assert_int_equal(thread_pool_run(pool, work, &t), STATUS_DATA);
        assert_string_equal(status_message(), message);
    }
    t.fails = -1;
    /* the failure of one call does not affect the next call */
    assert_int_equal(thread_pool_run(pool, work, &t), STATUS_OK);
    thread_pool_close(pool);
    pthread_barrier_destroy(&t.all);
}

struct domino {
    struct thread_pool *pool;
    pthread_barrier_t all;
};

/* Thread 2 stores its failure before any other thread fails. */
static enum status fall(void *context, int member)
{
    struct domino *d = context;
    if (member == 2)
        thread_pool_fail(d->pool, status_fail(STATUS_DATA, "the cause"));
    pthread_barrier_wait(&d->all);
    return status_fail(STATUS_LIBRARY, "what came of it");
}

static void the_first_failure_is_reported(void **state)
{
    struct domino d;
    pthread_barrier_init(&d.all, NULL, MEMBERS);
    assert_int_equal(thread_pool_open(MEMBERS, &d.pool), STATUS_OK);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(thread_pool_run(d.pool, fall, &d), STATUS_DATA);
        assert_string_equal(status_message(), "the cause");
    }
    thread_pool_close(d.pool);
    pthread_barrier_destroy(&d.all);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_work_together),
        cmocka_unit_test(the_first_failure_is_reported),
    };
    return cmocka_run_group_tests_name("thread_pool", tests, NULL, NULL);
}
