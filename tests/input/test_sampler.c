/* Compares the sampler's division of an epoch among ranks with recorded results of torch's
 * DistributedSampler. */
#include "input/sampler.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>

/* DistributedSampler(range(n), num_replicas=world, rank, shuffle=False) in torch 1.13. */
static const struct {
    int n, world, rank, count, want[8];
} table[] = {
    {10, 3, 0, 4, {0, 3, 6, 9}}, {10, 3, 1, 4, {1, 4, 7, 0}},
    {10, 3, 2, 4, {2, 5, 8, 1}}, {8, 4, 3, 2, {3, 7}},
    {3, 8, 2, 1, {2}},           {3, 8, 7, 1, {1}},
    {7, 2, 1, 4, {1, 3, 5, 0}},  {5, 1, 0, 5, {0, 1, 2, 3, 4}},
};

static void test_training_split(void **state)
{
    for (int i = 0; i < COUNT(table); i++) {
        uint32_t order[16];
        int n = table[i].n, rank = table[i].rank, world = table[i].world;
        sampler_order(false, 1, 2, n, order);
        assert_int_equal(sampler_count(true, n, rank, world), table[i].count);
        for (int k = 0; k < table[i].count; k++)
            assert_int_equal(sampler_at(order, n, rank, world, k), table[i].want[k]);
    }
}

static void test_validation_sees_each_once(void **state)
{
    for (int n = 1; n < 40; n++)
        for (int world = 1; world < 12; world++) {
            int seen[40] = {0};
            uint32_t order[40];
            sampler_order(false, 1, 2, n, order);
            for (int rank = 0; rank < world; rank++)
                for (int64_t i = 0; i < sampler_count(false, n, rank, world); i++)
                    seen[sampler_at(order, n, rank, world, i)]++;
            for (int k = 0; k < n; k++)
                assert_int_equal(seen[k], 1);
        }
}

static void test_shuffle(void **state)
{
    enum { N = 1000 };
    static uint32_t a[N], b[N];
    bool seen[N] = {0};
    sampler_order(true, 7, 3, N, a);
    sampler_order(true, 7, 3, N, b);
    assert_memory_equal(a, b, sizeof a);
    for (uint32_t i = 0; i < N; i++) {
        assert_true(a[i] < N && !seen[a[i]]);
        seen[a[i]] = true;
    }
    sampler_order(true, 7, 4, N, b);
    assert_memory_not_equal(a, b, sizeof a);
    sampler_order(true, 8, 3, N, b);
    assert_memory_not_equal(a, b, sizeof a);
}

/* The six orders of three images must be equally frequent. */
static void test_shuffle_is_fair(void **state)
{
    int count[27] = {0};
    for (int64_t epoch = 0; epoch < 6000; epoch++) {
        uint32_t o[3];
        sampler_order(true, 1, epoch, 3, o);
        count[o[0] * 9 + o[1] * 3 + o[2]]++;
    }
    static const int orders[6] = {5, 7, 11, 15, 19, 21};
    for (int i = 0; i < 6; i++)
        assert_true(abs(count[orders[i]] - 1000) < 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training_split),
        cmocka_unit_test(test_validation_sees_each_once),
        cmocka_unit_test(test_shuffle),
        cmocka_unit_test(test_shuffle_is_fair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
