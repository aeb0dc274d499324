/* Plans and executes matrix products through cuBLASLt.
 *
 * The library's matrices are column-major, and the matrices of struct matmul_problem are row-major.
 * So the library sees each matrix transposed. The library computes C^T (n, m) = B^T * A^T: its
 * first operand is B, and its bias per row is the bias per column of C. */
#include "kernels/cuda/matmul.h"

#include "base/array.h"

#include <cublasLt.h>
#include <stdlib.h>

enum { WORKSPACE = 32 << 20, ALIGNMENT = 16 };

struct matmul_library {
    cublasLtHandle_t handle;
};

struct blas_matmul {
    struct matmul base;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c; /* layouts of A, B and C */
    cublasLtMatmulAlgo_t algorithm;
};

static enum status cublas_check(cublasStatus_t s, const char *action)
{
    if (s == CUBLAS_STATUS_SUCCESS)
        return STATUS_OK;
    enum status st = s == CUBLAS_STATUS_NOT_SUPPORTED  ? STATUS_UNSUPPORTED
                     : s == CUBLAS_STATUS_ALLOC_FAILED ? STATUS_OOM
                                                       : STATUS_LIBRARY;
    return status_fail(st, "cuBLASLt cannot %s: %s", action, cublasLtGetStatusString(s));
}

static cudaDataType_t type_of(enum dtype type)
{
    return type == DTYPE_F16 ? CUDA_R_16F : type == DTYPE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static void matmul_library_close_with(struct cuda_device *dev)
{
    cublasLtDestroy(dev->gemm->handle);
    free(dev->gemm);
    dev->gemm = NULL;
}

static enum status matmul_library_open(struct cuda_device *dev)
{
    struct matmul_library *l;
    TRY(array_new(&l, 1));
    enum status st = cublas_check(cublasLtCreate(&l->handle), "start");
    if (st != STATUS_OK) {
        free(l);
        return st;
    }
    dev->gemm = l;
    cuda_at_close(dev, matmul_library_close_with);
    return STATUS_OK;
}

#define SET(m, attribute, value)                                                                   \
    cublas_check(cublasLtMatmulDescSetAttribute((m)->product, CUBLASLT_MATMUL_DESC_##attribute,    \
                                                &(value), sizeof(value)),                          \
                 "describe a product")

static enum status matmul_describe(struct blas_matmul *m)
{
    const struct matmul_problem *p = &m->base.problem;
    bool tf32 = p->type == DTYPE_F32 && p->tf32;
    cublasComputeType_t compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasOperation_t first = p->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = p->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = p->bias && p->relu ? CUBLASLT_EPILOGUE_RELU_BIAS
                                  : p->bias          ? CUBLASLT_EPILOGUE_BIAS
                                  : p->relu          ? CUBLASLT_EPILOGUE_RELU
                                                     : CUBLASLT_EPILOGUE_DEFAULT;
    cudaDataType_t bias = type_of(p->type);
    /* Never read: the heuristics take the alignment of the bias from it. */
    static const char aligned[ALIGNMENT] __attribute__((aligned(ALIGNMENT)));
    const void *pointer = aligned;
    TRY(cublas_check(cublasLtMatmulDescCreate(&m->product, compute, CUDA_R_32F),
                     "describe a product"));
    TRY(SET(m, TRANSA, first));
    TRY(SET(m, TRANSB, second));
    TRY(SET(m, EPILOGUE, epilogue));
    if (p->bias) {
        TRY(SET(m, BIAS_DATA_TYPE, bias));
        TRY(SET(m, BIAS_POINTER, pointer));
    }
    return STATUS_OK;
}

/* Describes a row-major matrix whose rows in memory have `width` elements. */
static enum status matmul_lay_out(cublasLtMatrixLayout_t *l, enum dtype type, int64_t rows,
                                  int64_t width)
{
    return cublas_check(
        cublasLtMatrixLayoutCreate(l, type_of(type), (uint64_t)width, (uint64_t)rows, width),
        "describe a matrix");
}

static enum status matmul_lay_out_all(struct blas_matmul *m)
{
    const struct matmul_problem *p = &m->base.problem;
    TRY(matmul_lay_out(&m->a, p->type, p->a_transposed ? p->k : p->m,
                       p->a_transposed ? p->m : p->k));
    TRY(matmul_lay_out(&m->b, p->type, p->b_transposed ? p->n : p->k,
                       p->b_transposed ? p->k : p->n));
    return matmul_lay_out(&m->c, p->result, p->m, p->n);
}

/* Chooses the first algorithm of the heuristics that meets two conditions. The algorithm must sum
 * without atomics, so that the same operands give the same bits. It must not store partial sums in
 * the result's type, because they would be rounded, and in fp16 could overflow even if the complete
 * sum does not. */
static enum status matmul_choose(struct blas_matmul *m)
{
    enum status st;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t best;
    const size_t workspace = WORKSPACE;
    const uint32_t alignment = ALIGNMENT;
    static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    int n = 0;
    CHECK(cublas_check(cublasLtMatmulPreferenceCreate(&preference), "choose an algorithm"));
    CHECK(cublas_check(
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace, sizeof workspace),
        "choose an algorithm"));
    CHECK(cublas_check(
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                             &reductions, sizeof reductions),
        "choose an algorithm"));
    for (size_t i = 0; i < sizeof aligned / sizeof *aligned; i++)
        CHECK(cublas_check(cublasLtMatmulPreferenceSetAttribute(preference, aligned[i], &alignment,
                                                                sizeof alignment),
                           "choose an algorithm"));
    CHECK(
        cublas_check(cublasLtMatmulAlgoGetHeuristic(m->base.device->gemm->handle, m->product, m->b,
                                                    m->a, m->c, m->c, preference, 1, &best, &n),
                     "choose an algorithm"));
    if (n == 0 || best.state != CUBLAS_STATUS_SUCCESS)
        CHECK(status_fail(STATUS_UNSUPPORTED, "cuBLASLt has no algorithm for this matrix product"));
    m->algorithm = best.algo;
    m->base.workspace = best.workspaceSize;
