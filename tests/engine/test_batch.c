/* Tests the division of a batch among devices, the weights of mixup, and which images are mixed. */
#include "engine/mixup.h"
#include "engine/replica.h"
#include "tests/unit.h"

#include <math.h>

/* torch.arange(5).roll(1, 0) is 4, 0, 1, 2, 3. A bad image, with a negative label, is not mixed
 * with another image: the image after it is mixed with the image before it. */
static void an_image_is_mixed_with_the_one_before_it(void **state)
{
    static const struct {
        int rows;
        int32_t label[5], partner[5];
    } cases[] = {
        {5, {3, 0, 0, 7, 1}, {4, 0, 1, 2, 3}},
        {2, {3, 0}, {1, 0}},
        {1, {3}, {0}},
        {4, {-1, 2, 2, -1}, {2, 2, 1, 2}},
        {5, {1, -1, -1, 4, 5}, {4, 0, 0, 0, 3}},
        {3, {1, -1, -1}, {0, 0, 0}},
        {2, {-1, -1}, {0, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t partner[6] = {-1, -1, -1, -1, -1, -1};
        mixup_pair(cases[i].label, cases[i].rows, partner);
        for (int n = 0; n < 6; n++)
            assert_int_equal(partner[n], n < cases[i].rows ? cases[i].partner[n] : -1);
    }
}

/* A weight depends only on the seed and the step, and not on random numbers drawn before. */
static void weights_are_a_function_of_seed_and_step(void **state)
{
    float first = mixup_weight(0.2, 1, 1000), sum = 0;
    for (int i = 0; i < 1000; i++) {
        float w = mixup_weight(0.2, 1, i);
        assert_true(w >= 0 && w <= 1);
        assert_true(w != mixup_weight(0.2, 1, i + 1));
        assert_true(w != mixup_weight(0.2, 2, i) || w == 0 || w == 1);
        sum += w;
    }
    assert_true(first == mixup_weight(0.2, 1, 1000));
    assert_true(fabsf(sum / 1000 - 0.5f) <
                0.06f); /* 4.5 standard deviations of the mean: 4.5 * 0.42 / sqrt(1000) */
    assert_true(mixup_weight(0, 1, 5) == 1);
}

static void a_batch_is_cut_as_torch_cuts_it(void **state)
{
    static const struct {
        int rows, n;
        int count[4];
    } cases[] = {
        {8, 1, {8}},       {8, 2, {4, 4}},       {9, 2, {5, 4}},       {10, 4, {3, 3, 3, 1}},
        {5, 4, {2, 2, 1}}, {2, 4, {1, 1, 0, 0}}, {9, 4, {3, 3, 3, 0}}, {0, 2, {0, 0}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        int next = 0;
        for (int i = 0; i < cases[k].n; i++) {
            struct part p = part_of(cases[k].rows, cases[k].n, i);
            assert_int_equal(p.first, next);
            assert_int_equal(p.count, cases[k].count[i]);
            next += p.count;
        }
        assert_int_equal(next, cases[k].rows);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_is_cut_as_torch_cuts_it),
        cmocka_unit_test(an_image_is_mixed_with_the_one_before_it),
        cmocka_unit_test(weights_are_a_function_of_seed_and_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
