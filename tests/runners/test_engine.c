/* Engines of several devices and of several ranks, all in this process: gradients against those of
 * networks of one's own, and damage to a replica. The thread sanitizer sees all of it. */
#include "engine_exercise.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { RANKS = 2 };

struct rank {
    pthread_t thread;
    struct comm *comm;
    const struct engine_case *engine;
    int bad_rank, bad_device; /* where something is damaged; -1: gradients are looked at */
    enum damage what;
    bool failed;
};

static void *run_rank(void *context)
{
    struct rank *r = context;
    enum status st = r->bad_rank < 0
                         ? exercise_gradients(r->comm, r->engine)
                         : exercise_damage(r->comm, r->engine, r->bad_rank, r->bad_device, r->what);
    r->failed = st != STATUS_OK;
    if (r->failed) {
        fprintf(stderr, "rank %d: %s\n", comm_rank(r->comm), status_message());
        comm_fail(r->comm, st, status_message());
    }
    return NULL;
}

/* Runs `n` threads as ranks; the first is this one. */
static void run_ranks(int n, const struct rank *what)
{
    struct rank rank[RANKS];
    struct comm *comm[RANKS];
    assert_int_equal(comm_open_local(n, 60, comm), STATUS_OK);
    for (int i = 0; i < n; i++) {
        rank[i] = *what;
        rank[i].comm = comm[i];
        if (i > 0)
            assert_int_equal(pthread_create(&rank[i].thread, NULL, run_rank, &rank[i]), 0);
    }
    run_rank(&rank[0]);
    for (int i = 1; i < n; i++)
        pthread_join(rank[i].thread, NULL);
    for (int i = 0; i < n; i++) {
        comm_close(comm[i]);
        assert_false(rank[i].failed);
    }
}

static void gradients_are(int ranks, const char *devices, enum dp_reduce reduce)
{
    const struct engine_case even = {devices, reduce, false, 6},
                             uneven = {devices, reduce, true, 5};
    run_ranks(ranks, &(struct rank){.engine = &even, .bad_rank = -1});
    run_ranks(ranks, &(struct rank){.engine = &uneven, .bad_rank = -1});
}

static void damage_is_seen(int ranks, const char *devices, enum dp_reduce reduce, int rank,
                           int device, enum damage what)
{
    const struct engine_case c = {devices, reduce, false, 2};
    run_ranks(ranks,
              &(struct rank){.engine = &c, .bad_rank = rank, .bad_device = device, .what = what});
}

static void one_device_after_batches(void **state)
{
    (void)state;
    gradients_are(1, "ref", DP_CENTRAL);
}

static void dp(void **state)
{
    (void)state;
    gradients_are(1, "ref:2", DP_CENTRAL);
    gradients_are(1, "ref:3", DP_ALL);
    damage_is_seen(1, "ref:2", DP_ALL, 0, 1, DAMAGE_WEIGHT);
}

static void ddp(void **state)
{
    (void)state;
    gradients_are(2, "ref", DP_CENTRAL);
    for (int what = 0; what < DAMAGE_COUNT; what++)
        damage_is_seen(2, "ref", DP_CENTRAL, 1, 0, (enum damage)what);
}

static void ddp2(void **state)
{
    (void)state;
    gradients_are(2, "ref:2", DP_CENTRAL);
    gradients_are(2, "ref:2", DP_ALL);
    damage_is_seen(2, "ref:2", DP_CENTRAL, 1, 0, DAMAGE_WEIGHT);
    damage_is_seen(2, "ref:2", DP_ALL, 0, 1, DAMAGE_WEIGHT);
    damage_is_seen(2, "ref:2", DP_ALL, 1, 1, DAMAGE_MOMENTUM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_device_after_batches),
        cmocka_unit_test(dp),
        cmocka_unit_test(ddp),
        cmocka_unit_test(ddp2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
