/* The fake cuBLASLt: products of column-major matrices, C = op(A) * op(B).
 *
 * Some algorithms compute a sum in one piece. Others split it, and store the partial sums in fp32
 * or in the type of the result. The caller's mask of reduction schemes limits the choice. The
 * heuristics choose an algorithm by the sizes of the problem, so the tests execute all algorithms.
 * If the result is of a narrow type, the heuristics prefer partial sums in this type. */
#include "cublasLt.h"

#include "arrays.h"
#include "delays.h"
#include "fake.h"
#include "inject.h"
#include "products.h"

#include <memory>
#include <string.h>
#include <vector>

struct cublasLtContext {
    int device;
};

struct cublasLtMatmulDescOpaque {
    cublasComputeType_t compute;
    cublasOperation_t op[2];
    cublasLtEpilogue_t epilogue;
    cudaDataType_t bias_type;
    const void *bias;
};

struct cublasLtMatrixLayoutOpaque {
    cudaDataType_t type;
    int64_t rows, cols, ld;
};

struct cublasLtMatmulPreferenceOpaque {
    uint64_t workspace;
    uint32_t schemes;
    uint32_t alignment[4]; /* alignment of A, B, C and D in bytes */
};

namespace
{

enum { SMALL = 1024, ALIGNMENT = 16, WORKSPACE_ALIGNMENT = 256, SM_AMPERE = 80 };

/* The contents of cublasLtMatmulAlgo_t. */
struct algorithm {
    uint64_t scheme, splits, workspace;
};

/* One execution. */
struct execution {
    cublasLtMatmulDescOpaque desc;
    cublasLtMatrixLayoutOpaque la, lb, lc;
    const void *a, *b;
    void *c, *workspace;
    algorithm algo;
    int sm;
};

enum dtype dtype_of(cudaDataType_t type)
{
    return type == CUDA_R_16F ? DTYPE_F16 : type == CUDA_R_16BF ? DTYPE_BF16 : DTYPE_F32;
}

size_t bytes_of(const cublasLtMatrixLayoutOpaque &l)
{
    return (size_t)(l.rows * l.cols) * dtype_size(dtype_of(l.type));
}

cublasStatus_t status_of(cudaError_t e)
{
    return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

template <typename T> cublasStatus_t copy_value(T *to, const void *value, size_t size)
{
    if (!value || size != sizeof *to)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

/* Begins a function that AMPSCALE_FAKE_FAIL can make fail with `status`. */
#define CAN_FAIL(status)                                                                           \
    if (fake_fails(__func__))                                                                      \
    return status

template <typename T> cublasStatus_t destroy(T *object, const char *call)
{
    delete object;
    return fake_fails(call) ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

product_unit unit_of(const execution &e)
{
    enum dtype type = dtype_of(e.la.type);
    bool tf32 = e.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && e.sm >= SM_AMPERE;
    bool narrow = e.algo.scheme == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    return {.tensor_cores = type != DTYPE_F32 || tf32,
            .sm = e.sm,
            .operand = type == DTYPE_F32 && tf32 ? DTYPE_TF32 : type,
            .partial = narrow ? dtype_of(e.lc.type) : DTYPE_F32,
            .splits = (int64_t)e.algo.splits,
            .backwards = false};
}

/* Returns the rows of op(A) or the columns of op(B), one after another. Each has `length` numbers.
 */
std::vector<float> vectors(const product_unit &u, const cublasLtMatrixLayoutOpaque &l, bool columns,
                           const void *mem)
{
    int64_t n = columns ? l.cols : l.rows, length = columns ? l.rows : l.cols;
    std::vector<float> v((size_t)(n * length));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < length; j++)
            v[(size_t)(i * length + j)] =
                float_load(dtype_of(l.type), mem, columns ? i * l.ld + j : j * l.ld + i);
    product_operands(&u, (int64_t)v.size(), v.data());
    return v;
}

void multiply(const execution &e)
{
    product_unit u = unit_of(e);
    bool relu = e.desc.epilogue & CUBLASLT_EPILOGUE_RELU;
    bool biased = e.desc.epilogue & CUBLASLT_EPILOGUE_BIAS;
    std::vector<float> a = vectors(u, e.la, e.desc.op[0] == CUBLAS_OP_T, e.a);
    std::vector<float> b = vectors(u, e.lb, e.desc.op[1] == CUBLAS_OP_N, e.b);
    int64_t k = (int64_t)a.size() / e.lc.rows;
    product_rows rows(k, e.lc.rows, {u, (int64_t)a.size(), a.data()}, 0);
    std::vector<float> sums((size_t)e.lc.rows);
    if (!fake_delayed()) /* no code may rely on zeros */
        memset(e.workspace, 0xFF, e.algo.workspace);
    for (int64_t col = 0; col < e.lc.cols; col++) {
        product_sums(u, {u, k, &b[(size_t)(col * k)]}, rows, sums.data());
        for (int64_t row = 0; row < e.lc.rows; row++) {
            float v = sums[(size_t)row];
            if (biased)
                v += float_load(dtype_of(e.desc.bias_type), e.desc.bias, row);
            float_store(dtype_of(e.lc.type), e.c, col * e.lc.ld + row, relu && v < 0 ? 0 : v);
        }
    }
}

} // namespace

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED"
                                                    : "another error of cuBLASLt";
}

size_t cublasLtGetVersion()
{
    return 130000;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    if (fake_fails("cublasLtCreate") || fake_broken())
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = new cublasLtContext{fake_device()};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return destroy(handle, __func__);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType_t)
{
    CAN_FAIL(CUBLAS_STATUS_ALLOC_FAILED);
    *desc = new cublasLtMatmulDescOpaque{
        compute, {CUBLAS_OP_N, CUBLAS_OP_N}, CUBLASLT_EPILOGUE_DEFAULT, CUDA_R_32F, NULL};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    return destroy(desc, __func__);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t size)
{
    CAN_FAIL(CUBLAS_STATUS_INVALID_VALUE);
    if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE)
        return copy_value(&desc->epilogue, value, size);
    if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER)
        return copy_value(&desc->bias, value, size);
    if (attribute == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE)
        return copy_value(&desc->bias_type, value, size);
    return copy_value(&desc->op[attribute == CUBLASLT_MATMUL_DESC_TRANSB], value, size);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    CAN_FAIL(CUBLAS_STATUS_ALLOC_FAILED);
    *layout = new cublasLtMatrixLayoutOpaque{type, (int64_t)rows, (int64_t)cols, ld};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return destroy(layout, __func__);
}

