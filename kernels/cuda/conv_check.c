/* Computes a fused form from its parts, and compares. */
#include "kernels/cuda/conv_check.h"

#include "base/array.h"
#include "kernels/cuda/conv_operands.h"
#include "kernels/cuda/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Operands in addition to the ports. */
enum {
    EXTRA_APPLIED = CG_PORT_COUNT, /* X applied, or the results whose signs are the ReLU's mask */
    EXTRA_RESULT,                  /* the convolution's result, as the parts compute it */
    EXTRA_DIFFERENCE,
    EXTRA_FLOATS, /* FLOATS_COUNT arrays of a value per channel */
    EXTRA_SUMS,   /* two arrays for the 2C + 1 doubles that cu_bn_sums writes */
    OPERAND_COUNT
};

/* Arrays of EXTRA_FLOATS. Z_SCALE and Z_SHIFT, and the three of LINE, are read as one array each.
 */
enum {
    F_ZEROS,
    F_ONES,
    F_SCALE,
    F_SHIFT,
    F_Z_SCALE,
    F_Z_SHIFT,
    F_DGAMMA,
    F_DBETA,
    F_Z_DGAMMA,
    F_Z_DBETA,
    F_LINE,
    F_EQ = F_LINE + 3,
    FLOATS_COUNT = F_EQ + 6
};

struct check {
    const struct conv_problem *problem;
    const struct timed_work *fused, *plain;
    struct conv_difference *difference;
    /* While the check runs: */
    void *const *at; /* the operands' addresses */
    void *workspace;
    struct stream *stream;
    struct cu_queue queue;
    float *host;  /* (4, C): arrays of the host */
    int channels; /* C, the larger of the numbers of channels of X and Y */
};

static struct cu_bn_shape shape_x(const struct conv_problem *p)
{
    return (struct cu_bn_shape){p->type, p->n * p->h * p->w, (int)p->c};
}

static struct cu_bn_shape shape_y(const struct conv_problem *p)
{
    return (struct cu_bn_shape){p->type, p->n * p->p * p->q, (int)p->k};
}

static struct cu_bn_shape shape_w(const struct conv_problem *p)
{
    return (struct cu_bn_shape){p->type, p->k * p->r * p->s, (int)(p->c / p->conv.groups)};
}

static float *floats(const struct check *c, int array)
{
    return (float *)c->at[EXTRA_FLOATS] + (size_t)array * (size_t)c->channels;
}

static size_t floats_bytes(const struct check *c)
{
    return FLOATS_COUNT * (size_t)c->channels * sizeof(float);
}

static size_t sums_bytes(const struct check *c)
{
    return 2 * (2 * (size_t)c->channels + 2) * sizeof(double);
}

static double *sums_of(const struct check *c, int which)
{
    return (double *)c->at[EXTRA_SUMS] + (size_t)which * (2 * (size_t)c->channels + 2);
}

/* --- comparing --- */

bool conv_difference_is_small(const struct conv_difference *d, enum dtype type)
{
    return d->worst <= (type == DTYPE_BF16 ? 1.0 / 8 : 1.0 / 16);
}

/* Two results that are 0 do not differ. */
static void note_difference(struct check *c, double square, double norm, const char *of)
{
    struct conv_difference *d = c->difference;
    double relative = square == 0 ? 0 : sqrt(square / norm);
    if (isnan(d->worst) || !(isnan(relative) || relative > d->worst))
        return;
    *d = (struct conv_difference){relative, of};
}

static enum status fetch(const struct check *c, const void *from, size_t bytes, void *to)
{
    TRY(cuda_download(c->stream, to, from, bytes));
    return cuda_stream_sync(c->stream);
}

static enum status send(const struct check *c, const float *from, int n, float *to)
{
    TRY(cuda_upload(c->stream, to, from, (size_t)n * sizeof *to));
    return cuda_stream_sync(c->stream);
}

/* Compares two tensors per channel. The norm of a channel counts as at least the mean over the
 * channels. */
