/* Checks that the CPU backend's own kernels give the same bits with any number of threads.
 * Convolution and linear are not tested, because oneDNN splits some of its sums among the threads.
 */
#include "tests/kernels/group.h"
#include "verify/describe.h"
#include "verify/fill.h"
#include "verify/precision.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Some of these numbers of threads divide the work evenly. Others do not, or exceed the number of
 * channel blocks. */
static const int thread_counts[] = {1, 2, 3, 7};
enum { DEVICES = sizeof thread_counts / sizeof *thread_counts };

struct devices {
    struct device *ref;
    struct device *cpu[DEVICES];
};

static int setup(void **state)
{
    struct devices *d = calloc(1, sizeof *d);
    *state = d;
    if (!d || device_open("ref", 1, &d->ref) != STATUS_OK)
        return -1;
    for (int i = 0; i < DEVICES; i++)
        if (device_open("cpu", thread_counts[i], &d->cpu[i]) != STATUS_OK)
            return -1;
    return 0;
}

static int teardown(void **state)
{
    struct devices *d = *state;
    for (int i = 0; d && i < DEVICES; i++)
        device_close(d->cpu[i]);
    if (d)
        device_close(d->ref);
    free(d);
    return 0;
}

static void assert_same_bits(const struct op_desc *d, const struct operands *a,
                             const struct operands *b, int threads)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (op_roles(d->kind).writes >> r & 1 && a->p[r] &&
            memcmp(a->p[r], b->p[r], operand_bytes(d, (enum role)r)) != 0)
            fail_msg("%s in %s: the bits of %s differ between %d and %d threads", op_str(d->kind),
                     layout_str(d->t[ROLE_X].layout), role_str((enum role)r), threads,
                     thread_counts[0]);
}

static void check_once(struct devices *devices, const struct op_desc *d, const struct operands *in)
{
    struct operands first, other;
    OK(operands_copy(d, in, &first));
    enum status st = run_once(devices->cpu[0], d, &first);
    if (st == STATUS_UNSUPPORTED && precision_is_emulated(d)) {
        print_message("skipped: %s\n", status_message());
        operands_free(&first);
        return;
    }
    OK(st);
    for (int i = 1; i < DEVICES; i++) {
        OK(operands_copy(d, in, &other));
        OK(run_once(devices->cpu[i], d, &other));
        assert_same_bits(d, &first, &other, thread_counts[i]);
        operands_free(&other);
    }
    operands_free(&first);
}

/* Sets the layout of the activations of `d`. Returns false if one does not fit `layout`. */
static bool set_layout(struct op_desc *d, enum layout layout)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d->t[r].ndim == 4) {
            if (!layout_fits(&d->t[r], layout))
                return false;
            d->t[r] = in_layout(d->t[r], layout);
        }
    return true;
}

/* Checks `d`, a description in plain layout, in all layouts that fit, in fp32 and with rounded
 * tensors. */
static void check(struct devices *devices, struct op_desc d)
{
    static const enum layout layouts[] = {LAYOUT_PLAIN, LAYOUT_NHWC, LAYOUT_NCHW8C, LAYOUT_NCHW16C};
    bool activations = d.t[ROLE_X].ndim == 4 || d.t[ROLE_DX].ndim == 4;
    struct operands in;
    OK(operands_new(&d, &in));
    OK(fill_operands(devices->ref, &d, FILL_RANDOM, 1, &in));
    for (int i = 0; i < (activations ? 4 : 1); i++) {
        struct op_desc laid = d;
        if (!set_layout(&laid, layouts[i]))
            continue;
        check_once(devices, &laid, &in);
        struct op_desc narrow = with_precision(&laid, DTYPE_F16, true);
        if (d.kind != OP_SGD) /* SGD has the precisions in its segments */
            check_once(devices, &narrow, &in);
    }
    operands_free(&in);
}

static void test_batch_norm(void **state)
{
    /* The shapes have few channels and many pixels, many channels and few pixels, one image, or a
     * number of channels that is not a multiple of 8. */
    static const int shape[][4] = {
        {3, 16, 40, 41}, {5, 128, 7, 7}, {1, 64, 12, 12}, {4, 10, 9, 5}, {2, 320, 3, 3},
    };
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        const int *s = shape[i];
        check(*state, describe_bn(OP_BN_FWD_TRAIN, s[0], s[1], s[2], s[3], true, WITH(Z)));
        check(*state, describe_bn(OP_BN_FWD_EVAL, s[0], s[1], s[2], s[3], false, 0));
        check(*state, describe_bn(OP_BN_BWD, s[0], s[1], s[2], s[3], true, WITH(Y)));
        check(*state,
              describe_bn(OP_BN_BWD, s[0], s[1], s[2], s[3], true, WITH(Y) | WITH(DY2) | WITH(DZ)));
    }
}

static void test_pooling(void **state)
{
    static const struct pool_attr window = {{3, 3}, {2, 2}, {1, 1}};
    check(*state, describe_maxpool(OP_MAXPOOL_FWD, 3, 80, 15, 17, &window, WITH(INDEX)));
    check(*state, describe_maxpool(OP_MAXPOOL_BWD, 3, 80, 15, 17, &window, WITH(DY2)));
    check(*state, describe_avgpool(OP_AVGPOOL_FWD, 3, 80, 7, 9, 3, 4));
    check(*state, describe_avgpool(OP_AVGPOOL_BWD, 3, 80, 7, 9, 3, 4));
}

static void test_elementwise(void **state)
{
    struct tensor_desc t = plain_4d(3, 16, 5, 7);
    check(*state, describe_like(OP_RELU_FWD, t, 0));
    check(*state, describe_like(OP_RELU_BWD, t, WITH(DY2)));
    check(*state, describe_like(OP_ADD, t, 0));
    struct op_desc d = describe_like(OP_DROPOUT_FWD, tensor_2d(DTYPE_F32, 9, 101), 0);
    d.attr.dropout.p = 0.3f;
    check(*state, d);
}

static void test_loss_and_step(void **state)
{
    static const struct sgd_segment wide[] = {{0, 100, 0.1f}, {100, 1003, 0}},
                                    narrow[] = {{0, 100, 0.1f, DTYPE_F16, DTYPE_F32, DTYPE_F16},
                                                {100, 1003, 0, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16}};
    struct sgd_attr sgd = {.momentum = 0.9f, .nesterov = true, .n_segments = 2, .segment = wide};
    check(*state, describe_xent(33, 100, 0.1f, WITH(DX)));
    check(*state, describe_sgd(1003, &sgd));
    sgd.segment = narrow;
    check(*state, describe_sgd(1003, &sgd));
    static const struct sgd_segment lars[] = {
        {.end = 40000, .weight_decay = 0.1f, .trust = 0.1f},
        {.begin = 40000, .end = 100003, .trust = 0.1f, .gradient = DTYPE_F16}};
    sgd.segment = lars;
    check(*state, describe_sgd(100003, &sgd));
}

static void test_pixels(void **state)
{
    struct devices *devices = *state;
    struct op_desc d = describe_normalize(3, 9, 11, 0);
    struct operands in;
    OK(operands_new(&d, &in));
    OK(fill_operands(devices->ref, &d, FILL_RANDOM, 1, &in));
    check_once(devices, &d, &in);
    operands_free(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_norm),  cmocka_unit_test(test_pooling),
        cmocka_unit_test(test_elementwise), cmocka_unit_test(test_loss_and_step),
        cmocka_unit_test(test_pixels),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
