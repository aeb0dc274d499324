/* Compares precision policies with the documents of Apex (opt levels) and PyTorch (autocast). */
#include "model/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct policy want[] = {
    /* name, type of products, type of activations, type of weights in passes, type of stored
     * weights, batch norm, loss scaling */
    {"fp32", DTYPE_F32, DTYPE_F32, DTYPE_F32, DTYPE_F32, DTYPE_F32, false},
    {"tf32", DTYPE_TF32, DTYPE_F32, DTYPE_TF32, DTYPE_F32, DTYPE_F32, false},
    {"amp", DTYPE_F16, DTYPE_F16, DTYPE_F16, DTYPE_F32, DTYPE_F32, true},
    {"bf16", DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, DTYPE_F32, DTYPE_F32, false},
    {"O0", DTYPE_F32, DTYPE_F32, DTYPE_F32, DTYPE_F32, DTYPE_F32, false},
    {"O1", DTYPE_F16, DTYPE_F16, DTYPE_F16, DTYPE_F32, DTYPE_F32, true},
    {"O2", DTYPE_F16, DTYPE_F16, DTYPE_F16, DTYPE_F32, DTYPE_F32, true},
    {"O3", DTYPE_F16, DTYPE_F16, DTYPE_F16, DTYPE_F16, DTYPE_F16, false},
};
enum { POLICIES = sizeof want / sizeof *want };

static void test_table(void **state)
{
    (void)state;
    for (int i = 0; i < POLICIES; i++) {
        struct policy p;
        assert_int_equal(policy_find(want[i].name, -1, &p), STATUS_OK);
        bool same = p.operand == want[i].operand && p.activation == want[i].activation &&
                    p.weight == want[i].weight && p.master == want[i].master &&
                    p.batchnorm == want[i].batchnorm && p.scaled == want[i].scaled;
        if (!same)
            fail_msg("the policy '%s' differs from the table", want[i].name);
    }
    struct policy p;
    assert_int_equal(policy_find("fp16", -1, &p), STATUS_USAGE);
}

/* keep_batchnorm_fp32 changes only the type of batch norm. */
static void test_keep_batchnorm(void **state)
{
    (void)state;
    for (int i = 0; i < POLICIES; i++)
        for (int keep = 0; keep < 2; keep++) {
            struct policy p;
            assert_int_equal(policy_find(want[i].name, keep, &p), STATUS_OK);
            assert_int_equal(p.batchnorm, keep ? DTYPE_F32 : want[i].activation);
            assert_int_equal(p.master, want[i].master);
        }
}

/* The type in which parameters are stored, the type in which passes read them, and the type of
 * gradients. TF32 is no storage type. */
static void test_parameters(void **state)
{
    (void)state;
    for (int i = 0; i < POLICIES; i++) {
        const struct policy *p = &want[i];
        enum dtype stored = p->weight == DTYPE_TF32 ? DTYPE_F32 : p->weight;
        struct param_types conv = policy_param(p, PARAM_CONV_WEIGHT),
                           bias = policy_param(p, PARAM_BIAS),
                           mean = policy_param(p, PARAM_BN_MEAN);
        assert_true(conv.master == p->master && conv.copy == p->weight && conv.gradient == stored);
        assert_true(bias.master == p->master && bias.copy == stored && bias.gradient == stored);
        assert_true(mean.master == p->batchnorm && mean.copy == p->batchnorm);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_keep_batchnorm),
        cmocka_unit_test(test_parameters),
    };
    return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
