/* Convolutions of the fake GPU: plain loops in place of cuDNN. Forms with a bias or a batch norm
 * are there on Hopper alone, so that the way around them is taken too; in bf16, as cuDNN has it,
 * none that applies or differentiates a batch norm. */
#include "kernels/cuda/conv_exec.h"

#include "arrays.h"
#include "fake.h"

#include <stdio.h>

/* So that plans have a workspace, which is filled with nonsense at each run. */
enum { WORKSPACE = 4096, SM_FUSED = 80 };

/* One execution. */
struct execution {
    struct conv_problem problem;
    void *port[CG_PORT_COUNT];
    void *workspace;
};

/* One multiplication: where it takes x, w and y. */
struct tap {
    int64_t x, w, y;
};

/* Calls `each` for every product of the convolution. */
static void for_each_product(const struct conv_problem *a,
                             void (*each)(const struct tap *tap, void *context), void *context)
{
    int64_t groups = a->conv.groups, cg = a->c / groups, kg = a->k / groups;
    for (int64_t n = 0; n < a->n; n++)
        for (int64_t p = 0; p < a->p; p++)
            for (int64_t q = 0; q < a->q; q++)
                for (int64_t r = 0; r < a->r; r++)
                    for (int64_t s = 0; s < a->s; s++) {
                        int64_t h = p * a->conv.stride[0] - a->conv.pad[0] + r;
                        int64_t w = q * a->conv.stride[1] - a->conv.pad[1] + s;
                        if (h < 0 || h >= a->h || w < 0 || w >= a->w)
                            continue;
                        for (int64_t k = 0; k < a->k; k++) {
                            struct tap t = {.x = ((n * a->h + h) * a->w + w) * a->c + k / kg * cg,
                                            .w = ((k * a->r + r) * a->s + s) * cg,
                                            .y = ((n * a->p + p) * a->q + q) * a->k + k};
                            each(&t, context);
                        }
                    }
}

/* The operands, and sums in double for the result. */
struct sums {
    const float *x, *w, *y;
    double *sum;
    int64_t cg;
};

static void add_to_y(const struct tap *t, void *context)
{
    struct sums *s = context;
    double sum = 0;
    for (int64_t c = 0; c < s->cg; c++)
        sum += (double)s->x[t->x + c] * (double)s->w[t->w + c];
    s->sum[t->y] += sum;
}

static void add_to_x(const struct tap *t, void *context)
{
    struct sums *s = context;
    for (int64_t c = 0; c < s->cg; c++)
        s->sum[t->x + c] += (double)s->y[t->y] * (double)s->w[t->w + c];
}

static void add_to_w(const struct tap *t, void *context)
{
    struct sums *s = context;
    for (int64_t c = 0; c < s->cg; c++)
        s->sum[t->w + c] += (double)s->y[t->y] * (double)s->x[t->x + c];
}

static void store(const struct execution *e, const double *sum, int64_t n, void *out)
{
    const struct conv_problem *a = &e->problem;
    const float *bias = e->port[CG_BIAS];
    for (int64_t i = 0; i < n; i++) {
        double v = sum[i] + (bias ? (double)bias[i % a->k] : 0);
        if (a->form == CONV_FWD_BIAS_RELU && v < 0)
            v = 0;
        float_store(a->type, out, i, (float)v);
    }
}

/* X becomes relu(X * scale + shift). */
static void apply_to_x(const struct execution *e, float *x, int64_t n)
{
    const struct conv_problem *a = &e->problem;
    float *scale = floats_from(a->type, DTYPE_F32, a->c, e->port[CG_PRO_SCALE]);
    float *shift = floats_from(a->type, DTYPE_F32, a->c, e->port[CG_PRO_SHIFT]);
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] * scale[i % a->c] + shift[i % a->c];
        x[i] = dtype_round(a->type, v < 0 ? 0 : v);
    }
    free(scale);
    free(shift);
}

/* SUM and SQSUM of what has been stored. */
static void add_up_y(const struct execution *e, int64_t n)
{
    const struct conv_problem *a = &e->problem;
    float *y = floats_from(a->type, DTYPE_F32, n, e->port[CG_Y]);
    float *sums = e->port[CG_SUM], *squares = e->port[CG_SQSUM];
    for (int64_t k = 0; k < a->k; k++) {
        double sum = 0, square = 0;
        for (int64_t i = k; i < n; i += a->k) {
            sum += (double)y[i];
            square += (double)y[i] * (double)y[i];
        }
        sums[k] = (float)sum;
        squares[k] = (float)square;
    }
    free(y);
}

/* What a batch norm's backward needs of one channel, DX having been stored. */
static void differentiate_channel(const struct execution *e, int64_t c, const float *dx,
                                  const float *x, int64_t n)
{
    const struct conv_problem *a = &e->problem;
    float *const *port = (float *const *)e->port;
    double mean = (double)port[CG_MEAN][c], invstd = (double)port[CG_INVSTD][c];
    double rows = (double)(n / a->c), sum = 0, scaled = 0;
    for (int64_t i = c; i < n; i += a->c) {
        sum += (double)dx[i];
        scaled += (double)dx[i] * ((double)x[i] - mean) * invstd;
    }
    double of_dy = (double)port[CG_GAMMA][c] * invstd, of_x = -of_dy * invstd * scaled / rows;
    port[CG_DBETA][c] = (float)sum;
    port[CG_DGAMMA][c] = (float)scaled;
    port[CG_EQ_DY][c] = (float)of_dy;
    port[CG_EQ_X][c] = (float)of_x;
    port[CG_EQ_BIAS][c] = (float)(-of_dy * sum / rows - of_x * mean);
}

