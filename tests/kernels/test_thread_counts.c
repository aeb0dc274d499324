/* Checks that the CPU backend's own kernels give the same bits with any number of threads, on a
 * part of the table of cases. Convolution and linear are not tested, because oneDNN splits some of
 * its sums among the threads. */
#include "tests/kernels/group.h"
#include "verify/cases.h"
#include "verify/describe.h"
#include "verify/precision.h"

/* Some of these numbers of threads divide the work evenly. Others do not, or exceed the number of
 * channel blocks. */
static const int thread_counts[] = {1, 2, 3, 7};
enum { DEVICES = COUNT(thread_counts), EVERY = 17 };

static enum status run_case(struct device *dev, const struct op_desc *d, const struct operands *in,
                            struct operands *out)
{
    struct operands typed;
    expect_ok(operands_narrow(d, in, &typed));
    enum status st = run_once(dev, d, &typed);
    if (st == STATUS_OK)
        operands_widen(d, &typed, out);
    operands_free(&typed);
    return st;
}

/* Returns the number of devices that can run the case: all or none. */
static int check_case(struct device *ref, struct device *const cpu[DEVICES],
                      const struct op_case *c)
{
    struct op_desc emulated = emulated_form(&c->desc), plain = plain_form(&emulated);
    struct operands in, first, other;
    int ran = 0;
    expect_ok(operands_new(&plain, &in));
    expect_ok(fill_operands(ref, &plain, c->fill, (uint64_t)c->problem, &in));
    expect_ok(operands_copy(&plain, &in, &first));
    enum status st = run_case(cpu[0], &c->desc, &in, &first);
    if (st != STATUS_UNSUPPORTED)
        expect_ok(st);
    for (ran = st == STATUS_OK; ran > 0 && ran < DEVICES; ran++) {
        expect_ok(operands_copy(&plain, &in, &other));
        expect_ok(run_case(cpu[ran], &c->desc, &in, &other));
        for (int r = 0; r < ROLE_COUNT; r++)
            if (op_roles(plain.kind).writes >> r & 1 && first.p[r] &&
                memcmp(first.p[r], other.p[r], operand_bytes(&plain, (enum role)r)) != 0)
                fail_msg("%s: the bits of %s differ between %d threads and 1", c->name,
                         role_str((enum role)r), thread_counts[ran]);
        operands_free(&other);
    }
    operands_free(&first);
    operands_free(&in);
    return ran;
}

static void threads_change_no_bit(void **state)
{
    struct device *cpu[DEVICES];
    struct case_list list;
    int ran[OP_KIND_COUNT] = {0};
    expect_ok(case_list_new(&list));
    for (int i = 0; i < DEVICES; i++)
        expect_ok(device_open("cpu", thread_counts[i], &cpu[i]));
    for (int i = 0; i < list.n; i++) {
        const struct op_case *c = &list.item[i];
        bool own = !op_in(c->desc.kind, OPS_CONV | OPS_CONV_FUSED | OPS_LINEAR);
        if (own && i % EVERY == 0)
            ran[c->desc.kind] += check_case(*state, cpu, c);
    }
    static const enum op_kind kinds[] = {
        OP_BN_FWD_TRAIN, OP_BN_FWD_EVAL,  OP_BN_BWD,   OP_MAXPOOL_FWD, OP_MAXPOOL_BWD,
        OP_AVGPOOL_FWD,  OP_AVGPOOL_BWD,  OP_RELU_FWD, OP_RELU_BWD,    OP_ADD,
        OP_DROPOUT_FWD,  OP_SOFTMAX_XENT, OP_SGD,      OP_NORMALIZE,   OP_CHECK_FINITE};
    for (int k = 0; k < COUNT(kinds); k++)
        if (ran[kinds[k]] == 0)
            fail_msg("no case of %s has run", op_str(kinds[k]));
    for (int i = 0; i < DEVICES; i++)
        device_close(cpu[i]);
    case_list_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_change_no_bit)};
    return cmocka_run_group_tests_name("thread_counts", tests, rig_group_setup, rig_group_teardown);
}