done:
    if (preference)
        cublasLtMatmulPreferenceDestroy(preference);
    return st;
}

enum status matmul_open(struct cuda_device *dev, const struct matmul_problem *problem,
                        struct matmul **out)
{
    enum status st;
    *out = NULL;
    TRY(cuda_enter(dev));
    if (!dev->gemm && !dev->described)
        TRY(matmul_library_open(dev));
    struct blas_matmul *m;
    TRY(array_new(&m, 1));
    m->base = (struct matmul){.device = dev, .problem = *problem, .impl = "cublaslt"};
    if (dev->described) { /* cuBLASLt plans only for GPUs that are present */
        m->base.workspace = WORKSPACE;
        *out = &m->base;
        return STATUS_OK;
    }
    CHECK(matmul_describe(m));
    CHECK(matmul_lay_out_all(m));
    CHECK(matmul_choose(m));
    *out = &m->base;
done:
    if (st != STATUS_OK)
        matmul_close(&m->base);
    return st;
}

void matmul_close(struct matmul *base)
{
    struct blas_matmul *m = (struct blas_matmul *)base;
    if (!m)
        return;
    cublasLtMatrixLayout_t layout[] = {m->a, m->b, m->c};
    for (int i = 0; i < 3; i++)
        if (layout[i])
            cublasLtMatrixLayoutDestroy(layout[i]);
    if (m->product)
        cublasLtMatmulDescDestroy(m->product);
    free(m);
}

enum status matmul_run(struct matmul *base, const void *a, const void *b, const void *bias, void *c,
                       void *workspace, cudaStream_t stream)
{
    struct blas_matmul *m = (struct blas_matmul *)base;
    const float one = 1, zero = 0;
    if (bias)
        TRY(SET(m, BIAS_POINTER, bias));
    return cublas_check(cublasLtMatmul(base->device->gemm->handle, m->product, &one, b, m->b, a,
                                       m->a, &zero, c, m->c, c, m->c, &m->algorithm, workspace,
                                       base->workspace, stream),
                        "multiply");
}
