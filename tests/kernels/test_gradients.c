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

#include <stdlib.h>

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
        expect_ok(rig_put_all(rig, moved));
        expect_ok(rig_run(rig));
        expect_ok(rig_get_all(rig, moved));
        sum += term[k].weight * projection(g, moved);
    }
    *value = old;
    return sum / (12 * g->step);
}

static void check_role(const struct gradient *g, struct rig *rig, enum role role,
                       enum role gradient)
{
    struct operands moved;
    expect_ok(operands_copy(&g->forward, &g->in, &moved));
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
    expect_ok(operands_new(&g->backward, &g->out));
    expect_ok(run_once(g->ref, &g->forward, &g->in));
    fill_backward(g);
    expect_ok(run_once(g->ref, &g->backward, &g->out));
    expect_ok(rig_open(g->ref, &g->forward, NULL, &rig));
    int checked = 0;
    for (int i = 0; i < COUNT(pair); i++)
        if (g->out.p[pair[i][1]]) {
            check_role(g, rig, pair[i][0], pair[i][1]);
            checked++;
        }
    assert_true(checked > 0);
    rig_close(rig);
    operands_free(&g->out);
}

enum values {
    GRID,     /* multiples of 1/4 */
    CLUSTERS, /* half of the values near +1, the others near -1, at a distance of at most 1/4 */
    EIGHTHS,  /* the same, but multiples of 1/8, so that sums are exact */
    LADDER,   /* shuffled values at distances of 1/2, so that a small step keeps their order */
};

static void fill(float *x, int64_t n, enum values values, uint64_t role)
{
    struct rng r = rng_at(1, RNG_TEST, role, 0);
    if (values == GRID)
        fill_grid(&r, x, n, 0.25, 2);
    if (values == CLUSTERS || values == EIGHTHS)
        fill_uniform(&r, x, n, 0.75, 1.25);
    for (int64_t i = 1; i < n && (values == CLUSTERS || values == EIGHTHS); i += 2)
        x[i] = -x[i];
    for (int64_t i = 0; i < n && values == EIGHTHS; i++)
        x[i] = 0.125f * rintf(8 * x[i]);
    for (int64_t i = 0; i < n && values == LADDER; i++) {
        int64_t j = rng_below(&r, (uint32_t)i + 1);
        x[i] = x[j];
        x[j] = 0.5f * (float)(i - n / 2);
    }
}

/* Checks `backward` against `forward`. X and Z get `values`. With CLUSTERS, Z has the signs of X,
 * so their sum is not near the kink of a ReLU either. */
static void check(void **state, struct op_desc forward, struct op_desc backward, enum values values,
                  double step, double tolerance)
{
    static const int32_t label[] = {0, 5, -1, 3, 1}, partner[] = {1, 0, 3, 3, 2};
    struct gradient g = {*state, forward, backward, .step = step, .tolerance = tolerance};
    expect_ok(operands_new(&forward, &g.in));
    for (int r = 0; r < ROLE_COUNT; r++)
        if (op_roles(forward.kind).reads >> r & 1 && g.in.p[r] && forward.t[r].type == DTYPE_F32 &&
            forward.t[r].ndim)
            fill(g.in.p[r], operand_count(&forward, (enum role)r),
                 r == ROLE_X || r == ROLE_Z ? values : GRID, (uint64_t)r);
    if (g.in.p[ROLE_STATE])
        *operand_state(&g.in) =
            (struct step_state){.seed = 3, .step = 4, .loss_scale = 8, .mix = 0.6875f};
    if (g.in.p[ROLE_LABEL])
        memcpy(g.in.p[ROLE_LABEL], label, sizeof label);
    if (g.in.p[ROLE_PARTNER])
        memcpy(g.in.p[ROLE_PARTNER], partner, sizeof partner);
    if (op_in(forward.kind, OPS_BN)) {
        struct rng r = rng_at(6, RNG_TEST, 0, 0);
        fill_uniform(&r, g.in.p[ROLE_GAMMA], 3, 0.75, 1.25);
        fill_uniform(&r, g.in.p[ROLE_BETA], 3, -0.1, 0.1);
    }
    check_gradient(&g);
    operands_free(&g.in);
}

/* --- cases --- */

