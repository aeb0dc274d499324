/* Convolutions of the fake GPU: plain loops in place of cuDNN. Forms with a bias are there on
 * Hopper alone, so that the way around them is taken too. */
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
    int64_t n = a->form == CONV_BWD_DATA ? nx : a->form == CONV_BWD_WEIGHTS ? nw : ny;
    struct sums s = {x, w, y, calloc((size_t)n, sizeof(double)), a->c / a->conv.groups};
    if (!s.sum)
        abort();
    for_each_product(a,
                     a->form == CONV_BWD_DATA      ? add_to_x
                     : a->form == CONV_BWD_WEIGHTS ? add_to_w
                                                   : add_to_y,
                     &s);
    store(e, s.sum, n,
          e->port[a->form == CONV_BWD_DATA      ? CG_DX
                  : a->form == CONV_BWD_WEIGHTS ? CG_DW
                                                : CG_Y]);
    free(s.sum);
    free(x);
    free(w);
    free(y);
}

enum status conv_exec_open(struct cuda_device *dev, const struct conv_problem *problem,
                           struct conv_exec **exec)
{
    bool fused = problem->form == CONV_FWD_BIAS || problem->form == CONV_FWD_BIAS_RELU;
    *exec = NULL;
    if (problem->form > CONV_FWD_BIAS_RELU || (fused && dev->sm < SM_FUSED))
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
