/* Tests engines of several devices and several ranks, all in this process. Gradients must equal
 * those of separate networks, and the engine must detect a damaged replica. The thread sanitizer
 * checks all threads. */
#include "engine_exercise.h"

#include "tests/kernels/stream_backend.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 3 };

struct rank {
    pthread_t thread;
    struct comm *comm;
    const struct engine_case *engine;
    int bad_rank, bad_device; /* damaged rank and device; -1: no damage */
    enum damage what;
    uint64_t *digest; /* NULL: do not compute a hash of the weights */
    bool average;     /* check the momentum instead of the gradients */
    bool failed;
};

/* Engines find devices by name. In this test, the name "stream" finds an asynchronous device. */
enum status __real_backend_find(const char *name, const struct backend **b);
enum status __wrap_backend_find(const char *name, const struct backend **b);

static struct stream_backend streams; /* only __wrap_backend_find returns it */

enum status __wrap_backend_find(const char *name, const struct backend **b)
{
    if (strcmp(name, "stream") != 0)
        return __real_backend_find(name, b);
    *b = &streams.base;
    return STATUS_OK;
}

static void *run_rank(void *context)
{
    struct rank *r = context;
    enum status st = r->average ? exercise_average(r->comm, r->engine)
                     : r->digest
                         ? exercise_digest(r->comm, r->engine, r->digest + comm_rank(r->comm))
                     : r->bad_rank < 0
                         ? exercise_gradients(r->comm, r->engine)
                         : exercise_damage(r->comm, r->engine, r->bad_rank, r->bad_device, r->what);
    r->failed = st != STATUS_OK;
    if (r->failed) {
        fprintf(stderr, "rank %d: %s\n", comm_rank(r->comm), status_message());
        comm_fail(r->comm, st, status_message());
    }
    return NULL;
}

/* Runs `n` ranks: rank 0 on the calling thread, and the other ranks on new threads. */
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
                             uneven = {devices, reduce, true, 5},
                             mixed = {devices, reduce, true, 6, .mixes = true},
                             mixed_uneven = {devices, reduce, false, 5, .mixes = true};
    run_ranks(ranks, &(struct rank){.engine = &even, .bad_rank = -1});
    run_ranks(ranks, &(struct rank){.engine = &uneven, .bad_rank = -1});
    run_ranks(ranks, &(struct rank){.engine = &mixed, .bad_rank = -1});
    run_ranks(ranks, &(struct rank){.engine = &mixed_uneven, .bad_rank = -1});
}

static void damage_is_seen(int ranks, const char *devices, enum dp_reduce reduce, int rank,
                           int device, enum damage what)
{
    const struct engine_case c = {devices, reduce, false, 2};
    run_ranks(ranks,
              &(struct rank){.engine = &c, .bad_rank = rank, .bad_device = device, .what = what});
}

/* The mode and the compression determine at which point gradients are divided by the number of
 * ranks, by the number of micro-batches and by the loss scale. The mean must not depend on that
 * point. */
static void averages_are_exact(void **state)
{
    static const enum dtype sent[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++)
        for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
            const struct engine_case c = {"ref", DP_CENTRAL, ranks == 2, 6, sent[i]};
            run_ranks(ranks, &(struct rank){.engine = &c, .average = true});
        }
    for (int i = 0; i < 4; i++) {
        const struct engine_case dp = {i < 2 ? "ref:2" : "ref:3", i % 2 ? DP_ALL : DP_CENTRAL,
                                       i < 2, 6};
        run_ranks(1, &(struct rank){.engine = &dp, .average = true});
    }
    for (int i = 0; i < 2; i++) {
        const struct engine_case ddp2 = {"ref:2", i ? DP_ALL : DP_CENTRAL, false, 6};
        run_ranks(2, &(struct rank){.engine = &ddp2, .average = true});
    }
}

static void averages_of_streams_are_exact(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 3; ranks++)
        for (int compressed = 0; compressed < 2; compressed++) {
            const struct engine_case c = {"stream", DP_CENTRAL, false, 6,
                                          compressed ? DTYPE_F16 : DTYPE_F32};
            run_ranks(ranks, &(struct rank){.engine = &c, .average = true});
        }
    const struct engine_case all = {"stream:3", DP_ALL, false, 6};
    run_ranks(1, &(struct rank){.engine = &all, .average = true});
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

/* --- asynchronous devices --- */

/* Asynchronous devices and the reference device must train weights with the same bits. */
static void bits_are_the_same(int ranks, int devices, struct engine_case c)
{
    char name[2][16];
    uint64_t digest[2][RANKS] = {{0}};
    snprintf(name[0], sizeof name[0], "ref:%d", devices);
    snprintf(name[1], sizeof name[1], "stream:%d", devices);
    for (int i = 0; i < 2; i++) {
        c.devices = name[i];
        run_ranks(ranks, &(struct rank){.engine = &c, .bad_rank = -1, .digest = digest[i]});
    }
    for (int i = 0; i < ranks; i++) {
        assert_true(digest[0][i] != 0);
        assert_int_equal(digest[0][i], digest[1][i]);
    }
}

static void ddp_asynchronous(void **state)
{
    (void)state;
    gradients_are(2, "stream", DP_CENTRAL);
    damage_is_seen(2, "stream", DP_CENTRAL, 1, 0, DAMAGE_WEIGHT);
    bits_are_the_same(2, 1, (struct engine_case){.rows = 4});
    bits_are_the_same(2, 1, (struct engine_case){.rows = 4, .accumulate = true});
    bits_are_the_same(2, 1, (struct engine_case){.rows = 4, .compress = DTYPE_BF16});
    bits_are_the_same(2, 1, (struct engine_case){.rows = 4, .accumulate = true, .mixes = true});
}

static void dp_asynchronous(void **state)
{
    (void)state;
    gradients_are(1, "stream:2", DP_ALL);
    damage_is_seen(1, "stream:2", DP_ALL, 0, 1, DAMAGE_WEIGHT);
    bits_are_the_same(1, 2, (struct engine_case){.rows = 4, .reduce = DP_CENTRAL});
    bits_are_the_same(1, 2, (struct engine_case){.rows = 4, .reduce = DP_ALL});
    bits_are_the_same(1, 2, (struct engine_case){.rows = 4, .reduce = DP_CENTRAL, .mixes = true});
}

static void ddp2_asynchronous(void **state)
{
    (void)state;
    bits_are_the_same(2, 2, (struct engine_case){.rows = 4, .reduce = DP_CENTRAL});
    bits_are_the_same(2, 2, (struct engine_case){.rows = 4, .reduce = DP_ALL});
    damage_is_seen(2, "stream:2", DP_ALL, 1, 1, DAMAGE_MOMENTUM);
}

int main(void)
{
    stream_backend_make(&streams);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_device_after_batches),
        cmocka_unit_test(averages_are_exact),
        cmocka_unit_test(averages_of_streams_are_exact),
        cmocka_unit_test(dp),
        cmocka_unit_test(ddp),
        cmocka_unit_test(ddp2),
        cmocka_unit_test(ddp_asynchronous),
        cmocka_unit_test(dp_asynchronous),
        cmocka_unit_test(ddp2_asynchronous),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