/* By default, the preference allows all schemes, allows no workspace, and requires arguments that
 * are aligned to 256 bytes. */
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    CAN_FAIL(CUBLAS_STATUS_ALLOC_FAILED);
    *preference =
        new cublasLtMatmulPreferenceOpaque{0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    return destroy(preference, __func__);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t size)
{
    CAN_FAIL(CUBLAS_STATUS_INVALID_VALUE);
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        return copy_value(&preference->workspace, value, size);
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        return copy_value(&preference->schemes, value, size);
    return copy_value(&preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
                      value, size);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *found)
{
    *found = 0;
    if (fake_fails("cublasLtMatmulAlgoGetHeuristic") || fake_broken())
        return CUBLAS_STATUS_INTERNAL_ERROR;
    bool first = desc->op[0] == CUBLAS_OP_T, second = desc->op[1] == CUBLAS_OP_T;
    int64_t k = first ? a->rows : a->cols;
    if ((first ? a->cols : a->rows) != c->rows || (second ? b->rows : b->cols) != c->cols ||
        (second ? b->cols : b->rows) != k || a->type != b->type || wanted < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (uint32_t alignment : preference->alignment) /* arguments are aligned to 16 bytes only */
        if (alignment > ALIGNMENT)
            return CUBLAS_STATUS_NOT_SUPPORTED;
    if (desc->epilogue & CUBLASLT_EPILOGUE_BIAS &&
        (!desc->bias || (uintptr_t)desc->bias % ALIGNMENT != 0))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const uint32_t schemes[] = {CUBLASLT_REDUCTION_SCHEME_NONE,
                                CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
                                CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE};
    bool narrow = c->type != CUDA_R_32F;
    uint32_t scheme = schemes[narrow ? 2 : (c->rows + c->cols + k) % 3];
    if ((scheme & preference->schemes) != scheme)
        scheme = schemes[(c->rows / 2 + c->cols) % 2];
    algorithm algo = {scheme, scheme ? 3u : 1u, SMALL};
    if (scheme)
        algo.workspace = algo.splits * (uint64_t)(c->rows * c->cols) * sizeof(float);
    if (algo.workspace > preference->workspace) /* a sum in one piece needs only SMALL bytes */
        algo = {CUBLASLT_REDUCTION_SCHEME_NONE, 1, SMALL};
    results[0] = cublasLtMatmulHeuristicResult_t{};
    memcpy(&results[0].algo, &algo, sizeof algo);
    results[0].workspaceSize = algo.workspace;
    results[0].wavesCount = 1;
    if (fake_fails("cublasLtHeuristicState"))
        results[0].state = CUBLAS_STATUS_NOT_SUPPORTED;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t la, const void *b,
                              cublasLtMatrixLayout_t lb, const void *beta, const void *,
                              cublasLtMatrixLayout_t, void *d, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t size,
                              cudaStream_t stream)
{
    if (fake_fails("cublasLtMatmul") || fake_broken())
        return CUBLAS_STATUS_EXECUTION_FAILED;
    execution e = {*desc, *la, *lb, *ld, a, b, d, workspace, {}, fake_sm(handle->device)};
    memcpy(&e.algo, algo, sizeof e.algo);
    bool plain = *(const float *)alpha == 1 && *(const float *)beta == 0;
    bool aligned = ((uintptr_t)a | (uintptr_t)b | (uintptr_t)d) % ALIGNMENT == 0 &&
                   (uintptr_t)workspace % WORKSPACE_ALIGNMENT == 0;
    if (!plain || !aligned || size < e.algo.workspace ||
        (desc->epilogue & CUBLASLT_EPILOGUE_BIAS && !desc->bias))
        return CUBLAS_STATUS_INVALID_VALUE;
    double k = (double)(desc->op[0] == CUBLAS_OP_T ? la->rows : la->cols);
    double flops = 2 * k * (double)ld->rows * (double)ld->cols;
    double bytes = (double)(bytes_of(*la) + bytes_of(*lb) + bytes_of(*ld));
    product_unit u = unit_of(e);
    enum fake_rate rate = !u.tensor_cores           ? RATE_F32
                          : u.operand == DTYPE_TF32 ? RATE_TF32
                                                    : RATE_NARROW;
    bool leave_out = fake_too_large(bytes, flops);
    fake_know(a, bytes_of(*la));
    fake_know(b, bytes_of(*lb));
    fake_know(d, bytes_of(*ld));
    fake_profiled_library();
    return status_of(fake_submit_call(
        stream, FAKE_CUBLASLT,
        [=] {
            if (leave_out)
                fake_clear(e.c, bytes_of(e.lc));
            else
                multiply(e);
        },
        fake_takes(bytes, flops, rate)));
}
