/* Compares every gradient of the reference with central differences of its forward pass.
 *
 * The differentiated function is f = sum(R * Y) with fixed random R. The backward pass computes its
 * gradient from DY = R. With a step h, the difference is
 *
 *     f' ~ (8 (f(+h) - f(-h)) - (f(+2h) - f(-2h))) / 12h        error h^4 f'''''/30
 *
 * Exact: operations that are linear in each operand. Operands are small multiples of 2^-4, and the
 * step is a power of two. Every Y, f and quotient is then exact, so the gradients must be equal.
 * Values are more than 2h away from the kinks of ReLU and from ties of maxima. If the size of a
 * window or the scale of dropout is not a power of two, results are rounded. The tolerance is then
 * 2^-20, a few rounding errors of Y.
 *
 * Smooth: batch norm and cross entropy. For batch norm, h = 2^-4. Sums of about 50 terms of order 1
 * have a rounding error of about sqrt(50) * 2^-24 * 2^4 ~ 7e-6. The tolerance is 5e-5; a wrong term
 * causes an error of 1e-2 or more. Inputs are close to +1 and -1, so no normalised value is near
 * the kink of a ReLU. Cross entropy returns its sum in double, so h = 2^-6 and a tolerance of 1e-6
 * are enough. */
#include "tests/kernels/group.h"
#include "verify/describe.h"
#include "verify/fill.h"
#include "verify/rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct gradient {
    struct device *ref;
    struct op_desc forward, backward;
    struct operands in;  /* operands of the forward pass, with its outputs */
    struct operands out; /* operands of the backward pass */
    double step, tolerance;
};

/* Computes f from the forward pass's outputs in `o`. */
static double projection(const struct gradient *g, const struct operands *o)
{
    if (g->forward.kind == OP_SOFTMAX_XENT)
        return operand_metrics(o)->loss_sum * (double)operand_state(o)->loss_scale /
               (double)g->forward.t[ROLE_X].dim[0];
    double f = 0;
    for (int64_t i = 0; i < operand_count(&g->forward, ROLE_Y); i++) {
        double r = (double)operand_f32(&g->out, ROLE_DY)[i];
        if (g->out.p[ROLE_DY2])
            r += (double)operand_f32(&g->out, ROLE_DY2)[i];
        f += r * (double)operand_f32(o, ROLE_Y)[i];
    }
    return f;
}

static double difference(const struct gradient *g, struct rig *rig, struct operands *moved,
                         enum role role, int64_t i)
{
    static const struct {
        double steps, weight;
    } term[] = {{1, 8}, {-1, -8}, {2, -1}, {-2, 1}};
    float *value = &operand_f32(moved, role)[i], old = *value;
    double sum = 0;
    for (int k = 0; k < 4; k++) {
        *value = old + (float)(term[k].steps * g->step);
        OK(rig_put_all(rig, moved));
        OK(rig_run(rig));
        OK(rig_get_all(rig, moved));
        sum += term[k].weight * projection(g, moved);
    }
    *value = old;
    return sum / (12 * g->step);
}

static void check_role(const struct gradient *g, struct rig *rig, enum role role,
                       enum role gradient)
{
    struct operands moved;
    OK(operands_copy(&g->forward, &g->in, &moved));
    for (int64_t i = 0; i < operand_count(&g->forward, role); i++) {
        double want = difference(g, rig, &moved, role, i);
        double got = (double)operand_f32(&g->out, gradient)[i];
        if (!(fabs(got - want) <= g->tolerance))
            fail_msg("%s: %s[%d] is %.9g, differences say %.9g", op_str(g->backward.kind),
                     role_str(gradient), (int)i, got, want);
    }
    operands_free(&moved);
}

/* Fills the inputs of the backward pass: R, and inputs and outputs of the forward pass. */
static void fill_backward(struct gradient *g)
{
    struct rng r = rng_at(2, RNG_TEST, 0, 0);
    struct op_roles roles = op_roles(g->backward.kind);
    for (int role = 0; role < ROLE_COUNT; role++) {
        if (!(roles.reads >> role & 1) || !g->out.p[role])
            continue;
        if (role == ROLE_DY || role == ROLE_DY2)
            fill_grid(&r, g->out.p[role], operand_count(&g->backward, (enum role)role), 0.25, 2);
        else
            memcpy(g->out.p[role], g->in.p[role], operand_bytes(&g->backward, (enum role)role));
    }
}

/* Checks each gradient that `backward` computes. The forward operands are in g->in. */
static void check_gradient(struct gradient *g)
{
    static const enum role pair[][2] = {
        {ROLE_X, ROLE_DX}, {ROLE_W, ROLE_DW}, {ROLE_B, ROLE_DB}, {ROLE_Z, ROLE_DZ}};
    struct rig *rig;
    OK(operands_new(&g->backward, &g->out));
    OK(run_once(g->ref, &g->forward, &g->in));
    fill_backward(g);
    OK(run_once(g->ref, &g->backward, &g->out));
    OK(rig_open(g->ref, &g->forward, NULL, &rig));
    int checked = 0;
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++)
        if (g->out.p[pair[i][1]]) {
            check_role(g, rig, pair[i][0], pair[i][1]);
            checked++;
        }
    assert_true(checked > 0);
    rig_close(rig);
    operands_free(&g->out);
}

