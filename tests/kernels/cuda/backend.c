/* Batch norm with masks. */
#include "tests/kernels/cuda/backend.h"

#include "kernels/host.h"

#include <stdlib.h>
#include <string.h>

struct shim_plan {
    struct op_plan base;
    enum status (*run)(const struct shim_plan *p, void *const arg[ROLE_COUNT]);
};

static const struct backend backend_shim;

struct cu_queue shim_queue(void)
{
    return (struct cu_queue){.stream = NULL, .multiprocessors = 1};
}

static size_t align64(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* --- segments --- */

enum status shim_segments_new(const struct sgd_attr *attr, struct shim_segments *s)
{
    int64_t chunks = cu_chunks_cut(attr, NULL);
    size_t bytes = (size_t)attr->n_segments * sizeof *s->segment;
    s->chunk = malloc((size_t)chunks * sizeof *s->chunk);
    s->segment = malloc(bytes);
    if (!s->chunk || !s->segment) {
        shim_segments_free(s);
        return status_fail(STATUS_OOM, "no memory for segments");
    }
    cu_chunks_cut(attr, s->chunk);
    memcpy(s->segment, attr->segment, bytes);
    s->s = (struct cu_segments){attr->n_segments, chunks, s->segment, s->chunk};
    return STATUS_OK;
}

void shim_segments_free(struct shim_segments *s)
{
    free(s->chunk);
    free(s->segment);
    *s = (struct shim_segments){.s.n_chunks = 0};
}

/* --- batch norm --- */

static struct cu_bn_shape bn_shape(const struct op_desc *d)
{
    const struct tensor_desc *x = &d->t[ROLE_X];
    return (struct cu_bn_shape){x->type, tensor_count(x) / x->dim[1], (int)x->dim[1]};
}

/* Batch norm's workspace has three parts, in this order: the sums, the mask, and the kernels' own
 * workspace. */
static size_t bn_mask_at(const struct cu_bn_shape *s)
{
    return align64((2 * (size_t)s->channels + 1) * sizeof(double));
}

/* Bytes of a row of a mask. */
static int64_t mask_stride(int channels)
{
    return (channels + 7) / 8;
}

static size_t bn_scratch_at(const struct cu_bn_shape *s)
{
    return bn_mask_at(s) + align64((size_t)(s->rows * mask_stride(s->channels)));
}

static size_t bn_workspace(const struct op_desc *d)
{
    struct cu_bn_shape s = bn_shape(d);
    return bn_scratch_at(&s) + cu_bn_workspace(&s);
}

static uint8_t *bn_mask(const struct cu_bn_shape *s, void *workspace)
{
    return (uint8_t *)workspace + bn_mask_at(s);
}

static void *bn_scratch(const struct cu_bn_shape *s, void *workspace)
{
    return (char *)workspace + bn_scratch_at(s);
}

static bool is_positive(enum dtype type, const void *y, int64_t i)
{
    if (type == DTYPE_F32)
        return ((const float *)y)[i] > 0;
    /* fp16 and bf16 consist of a sign bit and a magnitude. NaNs have the largest magnitudes. */
    uint16_t bits = ((const uint16_t *)y)[i], infinity = type == DTYPE_F16 ? 0x7c00 : 0x7f80;
    return bits > 0 && bits <= infinity;
}

/* Computes the mask that belongs to Y. */
static void mask_from(const struct cu_bn_shape *s, const void *y, uint8_t *mask)
{
    memset(mask, 0, (size_t)(s->rows * mask_stride(s->channels)));
    for (int64_t row = 0; row < s->rows; row++)
        for (int c = 0; c < s->channels; c++)
            if (is_positive(s->type, y, row * s->channels + c))
                mask[row * mask_stride(s->channels) + c / 8] |= (uint8_t)(1 << c % 8);
}

static enum status check_mask(const struct cu_bn_shape *s, const void *y, const uint8_t *mask)
{
    size_t bytes = (size_t)(s->rows * mask_stride(s->channels));
    uint8_t *wanted = malloc(bytes);
    if (!wanted)
        return status_fail(STATUS_OOM, "no memory for a mask");
    mask_from(s, y, wanted);
    enum status st = STATUS_OK;
    if (memcmp(wanted, mask, bytes) != 0)
        st = status_fail(STATUS_MISMATCH, "the mask does not match Y");
    free(wanted);
    return st;
}

static enum status run_bn_fwd(const struct shim_plan *p, void *const arg[ROLE_COUNT])
{
    const struct op_desc *d = &p->base.desc;
    struct cu_queue q = shim_queue();
    struct cu_bn_shape s = bn_shape(d);
    bool train = d->kind == OP_BN_FWD_TRAIN;
    struct cu_bn_apply a = {.x = arg[ROLE_X],
                            .z = d->t[ROLE_Z].ndim ? arg[ROLE_Z] : NULL,
                            .mean = arg[train ? ROLE_MEAN : ROLE_RMEAN],
                            .invstd = train ? arg[ROLE_INVSTD] : NULL,
                            .var = arg[ROLE_RVAR],
                            .eps = d->attr.bn.eps,
                            .gamma = arg[ROLE_GAMMA],
                            .beta = arg[ROLE_BETA],
                            .relu = d->attr.bn.relu,
                            .y = arg[ROLE_Y],
                            .mask = d->attr.bn.relu ? bn_mask(&s, arg[ROLE_WORKSPACE]) : NULL};
    if (train) {
        double *sums = arg[ROLE_WORKSPACE];
        struct cu_bn_statistics statistics = {arg[ROLE_MEAN],  arg[ROLE_INVSTD],
                                              arg[ROLE_RMEAN], arg[ROLE_RVAR],
                                              d->attr.bn.eps,  d->attr.bn.momentum};
        TRY(cu_bn_sums(&q, &s, a.x, sums, bn_scratch(&s, arg[ROLE_WORKSPACE])));
        TRY(cu_bn_finalize(&q, s.channels, sums, &statistics));
    }
    TRY(cu_bn_apply(&q, &s, &a));
    return a.mask ? check_mask(&s, a.y, a.mask) : STATUS_OK;
}

static enum status run_bn_bwd(const struct shim_plan *p, void *const arg[ROLE_COUNT])
{
    const struct op_desc *d = &p->base.desc;
    struct cu_queue q = shim_queue();
    struct cu_bn_shape s = bn_shape(d);
    double *sums = arg[ROLE_WORKSPACE];
    struct cu_bn_bwd a = {.dy = arg[ROLE_DY],
                          .dy2 = d->t[ROLE_DY2].ndim ? arg[ROLE_DY2] : NULL,
                          .x = arg[ROLE_X],
                          .mean = arg[ROLE_MEAN],
                          .invstd = arg[ROLE_INVSTD],
                          .gamma = arg[ROLE_GAMMA],
                          .dgamma = arg[ROLE_DGAMMA],
                          .dbeta = arg[ROLE_DBETA],
                          .dx = arg[ROLE_DX],
                          .dz = d->t[ROLE_DZ].ndim ? arg[ROLE_DZ] : NULL,
                          .dz_rounds = d->t[ROLE_DZ].rounds};
    if (d->attr.bn.relu) {
        uint8_t *mask = bn_mask(&s, arg[ROLE_WORKSPACE]);
        mask_from(&s, arg[ROLE_Y], mask);
        a.mask = mask;
    }
    TRY(cu_bn_bwd_sums(&q, &s, &a, sums, bn_scratch(&s, arg[ROLE_WORKSPACE])));
    return cu_bn_bwd_apply(&q, &s, &a, sums);
}

/* --- plans --- */

static enum status shim_execute(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct shim_plan *p = (const struct shim_plan *)plan;
    return p->run(p, arg);
}

static void shim_plan_free(struct op_plan *plan)
{
    free(plan);
}

/* Plans batch norm of NHWC tensors that are stored in fp32, fp16 or bf16. */
static enum status shim_plan(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    if (desc->t[ROLE_Z_AFFINE].ndim || desc->t[ROLE_Z_GAMMA].ndim)
        return status_fail(STATUS_UNSUPPORTED, "only the fake GPU tests this operation");
    struct shim_plan *p = calloc(1, sizeof *p);
    if (!p)
        return status_fail(STATUS_OOM, "no memory for a plan");
    p->base = (struct op_plan){.device = dev,
                               .desc = *desc,
                               .workspace = bn_workspace(desc),
                               .impl = "shim",
                               .execute = shim_execute,
                               .free = shim_plan_free};
    p->run = desc->kind == OP_BN_BWD ? run_bn_bwd : run_bn_fwd;
    for (int r = 0; r < ROLE_COUNT; r++) {
        struct tensor_desc *t = &p->base.desc.t[r];
        if (t->layout == LAYOUT_ANY)
            t->layout = t->ndim == 4 ? LAYOUT_NHWC : LAYOUT_PLAIN;
        t->bytes = (size_t)tensor_count(t) * dtype_size(t->type);
        if (t->rounds == DTYPE_F32 && (t->ndim != 4 || t->layout == LAYOUT_NHWC))
            continue;
        free(p);
        return status_fail(STATUS_UNSUPPORTED, "no kernel has these layouts and types");
    }
    *plan = &p->base;
    return STATUS_OK;
}

/* --- the backend --- */

enum status shim_device_open(struct device **dev)
{
    struct device *d = malloc(sizeof *d);
    if (!d)
        return status_fail(STATUS_OOM, "no memory for a device");
    *d = (struct device){.backend = &backend_shim, .threads = 1};
    *dev = d;
    return STATUS_OK;
}

static void shim_close(struct device *dev)
{
    free(dev);
}

static bool shim_native(struct device *dev, enum dtype type)
{
    (void)dev;
    return type == DTYPE_F32 || type == DTYPE_F16 || type == DTYPE_BF16;
}

enum {
    FLOATS = 1u << DTYPE_F32 | 1u << DTYPE_F16 | 1u << DTYPE_BF16,
    LAYOUTS = 1u << LAYOUT_ANY | 1u << LAYOUT_NHWC,
};

static const struct op_record records[] = {
    {OPS_BN, FLOATS, LAYOUTS, shim_plan},
};

static const struct backend backend_shim = {
    .name = "shim",
    .native = shim_native,
    .n_records = sizeof records / sizeof *records,
    .record = records,
    .close = shim_close,
    HOST_BACKEND_MEMBERS,
};
