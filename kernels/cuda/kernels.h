/* The CUDA backend's own kernels, as plain C functions that put work on a stream.
 *
 * Each function computes the operation of kernels/ops.h that it is named after, in fp32 arithmetic,
 * on tensors stored as F32, F16 or BF16. The plan of the operation chooses layouts and calls the
 * function. Every pointer is to device memory and aligned to 16 bytes, unless a comment says
 * otherwise. No function waits for the device or allocates memory, so all functions can be captured
 * in a graph. The order of every sum depends on shapes alone, so results have the same bits in
 * every run.
 *
 * If a launch fails, the function fails as cuda_error() of error.h does. For tensors of other types
 * the functions return STATUS_UNSUPPORTED. */
#pragma once

#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* the target of a cudaStream_t */

/* Where kernels are launched. */
struct cu_queue {
    struct CUstream_st *stream;
    int multiprocessors; /* number of the device's multiprocessors, which limits the blocks of
                          * grid-stride loops */
    bool pdl; /* programmatic dependent launch: kernels are launched before the previous kernel of
               * the stream is complete, and wait for it. Needs cu_code_sm of at least 90 */
};

/* Sets *sm to the compute capability for which the current device's code was compiled: 90 for 9.0.
 * If the driver has compiled the code from PTX, this may be less than the device's own capability.
 */
MUST_CHECK enum status cu_code_sm(int *sm);

/* --- batch norm over a matrix (rows = N*H*W, channels): NHWC --- */

struct cu_bn_shape {
    enum dtype type; /* type of x, z, y and their gradients; all other arrays are fp32 */
    int64_t rows;
    int channels;
};

/* The mask has a bit for each element of Y. The bit is 1 if Y > 0. The number of bytes in a row of
 * the mask is (channels + 7) / 8. The bit of channel c is bit c % 8 of byte c / 8; bits beyond the
 * last channel are 0. */

/* Bytes of workspace for the sums below. */
size_t cu_bn_workspace(const struct cu_bn_shape *s);

/* `sums` has 2C + 1 doubles: C sums of x, C sums of x^2, and the number of rows. struct bn_sync can
 * sum these over ranks. */
MUST_CHECK enum status cu_bn_sums(const struct cu_queue *q, const struct cu_bn_shape *s,
                                  const void *x, double *sums, void *workspace);

struct cu_bn_statistics {
    float *mean, *invstd;
    float *rmean, *rvar; /* running statistics */
    float eps, momentum;
};

/* Computes the statistics from the sums of this rank or of all ranks. */
MUST_CHECK enum status cu_bn_finalize(const struct cu_queue *q, int channels, const double *sums,
                                      const struct cu_bn_statistics *statistics);

/* cu_bn_sums and cu_bn_finalize in one call, for this rank alone. */
MUST_CHECK enum status cu_bn_statistics(const struct cu_queue *q, const struct cu_bn_shape *s,
                                        const void *x, const struct cu_bn_statistics *statistics,
                                        void *workspace);

struct cu_bn_apply {
    const void *x;
    const void *z;         /* NULL: no residual */
    const float *z_affine; /* (2C): scales and shifts of z, as ROLE_Z_AFFINE; NULL: z unchanged */
    const float *mean;
    const float *invstd; /* NULL: computed from `var` and `eps`, as in evaluation */
    const float *var;
    float eps;
    const float *gamma, *beta;
    bool relu;
    void *y;
    uint8_t *mask; /* the mask of y; NULL: not needed */
};
MUST_CHECK enum status cu_bn_apply(const struct cu_queue *q, const struct cu_bn_shape *s,
                                   const struct cu_bn_apply *a);

struct cu_bn_bwd {
    const void *dy;
    const void *dy2; /* NULL: none */
    const void *x;
    const void *y;       /* the ReLU's result; NULL: no ReLU, or `mask` is given instead */
    const uint8_t *mask; /* any alignment */
    const float *mean, *invstd, *gamma;
    float *dgamma, *dbeta;
    void *dx;
    void *dz;             /* NULL: no residual. One of dx and dz may be dy or dy2. */
    enum dtype dz_rounds; /* if dz is f32: the precision to which it is rounded */
};

