/* Compares precision policies with the documents of Apex (opt levels) and PyTorch (autocast). */
#include "net_rig.h"

static const struct policy table[] = {
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

/* The table, and the parameters' types: those in which they are stored, in which passes read them,
 * and of their gradients. TF32 is no storage type. */
static void check_policy(const struct policy *want, const struct policy *p)
{
    if (p->operand != want->operand || p->activation != want->activation ||
        p->weight != want->weight || p->master != want->master || p->scaled != want->scaled)
        fail_msg("the policy '%s' differs from the table", want->name);
    enum dtype stored = p->weight == DTYPE_TF32 ? DTYPE_F32 : p->weight;
    struct param_types conv = policy_param(p, PARAM_CONV_WEIGHT),
                       bias = policy_param(p, PARAM_BIAS), mean = policy_param(p, PARAM_BN_MEAN);
    assert_true(conv.master == p->master && conv.copy == p->weight && conv.gradient == stored);
    assert_true(bias.master == p->master && bias.copy == stored && bias.gradient == stored);
    assert_true(mean.master == p->batchnorm && mean.copy == p->batchnorm);
}

/* keep_batchnorm_fp32 changes only the type of batch norm. */
static void test_table(void **state)
{
    struct policy p;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (int keep = -1; keep < 2; keep++) {
            assert_int_equal(policy_find(table[i].name, keep, &p), STATUS_OK);
            check_policy(&table[i], &p);
            assert_int_equal(p.batchnorm, keep < 0 ? table[i].batchnorm
                                          : keep   ? DTYPE_F32
                                                   : table[i].activation);
        }
    assert_int_equal(policy_find("fp16", -1, &p), STATUS_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table)};
    return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
