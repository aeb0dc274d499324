/* Tests the weights of mixup, and which images are mixed. */
#include "engine/mixup.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void pairs_are(const int32_t *label, int rows, const int32_t *want)
{
    int32_t partner[8];
    memset(partner, 0xff, sizeof partner);
    mixup_pair(label, rows, partner);
    for (int n = 0; n < rows; n++)
        assert_int_equal(partner[n], want[n]);
    for (int n = rows; n < 8; n++)
        assert_int_equal(partner[n], -1);
}

/* torch.arange(5).roll(1, 0) is 4, 0, 1, 2, 3. */
static void a_row_is_paired_with_the_one_before_it(void **state)
{
    (void)state;
    static const int32_t label[] = {3, 0, 0, 7, 1};
    pairs_are(label, 5, (const int32_t[]){4, 0, 1, 2, 3});
    pairs_are(label, 2, (const int32_t[]){1, 0});
    pairs_are(label, 1, (const int32_t[]){0});
}

/* A bad image is not mixed with another image. The image after the bad image is mixed with the
 * image before the bad image. */
static void bad_images_are_nobodys_partner(void **state)
{
    (void)state;
    static const int32_t ends[] = {-1, 2, 2, -1}, middle[] = {1, -1, -1, 4, 5}, all[] = {-1, -1};
    pairs_are(ends, 4, (const int32_t[]){2, 2, 1, 2});
    pairs_are(middle, 5, (const int32_t[]){4, 0, 0, 0, 3});
    pairs_are(middle, 3, (const int32_t[]){0, 0, 0});
    pairs_are(all, 2, (const int32_t[]){0, 1});
}

/* A weight depends only on the seed and the step, and not on random numbers drawn before. */
static void weights_are_a_function_of_seed_and_step(void **state)
{
    (void)state;
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

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_paired_with_the_one_before_it),
        cmocka_unit_test(bad_images_are_nobodys_partner),
        cmocka_unit_test(weights_are_a_function_of_seed_and_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