/* Computes dgamma, dbeta, dz, and the sums for cu_bn_bwd_apply. `sums` has 2C + 1 doubles: C sums
 * of d, C sums of d * (x - mean), and the number of rows. d is the gradient of batch norm's result:
 * dy + dy2, or 0 where the ReLU gave 0. */
MUST_CHECK enum status cu_bn_bwd_sums(const struct cu_queue *q, const struct cu_bn_shape *s,
                                      const struct cu_bn_bwd *a, double *sums, void *workspace);

/* Computes dx from the sums of this rank or of all ranks. */
MUST_CHECK enum status cu_bn_bwd_apply(const struct cu_queue *q, const struct cu_bn_shape *s,
                                       const struct cu_bn_bwd *a, const double *sums);

/* --- the backward pass of two batch norms whose results were added --- */

/* The residual's batch norm; the members are those of struct cu_bn_bwd. */
struct cu_bn_bwd_z {
    const void *z;
    const float *mean, *invstd, *gamma;
    float *dgamma, *dbeta;
};

/* Bytes of workspace for the sums below. */
size_t cu_bn_workspace_two(const struct cu_bn_shape *s);

/* Computes dgamma and dbeta of both batch norms. Writes the gradient d of cu_bn_bwd_sums to a->dz.
 * a->dx is not used. eq (2, 3C) is set to ROLE_EQ of x, followed by ROLE_EQ of z. cu_bn_bwd_lines
 * computes the gradients of x and z from d and eq. */
MUST_CHECK enum status cu_bn_bwd_sums_two(const struct cu_queue *q, const struct cu_bn_shape *s,
                                          const struct cu_bn_bwd *a, const struct cu_bn_bwd_z *z,
                                          float *eq, void *workspace);

/* OP_BN_BWD_APPLY of two batch norms. eq and z_eq have the shape (3C). Either dx or dz may be the
 * memory of dy, but not both. */
struct cu_bn_lines {
    const void *dy, *x, *z;
    const float *eq, *z_eq;
    void *dx, *dz;
};
MUST_CHECK enum status cu_bn_bwd_lines(const struct cu_queue *q, const struct cu_bn_shape *s,
                                       const struct cu_bn_lines *a);

/* --- batch norm around convolutions that compute its sums (OP_CONV_STATS_FWD) --- */

struct cu_bn_from_sums {
    int channels;
    int64_t rows;      /* rows that were summed */
    const float *sums; /* (2C): sums of x, then sums of x^2 */
    const float *gamma, *beta;
    enum dtype type; /* of `affine` */
    void *affine; /* (2C): scales, then shifts; NULL: not wanted, and gamma and beta are not read */
};

/* OP_BN_FINALIZE for the sums of this rank alone. */
MUST_CHECK enum status cu_bn_from_sums(const struct cu_queue *q, const struct cu_bn_from_sums *a,
                                       const struct cu_bn_statistics *statistics);

/* OP_BN_BWD_APPLY. eq has the shape (3C). dx may be the memory of dy. */
MUST_CHECK enum status cu_bn_bwd_line(const struct cu_queue *q, const struct cu_bn_shape *s,
                                      const void *dy, const void *x, const float *eq, void *dx);

/* --- pooling, NHWC --- */

struct cu_pool {
    enum dtype type;
    int n, c;
    int in[2], out[2];     /* height, width of X and of Y, below 65536 */
    struct pool_attr attr; /* unused in average pooling */
};

/* `index` may be NULL. */
MUST_CHECK enum status cu_maxpool_fwd(const struct cu_queue *q, const struct cu_pool *p,
                                      const void *x, void *y, uint8_t *index);
/* `dy2` may be NULL. */
MUST_CHECK enum status cu_maxpool_bwd(const struct cu_queue *q, const struct cu_pool *p,
                                      const void *dy, const void *dy2, const uint8_t *index,
                                      void *dx);
MUST_CHECK enum status cu_avgpool_fwd(const struct cu_queue *q, const struct cu_pool *p,
                                      const void *x, void *y);
