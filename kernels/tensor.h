/* What a tensor is, apart from where it lies: type, shape and order in memory. */
#ifndef KERNELS_TENSOR_H
#define KERNELS_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* DTYPE_TF32 is a precision and no storage: fp32 with a mantissa of 10 bits, what tensor cores make
 * of their fp32 operands. Only tensor_desc.rounds may be it. */
enum dtype {
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_F64,
    DTYPE_U8,
    DTYPE_I32,
    DTYPE_TF32,
    DTYPE_COUNT
};

/* The order of the elements. The activation layouts are one family: channels are cut into groups
 * of `b`, and memory runs (N, C/b, H, W, b): b = 1 is NCHW, b = C is NHWC, 8 and 16 are the blocked
 * forms of CPU libraries. tensor_block() gives b. A kernel written for (outer, spatial, b) serves
 * them all. */
enum layout {
    LAYOUT_ANY,     /* let the plan choose; only in a descriptor given to op_plan */
    LAYOUT_PLAIN,   /* row-major in the logical order: NCHW, OIHW, (N, F) */
    LAYOUT_NHWC,    /* 4-d only */
    LAYOUT_NCHW8C,  /* 4-d only; C is a multiple of 8 */
    LAYOUT_NCHW16C, /* 4-d only; C is a multiple of 16 */
    LAYOUT_OPAQUE, /* the library's own order, named by `opaque`; only OP_REORDER may look inside */
};

enum { TENSOR_MAX_DIMS = 4 };

struct tensor_desc {
    enum dtype type;
    enum layout layout;
    int ndim;                     /* 0: this tensor is absent */
    int64_t dim[TENSOR_MAX_DIMS]; /* logical order: N,C,H,W; O,I/groups,KH,KW; N,F; or a length */
    int32_t opaque;               /* a number the device gave, when layout is LAYOUT_OPAQUE */
    size_t bytes;                 /* of the whole tensor, padding included; 0 while layout is ANY */
    /* Emulated precision, for devices that lack the type. An fp32 tensor stands for one that a GPU
     * would store as `rounds` (F16, BF16) or read as such (TF32): its values are those that this
     * type can hold. F32: any value. `raw`: the values in memory have not been rounded yet, so that
     * whoever reads them must (a library that cannot round leaves it to the next operation, which
     * reads them anyway). */
    enum dtype rounds;
    bool raw;
};

size_t dtype_size(enum dtype type);
bool dtype_is_float(enum dtype type); /* F32, F16 or BF16 */
const char *dtype_str(enum dtype type);
const char *layout_str(enum layout layout);

/* `x` as the precision F16, BF16 or TF32 can hold it (base/half.h); F32 and others leave it. */
float dtype_round(enum dtype precision, float x);

/* Elements, padding not counted; 0 when absent. */
int64_t tensor_count(const struct tensor_desc *t);

/* Descriptors with `bytes` filled in (0 for LAYOUT_ANY and LAYOUT_OPAQUE). */
struct tensor_desc tensor_1d(enum dtype type, int64_t n);
struct tensor_desc tensor_2d(enum dtype type, int64_t rows, int64_t cols);
struct tensor_desc tensor_4d(enum dtype type, enum layout layout, int64_t n, int64_t c, int64_t h,
                             int64_t w);

/* The channel group b of an activation layout (see enum layout); 0 for ANY and OPAQUE. */
int64_t tensor_block(const struct tensor_desc *t);

/* The index of logical element (n, c, h, w) in memory; not for ANY or OPAQUE. */
static inline int64_t tensor_at(const struct tensor_desc *t, int64_t b, int64_t n, int64_t c,
                                int64_t h, int64_t w)
{
    return (((n * (t->dim[1] / b) + c / b) * t->dim[2] + h) * t->dim[3] + w) * b + c % b;
}

bool tensor_same_shape(const struct tensor_desc *a, const struct tensor_desc *b);

/* Same type, shape and layout: the bytes may be used as they are. */
bool tensor_same(const struct tensor_desc *a, const struct tensor_desc *b);

#ifdef __cplusplus
}
#endif
#endif