/* Begins a check of `backward` against `forward`. All inputs get small multiples of a power of two.
 */
static struct gradient begin(void **state, struct op_desc forward, struct op_desc backward,
                             double step, double tolerance)
{
    struct gradient g = {.ref = *state,
                         .forward = forward,
                         .backward = backward,
                         .step = step,
                         .tolerance = tolerance};
    struct op_roles roles = op_roles(forward.kind);
    OK(operands_new(&forward, &g.in));
    for (int role = 0; role < ROLE_COUNT; role++) {
        struct rng r = rng_at(1, RNG_TEST, (uint64_t)role, 0);
        if (role == ROLE_STATE && g.in.p[role])
            *operand_state(&g.in) = (struct step_state){.seed = 3, .step = 4, .loss_scale = 8};
        else if (roles.reads >> role & 1 && forward.t[role].type == DTYPE_F32 && g.in.p[role])
            fill_grid(&r, g.in.p[role], operand_count(&forward, (enum role)role), 0.25, 2);
    }
    return g;
}

static void end(struct gradient *g)
{
    check_gradient(g);
    operands_free(&g->in);
}

static void check_exact(void **state, struct op_desc forward, struct op_desc backward)
{
    struct gradient g = begin(state, forward, backward, 1, 0);
    end(&g);
}

/* --- cases --- */

static void test_conv(void **state)
{
    static const struct conv_shape shape[] = {
        {2, 3, 5, 5, 4, {3, 3}, {1, 1}, {1, 1}, 1},   {2, 3, 6, 5, 4, {3, 3}, {2, 2}, {1, 1}, 1},
        {2, 4, 4, 4, 3, {1, 1}, {1, 1}, {0, 0}, 1},   {1, 4, 5, 4, 3, {1, 1}, {2, 2}, {0, 0}, 1},
        {1, 3, 12, 11, 2, {7, 7}, {2, 2}, {3, 3}, 1}, {2, 4, 5, 5, 6, {3, 3}, {1, 1}, {1, 1}, 2},
        {2, 4, 5, 5, 4, {3, 3}, {2, 2}, {1, 1}, 4},   {1, 2, 5, 7, 3, {1, 3}, {1, 2}, {0, 1}, 1},
        {1, 2, 13, 12, 2, {5, 3}, {4, 3}, {2, 0}, 1}, {1, 1, 2, 2, 1, {3, 3}, {3, 3}, {3, 3}, 1},
    };
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        struct op_desc forward = describe_conv(OP_CONV_FWD, &shape[i], WITH(B));
        check_exact(state, forward, describe_conv(OP_CONV_BWD_DATA, &shape[i], 0));
        check_exact(state, forward, describe_conv(OP_CONV_BWD_WEIGHTS, &shape[i], WITH(DB)));
        check_exact(state, forward, describe_conv(OP_CONV_BWD_WEIGHTS, &shape[i], 0));
    }
}

static void test_linear(void **state)
{
    struct op_desc forward = describe_linear(OP_LINEAR_FWD, 3, 7, 5, WITH(B));
    check_exact(state, forward, describe_linear(OP_LINEAR_BWD_DATA, 3, 7, 5, 0));
    check_exact(state, forward, describe_linear(OP_LINEAR_BWD_WEIGHTS, 3, 7, 5, WITH(DB)));
    check_exact(state, forward, describe_linear(OP_LINEAR_BWD_WEIGHTS, 3, 7, 5, 0));
}

/* Half of the values are near +1, the others near -1. The distance is at most 1/4. */
static void fill_two_clusters(float *x, int64_t n)
{
    struct rng r = rng_at(5, RNG_TEST, 0, 0);
    fill_uniform(&r, x, n, 0.75, 1.25);
    for (int64_t i = 1; i < n; i += 2)
        x[i] = -x[i];
}

static void check_bn(void **state, bool relu, uint64_t with_forward, uint64_t with_backward)
{
    struct gradient g =
        begin(state, describe_bn(OP_BN_FWD_TRAIN, 2, 3, 4, 2, relu, with_forward),
              describe_bn(OP_BN_BWD, 2, 3, 4, 2, relu, with_backward), 0x1p-4, 5e-5);
    struct rng r = rng_at(6, RNG_TEST, 0, 0);
    fill_two_clusters(g.in.p[ROLE_X], operand_count(&g.forward, ROLE_X));
    fill_uniform(&r, g.in.p[ROLE_GAMMA], 3, 0.75, 1.25);
    fill_uniform(&r, g.in.p[ROLE_BETA], 3, -0.1, 0.1);
    if (with_forward & WITH(Z)) /* Z has the signs of X, so the sum is not near the kink either */
        fill_two_clusters(g.in.p[ROLE_Z], operand_count(&g.forward, ROLE_Z));
    end(&g);
}