MUST_CHECK enum status cu_avgpool_bwd(const struct cu_queue *q, const struct cu_pool *p,
                                      const void *dy, void *dx);

/* Adds x to every attr.stride-th pixel of y. x has height and width `out`, y has height and width
 * `in`. */
MUST_CHECK enum status cu_add_strided(const struct cu_queue *q, const struct cu_pool *p,
                                      const void *x, void *y);

/* --- batch norm, ReLU and maximum pooling in one operation --- */

/* Whether the functions below support the windows (3x3 with stride 2 and padding 1, or 2x2
 * with stride 2) and the number of channels (a multiple of 8). If not, they return
 * STATUS_UNSUPPORTED. */
bool cu_bn_pool_has(const struct cu_pool *p);

/* OP_BN_POOL_FWD. Uses only the members x, mean, invstd, gamma, beta and y of `a`. If y is f32, its
 * values are rounded to the precision `rounds`. */
MUST_CHECK enum status cu_bn_pool_fwd(const struct cu_queue *q, const struct cu_pool *p,
                                      const struct cu_bn_apply *a, enum dtype rounds,
                                      uint8_t *index);

/* OP_BN_POOL_BWD. Does not use the members y, mask and dz of `a`. If dx is f32, d is rounded to the
 * precision a->dz_rounds. */
size_t cu_bn_pool_workspace(const struct cu_pool *p);
MUST_CHECK enum status cu_bn_pool_bwd(const struct cu_queue *q, const struct cu_pool *p,
                                      const struct cu_bn_bwd *a, const uint8_t *index,
                                      void *workspace);

/* --- element by element, over n elements --- */

MUST_CHECK enum status cu_relu_fwd(const struct cu_queue *q, enum dtype type, int64_t n,
                                   const void *x, void *y);
/* `dy2` may be NULL. */
MUST_CHECK enum status cu_relu_bwd(const struct cu_queue *q, enum dtype type, int64_t n,
                                   const void *dy, const void *dy2, const void *y, void *dx);
MUST_CHECK enum status cu_add(const struct cu_queue *q, enum dtype type, int64_t n, const void *x,
                              const void *z, void *y);

/* Rounds fp32 to values of `precision` (F16, BF16, TF32). */
MUST_CHECK enum status cu_round(const struct cu_queue *q, enum dtype precision, int64_t n,
                                const float *x, float *y);

/* Converts from one floating type to another. */
MUST_CHECK enum status cu_cast(const struct cu_queue *q, enum dtype from, enum dtype to, int64_t n,
                               const void *x, void *y);

/* y[b][j][i] = x[b][i][j], i < rows, j < cols, between floating types. From NCHW to NHWC rows = C
 * and cols = H*W; from NHWC to NCHW rows = H*W and cols = C. */
MUST_CHECK enum status cu_transpose(const struct cu_queue *q, enum dtype from, enum dtype to,
                                    int64_t batch, int64_t rows, int64_t cols, const void *x,
                                    void *y);

/* OP_DROPOUT_FWD of x (rows, width); for OP_DROPOUT_BWD x is DY and y is DX. */
MUST_CHECK enum status cu_dropout(const struct cu_queue *q, enum dtype type, int64_t rows,
                                  int64_t width, const struct dropout_attr *attr,
                                  const struct step_state *state, const void *x, void *y);

/* Says how OP_NORMALIZE mixes rows; if `partner` is NULL, it does not mix. */
struct cu_mix {
    const int32_t *partner;
    const struct step_state *state;
    int64_t plane; /* pixels of an image; a row is an image */
};

/* OP_NORMALIZE of x (pixels, 3) to y (pixels, channels), NHWC of `type`. `channels` is 3 or 4; a
 * fourth channel becomes 0. */
MUST_CHECK enum status cu_normalize(const struct cu_queue *q, enum dtype type, int64_t pixels,
                                    int channels, const struct normalize_attr *attr,
                                    const struct cu_mix *mix, const uint8_t *x, void *y);

/* --- channels of a matrix (rows, width), such as an NHWC tensor --- */

/* Copies x (rows, from) to y (rows, to) between floating types: columns beyond `from` become 0,
 * columns beyond `to` are dropped. */