/* DX from the gradient of the ReLU's result, and what follows from it. */
static void store_past_relu(const struct execution *e, const double *gradient, int64_t n)
{
    const struct conv_problem *a = &e->problem;
    float *const *port = (float *const *)e->port;
    bool add = a->form == CONV_BWD_DATA_ADD_BN;
    float *x = floats_from(a->type, DTYPE_F32, n, e->port[CG_BN_X]);
    float *z = add ? floats_from(a->type, DTYPE_F32, n, e->port[CG_SHORTCUT]) : NULL;
    float *dy2 = add ? floats_from(a->type, DTYPE_F32, n, e->port[CG_DY2]) : NULL;
    for (int64_t i = 0; i < n; i++) {
        int64_t c = i % a->c;
        float before = (x[i] - port[CG_MEAN][c]) * port[CG_INVSTD][c] * port[CG_GAMMA][c] +
                       port[CG_BETA][c] + (add ? z[i] : 0);
        float d = dtype_round(a->type, (float)gradient[i]) + (add ? dy2[i] : 0);
        float_store(a->type, e->port[CG_DX], i, before > 0 ? d : 0);
    }
    float *dx = floats_from(a->type, DTYPE_F32, n, e->port[CG_DX]);
    for (int64_t c = 0; c < a->c; c++)
        differentiate_channel(e, c, dx, x, n);
    free(x);
    free(z);
    free(dy2);
    free(dx);
}

/* What a form computes. */
enum result { RESULT_Y, RESULT_DX, RESULT_DW };

static enum result result_of(enum conv_form form)
{
    switch (form) {
    case CONV_BWD_DATA:
    case CONV_BWD_DATA_BN:
    case CONV_BWD_DATA_ADD_BN:
        return RESULT_DX;
    case CONV_BWD_WEIGHTS:
    case CONV_APPLY_BWD_WEIGHTS:
        return RESULT_DW;
    default:
        return RESULT_Y;
    }
}

static void execute(const void *context)
{
    const struct execution *e = context;
    const struct conv_problem *a = &e->problem;
    enum dtype operand = a->tf32 ? DTYPE_TF32 : DTYPE_F32;
    int64_t nx = a->n * a->c * a->h * a->w, ny = a->n * a->k * a->p * a->q;
    int64_t nw = a->k * (a->c / a->conv.groups) * a->r * a->s;
    float *x = NULL, *w = NULL, *y = NULL;
    memset(e->workspace, 0xFF, WORKSPACE);
    if (e->port[CG_X])
        x = floats_from(a->type, operand, nx, e->port[CG_X]);
    if (e->port[CG_W])
        w = floats_from(a->type, operand, nw, e->port[CG_W]);
    if (e->port[CG_DY])
        y = floats_from(a->type, operand, ny, e->port[CG_DY]);
    if (e->port[CG_PRO_SCALE])
        apply_to_x(e, x, nx);
    enum result result = result_of(a->form);
    int64_t n = result == RESULT_DX ? nx : result == RESULT_DW ? nw : ny;
    struct sums s = {x, w, y, calloc((size_t)n, sizeof(double)), a->c / a->conv.groups};
    if (!s.sum)
        abort();
    for_each_product(a,
                     result == RESULT_DX   ? add_to_x
                     : result == RESULT_DW ? add_to_w
                                           : add_to_y,
                     &s);
    if (e->port[CG_BN_X])
        store_past_relu(e, s.sum, n);
    else
        store(e, s.sum, n,
              e->port[result == RESULT_DX   ? CG_DX
                      : result == RESULT_DW ? CG_DW
                                            : CG_Y]);
    if (e->port[CG_SUM])
        add_up_y(e, n);
    free(s.sum);
    free(x);
    free(w);
    free(y);
}

enum status conv_exec_open(struct cuda_device *dev, const struct conv_problem *problem,
                           struct conv_exec **exec)
{
    bool fused = problem->form > CONV_BWD_WEIGHTS;
    bool batch_norm = problem->form > CONV_FWD_STATS;
    *exec = NULL;
    if (problem->form == CONV_BN_FINALIZE || (fused && dev->sm < SM_FUSED) ||
        (batch_norm && problem->type == DTYPE_BF16))
        return status_fail(STATUS_UNSUPPORTED, "the fake GPU has no such convolution");
    *exec = calloc(1, sizeof **exec);
    if (!*exec)
        return status_fail(STATUS_OOM, "no memory for a convolution");
    **exec = (struct conv_exec){.device = dev, .problem = *problem, .workspace = WORKSPACE};
    snprintf((*exec)->impl, sizeof(*exec)->impl, "fake:%s", conv_form_str(problem->form));
    return STATUS_OK;
}

void conv_exec_close(struct conv_exec *exec)
{
    free(exec);
}

enum status conv_exec_run(struct conv_exec *exec, void *const port[CG_PORT_COUNT], void *workspace,
                          cudaStream_t stream)
{
    struct execution e = {.problem = exec->problem, .workspace = workspace};
    memcpy(e.port, port, sizeof e.port);
    return cuda_check(fake_call(stream, execute, &e, sizeof e), "execute a convolution");
}

void conv_library_close(struct conv_library *library)
{
    (void)library;
}

const char *conv_library_version(void)
{
    return "fake";
}
