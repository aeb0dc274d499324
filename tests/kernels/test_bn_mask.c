/* Tests batch norm with a mask on the CPU: its results must have the same bits as without a mask.
 */
#include "base/rng.h"
#include "tests/kernels/group.h"
#include "verify/describe.h"

#include <stdlib.h>

static int cpu_setup(void **state)
{
    struct device *dev;
    expect_ok(device_open("cpu", 2, &dev));
    *state = dev;
    return 0;
}

/* An operation and its tensors, in the device's memory layout. */
struct call {
    struct op_plan *plan;
    void *arg[ROLE_COUNT];
};

struct storage {
    enum dtype type, rounds;
    double scale;
};

/* Activations get `layout` and the precision; a mask gets the layout that the plan chooses. */
static struct op_desc laid_out(struct op_desc d, enum layout layout, struct storage of)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d.t[r].ndim == 4) {
            d.t[r].type = of.type;
            d.t[r].rounds = of.rounds;
            d.t[r] = in_layout(d.t[r], layout);
        }
    d.t[ROLE_MASK].layout = LAYOUT_ANY;
    return d;
}

/* gamma, beta and Z are multiplied by `scale`, which scales the results by the same factor. */
static void fill(const struct tensor_desc *t, void *mem, enum role role, double scale)
{
    struct rng r = rng_at(3, RNG_INIT, (uint64_t)role, 0);
    double low = role == ROLE_GAMMA || role == ROLE_INVSTD ? 0.5 : -1;
    double by = role == ROLE_GAMMA || role == ROLE_BETA || role == ROLE_Z ? scale : 1;
    for (int64_t i = 0; i < tensor_count(t); i++)
        dtype_store(t->type, mem, i,
                    (double)dtype_round(t->rounds, (float)(by * (low + 2 * rng_double(&r)))));
}

static void call_open(struct device *dev, const struct op_desc *d, double scale, struct call *c)
{
    *c = (struct call){0};
    expect_ok(op_plan(dev, d, &c->plan));
    for (int r = 0; r < ROLE_COUNT; r++) {
        const struct tensor_desc *t = &c->plan->desc.t[r];
        size_t bytes = r == ROLE_WORKSPACE ? c->plan->workspace : t->bytes;
        if (bytes == 0)
            continue;
        c->arg[r] = aligned_alloc(64, (bytes + 63) / 64 * 64);
        assert_non_null(c->arg[r]);
        memset(c->arg[r], 0xA5, bytes);
        if (t->ndim && r != ROLE_MASK && op_roles(d->kind).reads >> r & 1)
            fill(t, c->arg[r], (enum role)r, scale);
    }
}

static void call_close(struct call *c)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        free(c->arg[r]);
    op_plan_free(c->plan);
}

static void assert_equal(const struct call *a, const struct call *b, uint64_t roles)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (roles >> r & 1 && a->arg[r])
            assert_memory_equal(a->arg[r], b->arg[r], a->plan->desc.t[r].bytes);
}

/* Compares the forward operation with and without a mask. Compares the backward operation that
 * reads the mask with the one that reads Y. */
static void check(struct device *dev, const int *s, enum layout layout, struct storage of,
                  uint64_t forward, uint64_t backward)
{
    struct call c[4];
    for (int i = 0; i < 4; i++) {
        enum op_kind kind = i < 2 ? OP_BN_FWD_TRAIN : OP_BN_BWD;
        uint64_t with = (i < 2 ? forward : backward) | (i % 2 ? WITH(MASK) : 0);
        struct op_desc d =
            laid_out(describe_bn(kind, s[0], s[1], s[2], s[3], true, with), layout, of);
        call_open(dev, &d, of.scale, &c[i]);
    }
    expect_ok(op_execute(c[0].plan, c[0].arg, NULL));
    expect_ok(op_execute(c[1].plan, c[1].arg, NULL));
    assert_equal(&c[0], &c[1], WITH(Y) | WITH(MEAN));
    size_t mask = c[1].plan->desc.t[ROLE_MASK].bytes;
    assert_int_equal(mask, c[3].plan->desc.t[ROLE_MASK].bytes);
    memcpy(c[2].arg[ROLE_Y], c[0].arg[ROLE_Y], c[0].plan->desc.t[ROLE_Y].bytes);
    memcpy(c[3].arg[ROLE_MASK], c[1].arg[ROLE_MASK], mask);
    expect_ok(op_execute(c[2].plan, c[2].arg, NULL));
    expect_ok(op_execute(c[3].plan, c[3].arg, NULL));
    assert_equal(&c[2], &c[3], WITH(DX) | WITH(DGAMMA) | WITH(DBETA) | WITH(DZ));
    for (int i = 0; i < 4; i++)
        call_close(&c[i]);
}

static void a_mask_changes_no_bit(void **state)
{
    static const int shapes[][4] = {{3, 32, 7, 9}, {2, 16, 12, 4}, {5, 64, 1, 1}};
    static const enum layout layouts[] = {LAYOUT_NCHW16C, LAYOUT_NHWC, LAYOUT_NCHW8C, LAYOUT_PLAIN};
    /* With a small scale, half of the results are rounded to 0. */
    static const struct storage types[] = {
        {DTYPE_F32, DTYPE_F32, 1},       {DTYPE_F32, DTYPE_BF16, 1},
        {DTYPE_F32, DTYPE_F16, 1},       {DTYPE_BF16, DTYPE_F32, 1},
        {DTYPE_F16, DTYPE_F32, 1},       {DTYPE_F32, DTYPE_BF16, 0x1p-134},
        {DTYPE_F32, DTYPE_F16, 0x1p-25}, {DTYPE_BF16, DTYPE_F32, 0x1p-134},
        {DTYPE_F16, DTYPE_F32, 0x1p-25}};
    for (int t = 0; t < COUNT(types); t++)
        for (int l = 0; l < 4; l++) {
            /* With a mask, an image must have a multiple of 16 elements in each 8 channels (NCHW8C)
             * or in each channel (plain layout). Of the shapes, only shapes[1] satisfies this. */
            const int *s = shapes[l < 2 ? t % 3 : 1];
            check(*state, s, layouts[l], types[t], 0, 0);
            check(*state, s, layouts[l], types[t], WITH(Z), WITH(DZ) | WITH(DY2));
        }
}

/* The backend refuses a mask if the elements cannot be divided into whole lines of 16 elements, and
 * any mask in the default layout (ops.h). */
static void other_shapes_have_no_mask(void **state)
{
    static const enum layout layouts[] = {LAYOUT_NHWC, LAYOUT_NCHW8C, LAYOUT_PLAIN};
    struct op_desc d = describe_bn(OP_BN_FWD_TRAIN, 2, 24, 7, 9, true, WITH(MASK));
    struct op_plan *plan;
    for (int l = 0; l < 3; l++) {
        d = laid_out(d, layouts[l], (struct storage){DTYPE_F32, DTYPE_F32, 1});
        assert_int_equal(op_plan(*state, &d, &plan), STATUS_UNSUPPORTED);
    }
    d = describe_bn(OP_BN_FWD_TRAIN, 2, 16, 4, 4, true, WITH(MASK));
    assert_int_equal(op_plan(*state, &d, &plan), STATUS_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mask_changes_no_bit),
        cmocka_unit_test(other_shapes_have_no_mask),
    };
    return cmocka_run_group_tests_name("bn_mask", tests, cpu_setup, rig_group_teardown);
}