MUST_CHECK enum status cu_resize_rows(const struct cu_queue *q, enum dtype from_type,
                                      enum dtype to_type, int64_t rows, int64_t from, int64_t to,
                                      const void *x, void *y);

/* y += bias per column, then ReLU if `relu`. y and bias have the same type. */
MUST_CHECK enum status cu_add_bias(const struct cu_queue *q, const struct cu_bn_shape *s,
                                   const void *bias, bool relu, void *y);

/* The sum of each column. */
MUST_CHECK enum status cu_column_sums(const struct cu_queue *q, const struct cu_bn_shape *s,
                                      const void *x, float *sum, void *workspace);
size_t cu_column_sums_workspace(const struct cu_bn_shape *s);

/* --- the loss --- */

struct cu_xent {
    enum dtype type; /* of x and dx */
    int64_t rows;
    int classes;
    float label_smoothing;
    const void *x;
    const int32_t *label;
    const int32_t *partner;         /* NULL: rows are not mixed */
    const struct step_state *state; /* read only if dx or partner is not NULL */
    void *dx;                       /* NULL: not wanted */
    struct loss_metrics *metrics;
    int64_t *bad_label; /* host memory that the device can write, or NULL; see below */
};

size_t cu_softmax_xent_workspace(int64_t rows);

/* If a label is not a class, dx and metrics are not written. The workspace begins with an int64_t:
 * the first row with such a label, or -1 if there is no such row. If there is such a row, the
 * device also writes it to *bad_label. */
MUST_CHECK enum status cu_softmax_xent(const struct cu_queue *q, const struct cu_xent *a,
                                       void *workspace);

/* --- the optimizer --- */

/* A piece of a segment, for one block of threads. */
struct cu_chunk {
    int64_t begin;
    int32_t count;
    int32_t segment;
};

/* Cuts the segments into chunks, and returns the number of chunks. `chunk` is in host memory. If
 * `chunk` is NULL, the function only counts the chunks. */
int64_t cu_chunks_cut(const struct sgd_attr *attr, struct cu_chunk *chunk);

/* The segments, in device memory. The plan uploads them. */
struct cu_segments {
    int n_segments;
    int64_t n_chunks;
    const struct sgd_segment *segment;
    const struct cu_chunk *chunk;
};

struct cu_sgd {
    float momentum;
    bool nesterov;
    bool lars;  /* some segment has a trust coefficient */
    float clip; /* limit of the gradient's norm; 0: no limit */
    const struct step_state *state;
    enum dtype gradient, half, copy; /* storage types of dw, dw_half and wcopy */
    const void *dw, *dw_half; /* dw_half: gradients of the segments with `half`; NULL: none */
    float *w, *v;
    void *wcopy; /* NULL: not wanted */
};

/* Size of the workspace in bytes. Only LARS and the limit of the gradient's norm need a workspace;
 * 0: neither is used. */
size_t cu_sgd_workspace(const struct cu_sgd *a, const struct cu_segments *s);

MUST_CHECK enum status cu_sgd(const struct cu_queue *q, const struct cu_sgd *a,
                              const struct cu_segments *s, void *workspace);

/* Sets state->found_inf to whether any gradient of `a` is infinite or NaN. */
MUST_CHECK enum status cu_check_finite(const struct cu_queue *q, const struct cu_sgd *a,
                                       const struct cu_segments *s, struct step_state *state);

/* --- the loss scaler: kernels/scaler.h, in device memory --- */

/* OP_SCALE_SET. */
MUST_CHECK enum status cu_scale_set(const struct cu_queue *q, const struct scaler_state *scaler,
                                    struct step_state *state);

/* OP_SCALE_UPDATE. */
MUST_CHECK enum status cu_scale_update(const struct cu_queue *q, const struct scaler_rule *rule,
                                       struct scaler_state *scaler, const struct step_state *state);

/* Launches the kernel of PROFILE_MARK (enum profile_call). */
MUST_CHECK enum status cu_profile_mark(const struct cu_queue *q);

#ifdef __cplusplus
}
#endif
