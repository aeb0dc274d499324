/* Tests engines of several devices and several ranks, all in this process. Gradients must equal
 * those of separate networks, and the engine must detect a damaged replica. The thread sanitizer
 * checks all threads. */
#include "engine_exercise.h"

#include "tests/kernels/stream_backend.h"
#include "tests/unit.h"

#include <pthread.h>
#include <stdio.h>

enum { RANKS = 3 };

static struct stream_backend streams; /* asynchronous devices */

enum check { CHECK_AVERAGE, CHECK_DAMAGE, CHECK_BITS };

struct rank {
    pthread_t thread;
    struct comm *comm;
    enum check check;
    struct engine_case engine;
    int bad_rank, bad_device; /* damaged rank and device */
    enum damage what;
    uint64_t *digest; /* of each rank's weights */
    bool failed;
};

static enum status check_rank(const struct rank *r)
{
    switch (r->check) {
    case CHECK_AVERAGE:
        return exercise_average(r->comm, &r->engine);
    case CHECK_DAMAGE:
        return exercise_damage(r->comm, &r->engine, r->bad_rank, r->bad_device, r->what);
    default:
        return exercise_digest(r->comm, &r->engine, r->digest + comm_rank(r->comm));
    }
}

static void *run_rank(void *context)
{
    struct rank *r = context;
    enum status st = check_rank(r);
    r->failed = st != STATUS_OK;
    if (r->failed) {
        fprintf(stderr, "rank %d: %s\n", comm_rank(r->comm), status_message());
        comm_fail(r->comm, st, status_message());
    }
    return NULL;
}