static enum status compare_tensors(struct check *c, const char *of, const struct cu_bn_shape *s,
                                   const void *u, const void *v)
{
    size_t n = (size_t)s->channels;
    double *both, mean = 0;
    enum status st;
    TRY(array_new(&both, 2 * (2 * n + 1)));
    double *square[] = {both + n, both + 2 * n + 1 + n};
    for (size_t i = 0; i < n; i++) { /* u - v as a multiply-add per channel */
        c->host[i] = 1;
        c->host[n + i] = -1;
        c->host[2 * n + i] = 0;
    }
    CHECK(send(c, c->host, 3 * s->channels, floats(c, F_LINE)));
    CHECK(cu_bn_bwd_line(&c->queue, s, u, v, floats(c, F_LINE), c->at[EXTRA_DIFFERENCE]));
    CHECK(cu_bn_sums(&c->queue, s, c->at[EXTRA_DIFFERENCE], sums_of(c, 0), c->workspace));
    CHECK(cu_bn_sums(&c->queue, s, v, sums_of(c, 1), c->workspace));
    for (int i = 0; i < 2; i++)
        CHECK(fetch(c, sums_of(c, i), (2 * n + 1) * sizeof *both, both + (size_t)i * (2 * n + 1)));
    for (size_t i = 0; i < n; i++)
        mean += square[1][i] / (double)n;
    for (size_t i = 0; i < n; i++)
        note_difference(c, square[0][i], fmax(square[1][i], mean), of);
done:
    free(both);
    return st;
}