static void convolution_and_linear(void **state)
{
    static const struct conv_shape shape[] = {
        {2, 3, 5, 5, 4, {3, 3}, {1, 1}, {1, 1}, 1},   {2, 3, 6, 5, 4, {3, 3}, {2, 2}, {1, 1}, 1},
        {2, 4, 4, 4, 3, {1, 1}, {1, 1}, {0, 0}, 1},   {1, 4, 5, 4, 3, {1, 1}, {2, 2}, {0, 0}, 1},
        {1, 3, 12, 11, 2, {7, 7}, {2, 2}, {3, 3}, 1}, {2, 4, 5, 5, 6, {3, 3}, {1, 1}, {1, 1}, 2},
        {2, 4, 5, 5, 4, {3, 3}, {2, 2}, {1, 1}, 4},   {1, 2, 5, 7, 3, {1, 3}, {1, 2}, {0, 1}, 1},
        {1, 2, 13, 12, 2, {5, 3}, {4, 3}, {2, 0}, 1}, {1, 1, 2, 2, 1, {3, 3}, {3, 3}, {3, 3}, 1},
    };
    for (int i = 0; i < COUNT(shape); i++) {
        const struct conv_shape *s = &shape[i];
        struct op_desc forward = describe_conv(OP_CONV_FWD, s, WITH(B));
        check(state, forward, describe_conv(OP_CONV_BWD_DATA, s, 0), GRID, 1, 0);
        check(state, forward, describe_conv(OP_CONV_BWD_WEIGHTS, s, WITH(DB)), GRID, 1, 0);
        check(state, forward, describe_conv(OP_CONV_BWD_WEIGHTS, s, 0), GRID, 1, 0);
    }
    struct op_desc forward = describe_linear(OP_LINEAR_FWD, 3, 7, 5, WITH(B));
    check(state, forward, describe_linear(OP_LINEAR_BWD_DATA, 3, 7, 5, 0), GRID, 1, 0);
    check(state, forward, describe_linear(OP_LINEAR_BWD_WEIGHTS, 3, 7, 5, WITH(DB)), GRID, 1, 0);
    check(state, forward, describe_linear(OP_LINEAR_BWD_WEIGHTS, 3, 7, 5, 0), GRID, 1, 0);
}

static void batch_norm(void **state)
{
    static const struct {
        bool relu;
        uint64_t forward, backward;
    } table[] = {
        {false, 0, 0},
        {true, 0, 0},
        {true, 0, WITH(DY2)},
        {false, WITH(Z), WITH(DZ)},
        {true, WITH(Z), WITH(DZ)},
        {true, WITH(Z), WITH(DZ) | WITH(DY2)},
    };
    for (int i = 0; i < COUNT(table); i++) {
        bool relu = table[i].relu;
        check(state, describe_bn(OP_BN_FWD_TRAIN, 2, 3, 4, 2, relu, table[i].forward),
              describe_bn(OP_BN_BWD, 2, 3, 4, 2, relu, table[i].backward), CLUSTERS, 0x1p-4, 5e-5);
    }
}

static void pooling(void **state)
{
    static const struct pool_attr attr[] = {
        {{3, 3}, {2, 2}, {1, 1}}, {{2, 2}, {2, 2}, {0, 0}}, {{3, 2}, {1, 2}, {0, 1}}};
    static const int shape[][4] = {{7, 7, 1, 1}, {4, 4, 2, 2}, {5, 6, 3, 4},
                                   {2, 2, 7, 7}, {1, 1, 6, 6}, {6, 6, 6, 6}};
    for (int i = 0; i < 6; i++) {
        const struct pool_attr *p = &attr[i / 2];
        const int *s = shape[i];
        check(state, describe_maxpool(OP_MAXPOOL_FWD, 2, 2, 7, 6, p, WITH(INDEX)),
              describe_maxpool(OP_MAXPOOL_BWD, 2, 2, 7, 6, p, i % 2 ? WITH(DY2) : 0), LADDER,
              0x1p-4, 0);
        check(state, describe_avgpool(OP_AVGPOOL_FWD, 2, 2, s[0], s[1], s[2], s[3]),
              describe_avgpool(OP_AVGPOOL_BWD, 2, 2, s[0], s[1], s[2], s[3]), GRID, 1, 0x1p-20);
    }
}

static void relu_and_dropout(void **state)
{
    static const float p[] = {0, 0.5f, 0.25f};
    struct tensor_desc t = plain_4d(2, 3, 3, 2);
    check(state, describe_like(OP_RELU_FWD, t, 0), describe_like(OP_RELU_BWD, t, 0), EIGHTHS,
          0x1p-5, 0);
    check(state, describe_like(OP_RELU_FWD, t, 0), describe_like(OP_RELU_BWD, t, WITH(DY2)),
          EIGHTHS, 0x1p-5, 0);
    for (int i = 0; i < COUNT(p); i++) {
        struct op_desc forward = describe_like(OP_DROPOUT_FWD, tensor_2d(DTYPE_F32, 4, 9), 0);
        struct op_desc backward = describe_like(OP_DROPOUT_BWD, tensor_2d(DTYPE_F32, 4, 9), 0);
        forward.attr.dropout = backward.attr.dropout = (struct dropout_attr){p[i], 2};
        check(state, forward, backward, GRID, 1, p[i] == 0.25f ? 0x1p-20 : 0);
    }
}

/* A row with a negative label is ignored. Of the mixed rows, 0 and 1 are mixed with each other, row
 * 3 with itself, and row 4 with the ignored row 2. */
static void cross_entropy(void **state)
{
    static const float smoothing[] = {0, 0.1f, 1};
    for (int i = 0; i < 6; i++) {
        uint64_t mixed = i % 2 ? WITH(PARTNER) : 0;
        check(state, describe_xent(5, 6, smoothing[i / 2], mixed),
              describe_xent(5, 6, smoothing[i / 2], mixed | WITH(DX)), GRID, 0x1p-6, 1e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_and_linear),
        cmocka_unit_test(batch_norm),
        cmocka_unit_test(pooling),
        cmocka_unit_test(relu_and_dropout),
        cmocka_unit_test(cross_entropy),
    };
    return cmocka_run_group_tests_name("gradients", tests, rig_group_setup, rig_group_teardown);
}
