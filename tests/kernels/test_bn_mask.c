/* Tests batch norm with a mask on the CPU: its results must have the same bits as without a mask.
 */
#include "tests/kernels/group.h"
#include "verify/describe.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int cpu_setup(void **state)
{
    struct device *dev;
    if (device_open("cpu", 2, &dev) != STATUS_OK)
        return -1;
    *state = dev;
    return 0;
}

/* An operation and its tensors, in the device's memory layout. */
struct call {
    struct op_plan *plan;
    void *arg[ROLE_COUNT];
};

/* Activations get `layout`, `type` and `rounds`; a mask gets the layout that the plan chooses. */
static void set_activations(struct op_desc *d, enum layout layout, enum dtype type,
                            enum dtype rounds)
{
    static const enum role roles[] = {ROLE_X, ROLE_Y, ROLE_Z, ROLE_DX, ROLE_DY, ROLE_DZ, ROLE_DY2};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        struct tensor_desc *t = &d->t[roles[i]];
        if (!t->ndim)
            continue;
        *t = in_layout(*t, layout);
        t->type = type;
        t->rounds = rounds;
        t->bytes = (size_t)tensor_count(t) * dtype_size(type);
    }
    if (d->t[ROLE_MASK].ndim)
        d->t[ROLE_MASK].layout = LAYOUT_ANY;
}

/* Fills a tensor with random values. gamma, beta and Z are multiplied by `scale`, which scales the
 * results by the same factor. */
static void fill(const struct tensor_desc *t, void *mem, enum role role, double scale)
{
    struct rng r = rng_at(3, RNG_INIT, (uint64_t)role, 0);
    double low = role == ROLE_GAMMA || role == ROLE_INVSTD ? 0.5 : -1;
    double by = role == ROLE_GAMMA || role == ROLE_BETA || role == ROLE_Z ? scale : 1;
    for (int64_t i = 0; i < tensor_count(t); i++)
        dtype_store(t->type, mem, i,
                    (double)dtype_round(t->rounds, (float)(by * (low + 2 * rng_double(&r)))));
}

/* Fills the operation's inputs, except the masks. */
static void call_open(struct device *dev, const struct op_desc *d, double scale, struct call *c)
{
    struct op_roles roles = op_roles(d->kind);
    *c = (struct call){0};
    OK(op_plan(dev, d, &c->plan));
    for (int r = 0; r < ROLE_COUNT; r++) {
        const struct tensor_desc *t = &c->plan->desc.t[r];
        size_t bytes = r == ROLE_WORKSPACE ? c->plan->workspace : t->bytes;
        if (bytes == 0)
            continue;
        c->arg[r] = aligned_alloc(64, (bytes + 63) / 64 * 64);
        assert_non_null(c->arg[r]);
        memset(c->arg[r], 0xA5, bytes);
        if (t->ndim && r != ROLE_MASK && roles.reads >> r & 1)
            fill(t, c->arg[r], (enum role)r, scale);
    }
}

static void call_close(struct call *c)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        free(c->arg[r]);
    op_plan_free(c->plan);
}

static void assert_equal(const struct call *a, const struct call *b, enum role role)
{
    assert_memory_equal(a->arg[role], b->arg[role], a->plan->desc.t[role].bytes);
}

static const int shapes[][4] = {{3, 32, 7, 9}, {2, 16, 12, 4}, {5, 64, 1, 1}};

struct storage {
    enum dtype type, rounds;
    double scale; /* 0: 1 */
};

/* Compares the forward operation with and without a mask. Compares the backward operation that
 * reads the mask with the one that reads Y. */