/* Runs `n` ranks: rank 0 on the calling thread, and the other ranks on new threads. */
static void run_ranks(int n, struct rank what, bool asynchronous)
{
    struct rank rank[RANKS];
    struct comm *comm[RANKS];
    what.engine.backend = asynchronous ? &streams.base : NULL;
    assert_int_equal(comm_open_local(n, 60, comm), STATUS_OK);
    for (int i = 0; i < n; i++) {
        rank[i] = what;
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

/* Even and uneven parts, with and without two micro-batches and mixup; with one device per rank,
 * also compressed gradients. The mode and the compression determine at which point gradients are
 * divided by the number of ranks, by the number of micro-batches and by the loss scale. The mean
 * must not depend on that point. */
static void batches_are_averaged(void **state)
{
    static const struct {
        int ranks;
        bool asynchronous;
        const char *devices;
        enum dp_reduce reduce;
    } cases[] = {
        {1, false, "ref", DP_CENTRAL}, {1, false, "ref:2", DP_CENTRAL}, {1, false, "ref:3", DP_ALL},
        {2, false, "ref", DP_CENTRAL}, {2, false, "ref:2", DP_CENTRAL}, {2, false, "ref:2", DP_ALL},
        {3, true, "ref", DP_CENTRAL},  {1, true, "ref:2", DP_ALL},
    };
    static const enum dtype sent[] = {DTYPE_F32, DTYPE_F32, DTYPE_F32,
                                      DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int form = 0; form < (cases[i].devices[3] ? 4 : 6); form++) {
            const struct engine_case c = {.devices = cases[i].devices,
                                          .reduce = cases[i].reduce,
                                          .accumulate = form == 1 || form == 2 || form == 4,
                                          .rows = form % 2 ? 5 : 6,
                                          .compress = sent[form],
                                          .mixes = form == 2 || form == 3};
            run_ranks(cases[i].ranks, (struct rank){.check = CHECK_AVERAGE, .engine = c},
                      cases[i].asynchronous);
        }
}

/* A micro-batch without a valid image has the gradient 0 and changes no running statistics. In a
 * step without any valid image, nothing changes: on one rank without accumulation, weights and
 * momentum are compared too. */
static void batches_without_images(void **state)
{
    static const struct {
        int ranks;
        bool asynchronous;
        enum check check;
        struct engine_case c;
    } cases[] = {
        {1, false, CHECK_BITS, {"ref", DP_CENTRAL, false, 4}},
        {1, true, CHECK_BITS, {"ref", DP_CENTRAL, false, 4}},
        {1, false, CHECK_BITS, {"ref:2", DP_CENTRAL, false, 4}},
        {1, true, CHECK_BITS, {"ref:2", DP_ALL, false, 4}},
        {1, false, CHECK_AVERAGE, {"ref", DP_CENTRAL, true, 4}},
        {1, false, CHECK_AVERAGE, {"ref:2", DP_CENTRAL, true, 4, .mixes = true}},
        {2, false, CHECK_AVERAGE, {"ref", DP_CENTRAL, false, 4}},
        {2, true, CHECK_AVERAGE, {"ref", DP_CENTRAL, true, 4, DTYPE_BF16}},
        {2, false, CHECK_AVERAGE, {"ref:2", DP_CENTRAL, false, 4}},
        {2, true, CHECK_AVERAGE, {"ref:2", DP_ALL, false, 4}},
        {3, true, CHECK_AVERAGE, {"ref", DP_CENTRAL, false, 4}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t digest[RANKS];
        struct rank r = {.check = cases[i].check, .engine = cases[i].c, .digest = digest};
        r.engine.blank = true;
        run_ranks(cases[i].ranks, r, cases[i].asynchronous);
    }
}

static void damage_is_seen(void **state)
{
    static const struct {
        int ranks;
        bool asynchronous;
        const char *devices;
        enum dp_reduce reduce;
        int rank, device;
        enum damage what;
    } cases[] = {
        {1, false, "ref:2", DP_ALL, 0, 1, DAMAGE_WEIGHT},
        {2, false, "ref", DP_CENTRAL, 1, 0, DAMAGE_WEIGHT},
        {2, false, "ref", DP_CENTRAL, 1, 0, DAMAGE_MOMENTUM},
        {2, false, "ref", DP_CENTRAL, 1, 0, DAMAGE_STATISTICS},
        {2, false, "ref", DP_CENTRAL, 1, 0, DAMAGE_GRADIENT},
        {2, false, "ref:2", DP_CENTRAL, 1, 0, DAMAGE_WEIGHT},
        {2, false, "ref:2", DP_ALL, 0, 1, DAMAGE_WEIGHT},
        {2, true, "ref", DP_CENTRAL, 1, 0, DAMAGE_WEIGHT},
        {2, true, "ref:2", DP_ALL, 1, 1, DAMAGE_MOMENTUM},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run_ranks(cases[i].ranks,
                  (struct rank){.check = CHECK_DAMAGE,
                                .engine = {cases[i].devices, cases[i].reduce, false, 2},
                                .bad_rank = cases[i].rank,
                                .bad_device = cases[i].device,
                                .what = cases[i].what},
                  cases[i].asynchronous);
}

/* With synchronised batch norm, a rank without a valid image adds nothing to the statistics: the
 * weights do not depend on its pixels. */
static void blank_images_are_not_in_statistics(void **state)
{
    static const struct {
        bool asynchronous;
        const char *devices;
    } cases[] = {{false, "ref"}, {true, "ref"}, {false, "ref:2"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t digest[2][RANKS] = {{0}};
        for (int k = 0; k < 2; k++) {
            struct rank r = {.check = CHECK_BITS, .digest = digest[k]};
            r.engine = (struct engine_case){cases[i].devices, DP_CENTRAL, false, 4};
            r.engine.blank = r.engine.sync_bn = true;
            r.engine.grey = k ? 200 : 0;
            run_ranks(2, r, cases[i].asynchronous);
        }
        assert_true(digest[0][0] != 0 && digest[0][0] == digest[0][1]);
        assert_memory_equal(digest[0], digest[1], sizeof digest[0]);
    }
}

/* Asynchronous devices and the reference device must train weights with the same bits. */
static void bits_are_the_same(void **state)
{
    static const struct {
        int ranks;
        struct engine_case c;
    } cases[] = {
        {2, {"ref", DP_CENTRAL, true, 4}},
        {2, {"ref", DP_CENTRAL, false, 4, DTYPE_BF16}},
        {2, {"ref", DP_CENTRAL, true, 4, .mixes = true}},
        {1, {"ref:2", DP_CENTRAL, false, 4}},
        {1, {"ref:2", DP_ALL, false, 4}},
        {1, {"ref:2", DP_CENTRAL, false, 4, .mixes = true}},
        {2, {"ref:2", DP_CENTRAL, false, 4}},
        {2, {"ref:2", DP_ALL, false, 4}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t digest[2][RANKS] = {{0}};
        for (int k = 0; k < 2; k++)
            run_ranks(cases[i].ranks,
                      (struct rank){.check = CHECK_BITS, .engine = cases[i].c, .digest = digest[k]},
                      k);
        for (int k = 0; k < cases[i].ranks; k++) {
            assert_true(digest[0][k] != 0);
            assert_int_equal(digest[0][k], digest[1][k]);
        }
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_averaged),
        cmocka_unit_test(batches_without_images),
        cmocka_unit_test(blank_images_are_not_in_statistics),
        cmocka_unit_test(damage_is_seen),
        cmocka_unit_test(bits_are_the_same),
    };
    stream_backend_make(&streams);
    return cmocka_run_group_tests_name("modes", tests, NULL, NULL);
}