/* Compares an array of the host with the expected values. */
static void compare_arrays(struct check *c, const char *of, int n, const float *u,
                           const double *expected)
{
    double difference = 0, norm = 0;
    for (int i = 0; i < n; i++) {
        difference += (u[i] - expected[i]) * (u[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    note_difference(c, difference, norm, of);
}

static enum status compare_channels(struct check *c, const char *of, int n, enum cg_port port,
                                    const double *expected)
{
    TRY(fetch(c, c->at[port], (size_t)n * sizeof *c->host, c->host));
    compare_arrays(c, of, n, c->host, expected);
    return STATUS_OK;
}

/* --- the parts --- */

/* Sets arrays so that a batch norm computes x * scale + shift: mean 0, 1 / deviation 1. */
static enum status set_affine(struct check *c, enum cg_port scale, enum cg_port shift,
                              float *scale_to, float *shift_to)
{
    const struct conv_problem *p = c->problem;
    TRY(cu_cast(&c->queue, p->type, DTYPE_F32, p->c, c->at[scale], scale_to));
    return cu_cast(&c->queue, p->type, DTYPE_F32, p->c, c->at[shift], shift_to);
}

static enum status set_constants(struct check *c)
{
    for (int i = 0; i < c->channels; i++) {
        c->host[i] = 0;
        c->host[c->channels + i] = 1;
    }
    return send(c, c->host, 2 * c->channels, floats(c, F_ZEROS));
}

/* Computes X applied, if the form applies a batch norm; *x is what the convolution reads. */
static enum status apply(struct check *c, void **x)
{
    const struct cu_bn_shape s = shape_x(c->problem);
    struct cu_bn_apply a = {.x = c->at[CG_X],
                            .z = c->at[CG_Z] ? c->at[CG_Z] : c->at[CG_SHORTCUT],
                            .mean = floats(c, F_ZEROS),
                            .invstd = floats(c, F_ONES),
                            .gamma = floats(c, F_SCALE),
                            .beta = floats(c, F_SHIFT),
                            .relu = true,
                            .y = c->at[EXTRA_APPLIED]};
    *x = c->at[CG_X];
    if (!c->at[CG_PRO_SCALE])
        return STATUS_OK;
    TRY(set_constants(c));
    TRY(set_affine(c, CG_PRO_SCALE, CG_PRO_SHIFT, floats(c, F_SCALE), floats(c, F_SHIFT)));
    if (c->at[CG_Z]) {
        float *z = floats(c, F_Z_SCALE);
        TRY(set_affine(c, CG_Z_SCALE, CG_Z_SHIFT, z, z + c->problem->c));
        a.z_affine = z;
    }
    TRY(cu_bn_apply(&c->queue, &s, &a));
    *x = c->at[EXTRA_APPLIED];
    if (!c->at[CG_APPLIED])
        return STATUS_OK;
    return compare_tensors(c, "X applied", &s, c->at[CG_APPLIED], *x);
}

static enum status run_plain(struct check *c, void *const port[CG_PORT_COUNT])
{
    return c->plain->enqueue(c->plain->context, port, c->workspace, cuda_stream_of(c->stream));
}

static enum status check_forward(struct check *c)
{
    const struct cu_bn_shape s = shape_y(c->problem);
    void *y = c->at[EXTRA_RESULT], *port[CG_PORT_COUNT] = {[CG_W] = c->at[CG_W], [CG_Y] = y};
    size_t n = (size_t)s.channels;
    TRY(apply(c, &port[CG_X]));
    TRY(run_plain(c, port));
    TRY(compare_tensors(c, "Y", &s, c->at[CG_Y], y));
    double *sums;
    TRY(array_new(&sums, 2 * n + 1));
    enum status st; /* compare_tensors has left the sums of y */
    CHECK(fetch(c, sums_of(c, 1), (2 * n + 1) * sizeof *sums, sums));
    CHECK(compare_channels(c, "the sums", s.channels, CG_SUM, sums));
    CHECK(compare_channels(c, "the sums of squares", s.channels, CG_SQSUM, sums + n));
done:
    free(sums);
    return st;
}

static enum status check_weights(struct check *c)
{
    const struct cu_bn_shape s = shape_w(c->problem);
    void *port[CG_PORT_COUNT] = {[CG_DY] = c->at[CG_DY], [CG_DW] = c->at[EXTRA_RESULT]};
    TRY(apply(c, &port[CG_X]));
    TRY(run_plain(c, port));
    return compare_tensors(c, "DW", &s, c->at[CG_DW], c->at[EXTRA_RESULT]);
}

/* Computes the ReLU's result, whose signs are the mask, from the batch norm and the residual. */
static enum status compute_mask(struct check *c)
{
    const struct cu_bn_shape s = shape_x(c->problem);
    struct cu_bn_apply a = {.x = c->at[CG_BN_X],
                            .z = c->at[CG_Z] ? c->at[CG_Z] : c->at[CG_SHORTCUT],
                            .mean = c->at[CG_MEAN],
                            .invstd = c->at[CG_INVSTD],
                            .gamma = c->at[CG_GAMMA],
                            .beta = c->at[CG_BETA],
                            .relu = true,
                            .y = c->at[EXTRA_APPLIED]};
    static const enum cg_port of_z[] = {CG_Z_MEAN, CG_Z_INVSTD, CG_Z_GAMMA, CG_Z_BETA};
    size_t n = (size_t)s.channels;
    if (c->at[CG_Z]) { /* z * (invstd * gamma) + (beta - mean * invstd * gamma) */
        for (size_t i = 0; i < 4; i++)
            TRY(fetch(c, c->at[of_z[i]], n * sizeof *c->host, c->host + i * n));
        for (size_t i = 0; i < n; i++) {
            float scale = c->host[n + i] * c->host[2 * n + i];
            c->host[n + i] = c->host[3 * n + i] - c->host[i] * scale;
            c->host[i] = scale;
        }
        TRY(send(c, c->host, 2 * s.channels, floats(c, F_Z_SCALE)));
        a.z_affine = floats(c, F_Z_SCALE);
    }
    return cu_bn_apply(&c->queue, &s, &a);
}

/* Computes the masked gradient in EXTRA_RESULT, and batch norm's sums. */
static enum status compute_sums(struct check *c)
{
    const struct cu_bn_shape s = shape_x(c->problem);
    void *d = c->at[EXTRA_RESULT];
    const struct cu_bn_bwd a = {.dy = d,
                                .dy2 = c->at[CG_DY2],
                                .x = c->at[CG_BN_X],
                                .y = c->at[EXTRA_APPLIED],
                                .mean = c->at[CG_MEAN],
                                .invstd = c->at[CG_INVSTD],
                                .gamma = c->at[CG_GAMMA],
                                .dgamma = floats(c, F_DGAMMA),
                                .dbeta = floats(c, F_DBETA),
                                .dz = d,
                                .dz_rounds = c->problem->type};
    const struct cu_bn_bwd_z z = {.z = c->at[CG_Z],
                                  .mean = c->at[CG_Z_MEAN],
                                  .invstd = c->at[CG_Z_INVSTD],
                                  .gamma = c->at[CG_Z_GAMMA],
                                  .dgamma = floats(c, F_Z_DGAMMA),
                                  .dbeta = floats(c, F_Z_DBETA)};
    if (c->at[CG_Z])
        return cu_bn_bwd_sums_two(&c->queue, &s, &a, &z, floats(c, F_EQ), c->workspace);
    return cu_bn_bwd_sums(&c->queue, &s, &a, sums_of(c, 0), c->workspace);
}

/* The ports of a batch norm in a fused data gradient. */
struct bn_ports {
    enum cg_port mean, invstd, gamma, dgamma, dbeta, eq[3];
    int expected_dgamma, expected_dbeta; /* arrays of EXTRA_FLOATS */
};

/* Compares a batch norm's sums, and EQ with its formula (kernels/ops.h) on the plan's own sums. */
static enum status compare_bn(struct check *c, const struct bn_ports *b)
{
    static const char *const eq_name[] = {"EQ's factor of DX", "EQ's factor of X", "EQ's constant"};
    const struct cu_bn_shape s = shape_x(c->problem);
    const void *from[] = {c->at[b->mean],
                          c->at[b->invstd],
                          c->at[b->gamma],
                          c->at[b->dgamma],
                          c->at[b->dbeta],
                          floats(c, b->expected_dgamma),
                          floats(c, b->expected_dbeta)};
    enum { MEAN, INVSTD, GAMMA, DGAMMA, DBETA, EXPECTED_DGAMMA, EXPECTED_DBETA, ARRAYS };
    int n = s.channels;
    float *v;
    double *e = NULL, m = (double)s.rows;
    enum status st;
    CHECK(array_new(&v, ARRAYS * n));
    CHECK(array_new(&e, 3 * n));
    for (int i = 0; i < ARRAYS; i++)
        CHECK(fetch(c, from[i], (size_t)n * sizeof *v, v + (size_t)i * (size_t)n));
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < n; i++)
            e[i] = v[(EXPECTED_DGAMMA + k) * n + i];
        compare_arrays(c, k ? "DBETA" : "DGAMMA", n, v + (DGAMMA + k) * n, e);
    }
    for (int i = 0; i < n; i++) {
        double invstd = v[INVSTD * n + i], a = v[GAMMA * n + i] * invstd;
        e[i] = a;
        e[n + i] = -a * invstd * v[DGAMMA * n + i] / m;
        e[2 * n + i] = -a * v[DBETA * n + i] / m - e[n + i] * v[MEAN * n + i];
    }
    for (int k = 0; k < 3; k++)
        CHECK(compare_channels(c, eq_name[k], n, b->eq[k], e + (size_t)k * (size_t)n));
done:
    free(v);
    free(e);
    return st;
}

static enum status check_data(struct check *c)
{
    static const struct bn_ports main_bn = {CG_MEAN,   CG_INVSTD, CG_GAMMA,
                                            CG_DGAMMA, CG_DBETA,  {CG_EQ_DY, CG_EQ_X, CG_EQ_BIAS},
                                            F_DGAMMA,  F_DBETA};
    static const struct bn_ports z_bn = {CG_Z_MEAN,  CG_Z_INVSTD,
                                         CG_Z_GAMMA, CG_Z_DGAMMA,
                                         CG_Z_DBETA, {CG_Z_EQ_DY, CG_Z_EQ_X, CG_Z_EQ_BIAS},
                                         F_Z_DGAMMA, F_Z_DBETA};
    const struct cu_bn_shape s = shape_x(c->problem);
    void *const port[CG_PORT_COUNT] = {
        [CG_DY] = c->at[CG_DY], [CG_W] = c->at[CG_W], [CG_DX] = c->at[EXTRA_RESULT]};
    TRY(run_plain(c, port));
    TRY(compute_mask(c));
    TRY(compute_sums(c));
    TRY(compare_tensors(c, "DX", &s, c->at[CG_DX], c->at[EXTRA_RESULT]));
    TRY(compare_bn(c, &main_bn));
    return c->at[CG_Z] ? compare_bn(c, &z_bn) : STATUS_OK;
}

/* --- the whole check --- */

enum conv_form conv_check_plain(enum conv_form form)
{
    return form == CONV_APPLY_BWD_WEIGHTS ? CONV_BWD_WEIGHTS
           : form >= CONV_BWD_DATA_BN     ? CONV_BWD_DATA
                                          : CONV_FWD;
}

/* Makes DY small enough that no sum of DW overflows fp16: the random operands repeat. */
static enum status shrink_gradient(struct check *c)
{
    const struct cu_bn_shape s = shape_y(c->problem);
    float factor = ldexpf(1, -ilogb((double)s.rows / 1024));
    if (c->problem->form != CONV_APPLY_BWD_WEIGHTS || factor >= 1)
        return STATUS_OK;
    for (int i = 0; i < s.channels; i++) {
        c->host[i] = factor;
        c->host[s.channels + i] = c->host[2 * s.channels + i] = 0;
    }
    TRY(send(c, c->host, 3 * s.channels, floats(c, F_LINE)));
    return cu_bn_bwd_line(&c->queue, &s, c->at[CG_DY], c->at[CG_DY], floats(c, F_LINE),
                          c->at[CG_DY]);
}

static enum status enqueue_check(void *context, void *const operand[], void *workspace,
                                 struct cuda_stream *s)
{
    struct check *c = context;
    enum conv_form plain = conv_check_plain(c->problem->form);
    c->at = operand;
    c->workspace = workspace;
    c->stream = &s->base;
    TRY(cuda_queue(&s->base, &c->queue));
    TRY(cuda_zero(&s->base, operand[EXTRA_FLOATS], floats_bytes(c)));
    TRY(cuda_zero(&s->base, operand[EXTRA_SUMS], sums_bytes(c)));
    TRY(shrink_gradient(c));
    TRY(c->fused->enqueue(c->fused->context, operand, workspace, s));
    return plain == CONV_FWD           ? check_forward(c)
           : plain == CONV_BWD_WEIGHTS ? check_weights(c)
                                       : check_data(c);
}

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Sets the operands, and returns the bytes of workspace that suffice for every part. */
static size_t lay_out(const struct check *c, struct timed_operand operand[OPERAND_COUNT])
{
    const struct conv_problem *p = c->problem;
    const struct cu_bn_shape x = shape_x(p), y = shape_y(p), w = shape_w(p);
    size_t size = dtype_size(p->type), of_x = (size_t)(x.rows * x.channels) * size;
    size_t most = largest(
        of_x, largest((size_t)(y.rows * y.channels) * size, (size_t)(w.rows * w.channels) * size));
    size_t bytes = largest(c->fused->workspace, c->plain->workspace);
    conv_operands(p, operand);
    operand[EXTRA_APPLIED] = (struct timed_operand){of_x, p->type};
    operand[EXTRA_RESULT] = operand[EXTRA_DIFFERENCE] = (struct timed_operand){most, p->type};
    operand[EXTRA_FLOATS] = (struct timed_operand){floats_bytes(c), DTYPE_F32};
    operand[EXTRA_SUMS] = (struct timed_operand){sums_bytes(c), DTYPE_F32};
    const struct cu_bn_shape *shape[] = {&x, &y, &w};
    for (int i = 0; i < 3; i++)
        bytes = largest(bytes, largest(cu_bn_workspace(shape[i]), cu_bn_workspace_two(shape[i])));
    return bytes;
}

enum status conv_check(struct cuda_device *dev, const struct conv_problem *problem,
                       const struct timed_work *fused, const struct timed_work *plain,
                       struct conv_difference *d)
{
    struct timed_operand operand[OPERAND_COUNT];
    struct op_trial *trial = NULL;
    struct check c = {.problem = problem,
                      .fused = fused,
                      .plain = plain,
                      .difference = d,
                      .channels = (int)(problem->c > problem->k ? problem->c : problem->k)};
    enum status st;
    *d = (struct conv_difference){.of = ""};
    const struct timed_work work = {enqueue_check, &c, lay_out(&c, operand)};
    TRY(array_new(&c.host, 4 * c.channels));
    CHECK(op_trial_open(dev, operand, OPERAND_COUNT, &trial));
    CHECK(op_trial_run(trial, &work));
done:
    op_trial_close(trial);
    free(c.host);
    return st;
}