static void test_bn(void **state)
{
    check_bn(state, false, 0, 0);
    check_bn(state, true, 0, 0);
    check_bn(state, true, 0, WITH(DY2));
    check_bn(state, false, WITH(Z), WITH(DZ));
    check_bn(state, true, WITH(Z), WITH(DZ));
    check_bn(state, true, WITH(Z), WITH(DZ) | WITH(DY2));
}

/* Shuffled values at distances of 1/2. A step of 1/16 does not change their order. */
static void fill_ladder(float *x, int64_t n)
{
    struct rng r = rng_at(8, RNG_TEST, 0, 0);
    for (int64_t i = 0; i < n; i++)
        x[i] = 0.5f * (float)(i - n / 2);
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = rng_below(&r, (uint32_t)i + 1);
        float swap = x[i];
        x[i] = x[j];
        x[j] = swap;
    }
}

static void test_maxpool(void **state)
{
    static const struct pool_attr attr[] = {
        {{3, 3}, {2, 2}, {1, 1}}, {{2, 2}, {2, 2}, {0, 0}}, {{3, 2}, {1, 2}, {0, 1}}};
    for (size_t i = 0; i < sizeof attr / sizeof *attr; i++)
        for (int two = 0; two < 2; two++) {
            struct gradient g =
                begin(state, describe_maxpool(OP_MAXPOOL_FWD, 2, 2, 7, 6, &attr[i], WITH(INDEX)),
                      describe_maxpool(OP_MAXPOOL_BWD, 2, 2, 7, 6, &attr[i], two ? WITH(DY2) : 0),
                      0x1p-4, 0);
            fill_ladder(g.in.p[ROLE_X], operand_count(&g.forward, ROLE_X));
            end(&g);
        }
}

static void test_avgpool(void **state)
{
    static const int shape[][4] = {{7, 7, 1, 1}, {4, 4, 2, 2}, {5, 6, 3, 4},
                                   {2, 2, 7, 7}, {1, 1, 6, 6}, {6, 6, 6, 6}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        const int *s = shape[i];
        struct gradient g =
            begin(state, describe_avgpool(OP_AVGPOOL_FWD, 2, 2, s[0], s[1], s[2], s[3]),
                  describe_avgpool(OP_AVGPOOL_BWD, 2, 2, s[0], s[1], s[2], s[3]), 1, 0x1p-20);
        end(&g);
    }
}

static void test_relu(void **state)
{
    struct tensor_desc t = plain_4d(2, 3, 3, 2);
    for (int two = 0; two < 2; two++) {
        struct gradient g = begin(state, describe_like(OP_RELU_FWD, t, 0),
                                  describe_like(OP_RELU_BWD, t, two ? WITH(DY2) : 0), 0x1p-5, 0);
        fill_two_clusters(g.in.p[ROLE_X], operand_count(&g.forward, ROLE_X));
        for (int64_t i = 0; i < operand_count(&g.forward, ROLE_X); i++) {
            float *x = &operand_f32(&g.in, ROLE_X)[i];
            *x = 0.125f * rintf(8 * *x); /* a multiple of 1/8, so sums are exact */
        }
        end(&g);
    }
}

static void test_dropout(void **state)
{
    static const float p[] = {0, 0.5f, 0.25f};
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) {
        struct tensor_desc t = tensor_2d(DTYPE_F32, 4, 9);
        struct op_desc forward = describe_like(OP_DROPOUT_FWD, t, 0);
        struct op_desc backward = describe_like(OP_DROPOUT_BWD, t, 0);
        forward.attr.dropout = backward.attr.dropout = (struct dropout_attr){p[i], 2};
        struct gradient g = begin(state, forward, backward, 1, p[i] == 0.25f ? 0x1p-20 : 0);
        end(&g);
    }
}

/* A row with a negative label is ignored. Of the mixed rows, 0 and 1 are mixed with each other, row
 * 3 with itself, and row 4 with the ignored row 2. */
static void test_xent(void **state)
{
    static const int32_t label[] = {0, 5, -1, 3, 1}, partner[] = {1, 0, 3, 3, 2};
    static const float smoothing[] = {0, 0.1f, 1};
    for (int i = 0; i < 6; i++) {
        uint64_t mixed = i % 2 ? WITH(PARTNER) : 0;
        float smooth = smoothing[i / 2];
        struct gradient g = begin(state, describe_xent(5, 6, smooth, mixed),
                                  describe_xent(5, 6, smooth, mixed | WITH(DX)), 0x1p-6, 1e-6);
        memcpy(g.in.p[ROLE_LABEL], label, sizeof label);
        if (mixed)
            memcpy(g.in.p[ROLE_PARTNER], partner, sizeof partner);
        operand_state(&g.in)->mix = 0.6875f;
        end(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),    cmocka_unit_test(test_linear),  cmocka_unit_test(test_bn),
        cmocka_unit_test(test_maxpool), cmocka_unit_test(test_avgpool), cmocka_unit_test(test_relu),
        cmocka_unit_test(test_dropout), cmocka_unit_test(test_xent),
    };
    return cmocka_run_group_tests_name("gradients", tests, rig_group_setup, rig_group_teardown);
}
