/* Checks that the CPU backend's own kernels give the same bits with any number of threads, on a
 * part of the table of cases. Of convolution and linear only the gradient of bf16 weights is
 * tested, because oneDNN splits some of its sums among the threads. */
#include "tests/kernels/group.h"
#include "verify/bounds.h"
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

/* Checks DW against the reference, for X and DY of bf16 values. */
static void check_weights(struct device *ref, struct device *cpu, const struct op_desc *plain,
                          const struct op_desc *stored)
{
    struct operands in, want, got;
    struct bounds bounds;
    expect_ok(operands_new(plain, &in));
    expect_ok(fill_operands(ref, plain, FILL_RANDOM, 1, &in));
    static const enum role inputs[] = {ROLE_X, ROLE_DY};
    for (int r = 0; r < COUNT(inputs); r++)
        for (size_t i = 0; i < operand_bytes(plain, inputs[r]) / sizeof(uint32_t); i++)
            ((uint32_t *)in.p[inputs[r]])[i] &= 0xffff0000U;
    expect_ok(operands_copy(plain, &in, &want));
    expect_ok(operands_copy(plain, &in, &got));
    expect_ok(run_once(ref, plain, &want));
    expect_ok(bounds_new(ref, plain, true, false, &in, &bounds));
    expect_ok(run_case(cpu, stored, &in, &got));
    expect_ok(bounds_check(plain, &bounds, &want, &got));
    bounds_free(&bounds);
    operands_free(&got);
    operands_free(&want);
    operands_free(&in);
}

/* Layers of many images with few pixels, for which a processor with bf16 has own kernels. */
static void threads_change_no_bit_of_weights(void **state)
{
    static const struct conv_shape shape[] = {{65, 64, 7, 9, 96, {3, 3}, {1, 1}, {1, 1}, 1},
                                              {21, 32, 6, 5, 64, {3, 5}, {2, 3}, {0, 4}, 1},
                                              {16, 48, 8, 8, 64, {3, 3}, {2, 2}, {1, 1}, 1},
                                              {2, 80, 3, 3, 32, {3, 3}, {1, 1}, {1, 1}, 1},
                                              {12, 64, 5, 7, 96, {1, 1}, {3, 2}, {0, 0}, 1}};
    struct device *cpu[DEVICES];
    struct op_plan *plan;
    for (int i = 0; i < DEVICES; i++)
        expect_ok(device_open("cpu", thread_counts[i], &cpu[i]));
    const bool native = device_native(cpu[0], DTYPE_BF16);
    for (int i = 0; native && i < COUNT(shape); i++) {
        const struct op_desc plain = describe_conv(OP_CONV_BWD_WEIGHTS, &shape[i], 0);
        struct op_case c = {
            .desc = with_type(&plain, DTYPE_BF16), .fill = FILL_RANDOM, .name = "bf16"};
        c.desc.t[ROLE_X] = in_layout(c.desc.t[ROLE_X], LAYOUT_NCHW16C);
        c.desc.t[ROLE_DY] = in_layout(c.desc.t[ROLE_DY], LAYOUT_NCHW16C);
        expect_ok(op_plan(cpu[0], &c.desc, &plan));
        assert_non_null(strstr(plan->impl, "own:"));
        op_plan_free(plan);
        assert_int_equal(check_case(*state, cpu, &c), DEVICES);
        check_weights(*state, cpu[1], &plain, &c.desc);
    }
    for (int i = 0; i < DEVICES; i++)
        device_close(cpu[i]);
    if (!native) {
        print_message("skipped: the processor does not multiply bf16 values\n");
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_change_no_bit),
                                       cmocka_unit_test(threads_change_no_bit_of_weights)};
    return cmocka_run_group_tests_name("thread_counts", tests, rig_group_setup, rig_group_teardown);
}
