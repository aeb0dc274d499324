/* Matrix products of the fake GPU: plain loops in place of cuBLASLt. */
#include "kernels/cuda/matmul.h"

#include "arrays.h"
#include "fake.h"

enum { WORKSPACE = 1024, WORKSPACE_ALIGNMENT = 256 };

/* One execution. */
struct execution {
    struct matmul_problem problem;
    const void *a, *b, *bias;
    void *c, *workspace;
};

static void execute(const void *context)
{
    const struct execution *e = context;
    const struct matmul_problem *p = &e->problem;
    enum dtype operand = p->tf32 ? DTYPE_TF32 : DTYPE_F32;
    float *a = floats_from(p->type, operand, p->m * p->k, e->a);
    float *b = floats_from(p->type, operand, p->k * p->n, e->b);
    float *bias = e->bias ? floats_from(p->type, DTYPE_F32, p->n, e->bias) : NULL;
    memset(e->workspace, 0xFF, WORKSPACE);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = bias ? (double)bias[j] : 0;
            for (int64_t l = 0; l < p->k; l++)
                sum += (double)a[p->a_transposed ? l * p->m + i : i * p->k + l] *
                       (double)b[p->b_transposed ? j * p->k + l : l * p->n + j];
            if (p->relu && sum < 0)
                sum = 0;
            float_store(p->result, e->c, i * p->n + j, (float)sum);
        }
    free(a);
    free(b);
    free(bias);
}

enum status matmul_open(struct cuda_device *dev, const struct matmul_problem *problem,
                        struct matmul **out)
{
    *out = malloc(sizeof **out);
    if (!*out)
        return status_fail(STATUS_OOM, "no memory for a product");
    **out = (struct matmul){dev, *problem, WORKSPACE, "fake:matmul"};
    return STATUS_OK;
}

void matmul_close(struct matmul *m)
{
    free(m);
}

enum status matmul_run(struct matmul *m, const void *a, const void *b, const void *bias, void *c,
                       void *workspace, cudaStream_t stream)
{
    struct execution e = {m->problem, a, b, bias, c, workspace};
    if ((uintptr_t)workspace % WORKSPACE_ALIGNMENT != 0)
        return status_fail(STATUS_LIBRARY, "cannot multiply: the workspace is not aligned");
    return cuda_check(fake_call(stream, execute, &e, sizeof e), "multiply");
}

void matmul_library_close(struct matmul_library *library)
{
    (void)library;
}