static void check(struct device *dev, const int *s, enum layout layout, struct storage of,
                  uint64_t forward, uint64_t backward)
{
    static const enum role results[] = {ROLE_DX, ROLE_DGAMMA, ROLE_DBETA};
    struct op_desc d[4];
    struct call c[4];
    for (int i = 0; i < 4; i++) {
        uint64_t mask = i % 2 ? WITH(MASK) : 0;
        d[i] = describe_bn(i < 2 ? OP_BN_FWD_TRAIN : OP_BN_BWD, s[0], s[1], s[2], s[3], true,
                           (i < 2 ? forward : backward) | mask);
        set_activations(&d[i], layout, of.type, of.rounds);
        call_open(dev, &d[i], of.scale != 0 ? of.scale : 1, &c[i]);
    }
    for (int i = 0; i < 2; i++)
        OK(op_execute(c[i].plan, c[i].arg, NULL));
    assert_equal(&c[0], &c[1], ROLE_Y);
    assert_equal(&c[0], &c[1], ROLE_MEAN);
    assert_int_equal(c[1].plan->desc.t[ROLE_MASK].bytes, c[3].plan->desc.t[ROLE_MASK].bytes);
    memcpy(c[2].arg[ROLE_Y], c[0].arg[ROLE_Y], c[0].plan->desc.t[ROLE_Y].bytes);
    memcpy(c[3].arg[ROLE_MASK], c[1].arg[ROLE_MASK], c[1].plan->desc.t[ROLE_MASK].bytes);
    for (int i = 2; i < 4; i++)
        OK(op_execute(c[i].plan, c[i].arg, NULL));
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        assert_equal(&c[2], &c[3], results[i]);
    if (backward & WITH(DZ))
        assert_equal(&c[2], &c[3], ROLE_DZ);
    for (int i = 0; i < 4; i++)
        call_close(&c[i]);
}

static void a_mask_changes_no_bit(void **state)
{
    static const enum layout layouts[] = {LAYOUT_NCHW16C, LAYOUT_NHWC, LAYOUT_NCHW8C, LAYOUT_PLAIN};
    static const struct storage types[] = {{DTYPE_F32, DTYPE_F32},
                                           {DTYPE_F32, DTYPE_BF16},
                                           {DTYPE_F32, DTYPE_F16},
                                           {DTYPE_BF16, DTYPE_F32},
                                           {DTYPE_F16, DTYPE_F32},
                                           /* Results are so small that half of them are rounded to
                                            * 0. */
                                           {DTYPE_F32, DTYPE_BF16, 0x1p-134},
                                           {DTYPE_F32, DTYPE_F16, 0x1p-25},
                                           {DTYPE_BF16, DTYPE_F32, 0x1p-134},
                                           {DTYPE_F16, DTYPE_F32, 0x1p-25}};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int l = 0; l < 4; l++) {
            /* With a mask, an image must have a multiple of 16 elements in each 8 channels (NCHW8C)
             * or in each channel (plain layout). Of the shapes, only shapes[1] satisfies this. */
            const int *s = shapes[l < 2 ? t % 3 : 1];
            check(*state, s, layouts[l], types[t], 0, 0);
            check(*state, s, layouts[l], types[t], WITH(Z), WITH(DZ) | WITH(DY2));
        }
}

/* The backend refuses a mask if the elements cannot be divided into whole lines of 16 elements. */
static void other_shapes_have_no_mask(void **state)
{
    struct op_desc d = describe_bn(OP_BN_FWD_TRAIN, 2, 24, 7, 9, true, WITH(MASK));
    static const enum layout layouts[] = {LAYOUT_NHWC, LAYOUT_NCHW8C, LAYOUT_PLAIN};
    struct op_plan *plan;
    for (int l = 0; l < 3; l++) {
        set_activations(&d, layouts[l], DTYPE_F32, DTYPE_F32);
        assert_int_equal(op_plan(*state, &d, &plan), STATUS_UNSUPPORTED);
    }
    /* In the default layout (ops.h), no shape can have a mask. */
    d = describe_bn(OP_BN_FWD_TRAIN, 2, 16, 4, 4, true, WITH(MASK));
    assert_int_equal(op_plan(*state, &d, &plan), STATUS_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mask_changes_no_bit),
        cmocka_unit_test(other_shapes_have_no_mask),
    };
    return cmocka_run_group_tests(tests, cpu_setup, rig_group_teardown);
}
