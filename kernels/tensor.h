/* The description of a tensor without its address: type, shape and order in memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* DTYPE_TF32 is a precision, not a storage type: fp32 with a mantissa of 10 bits, to which tensor
 * cores round fp32 operands. Only tensor_desc.rounds may have this value. */
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

/* The order of the elements. Activation layouts differ only in the size b of their channel groups:
 * elements are ordered as (N, C/b, H, W, b). b = 1 is NCHW, b = C is NHWC, and 8 and 16 are the
 * blocked layouts of CPU libraries. tensor_block() returns b. A kernel written for (outer, spatial,
 * b) supports all these layouts. */
enum layout {
    LAYOUT_ANY,     /* let the plan choose; only in a descriptor given to op_plan */
    LAYOUT_PLAIN,   /* row-major in logical order: NCHW, OIHW, (N, F) */
    LAYOUT_NHWC,    /* 4-d only */
    LAYOUT_NCHW8C,  /* 4-d only; C is a multiple of 8 */
    LAYOUT_NCHW16C, /* 4-d only; C is a multiple of 16 */
    LAYOUT_OPAQUE,  /* the library's own order, whose number is `opaque`; only OP_REORDER may depend
                     * on it */
};

enum { TENSOR_MAX_DIMS = 4 };

struct tensor_desc {
    enum dtype type;
    enum layout layout;
    int ndim;                     /* 0: this tensor is absent */
    int64_t dim[TENSOR_MAX_DIMS]; /* logical order: N,C,H,W; O,I/groups,KH,KW; N,F; or a length */
    int32_t opaque;               /* LAYOUT_OPAQUE: the number that the device gave the layout */
    size_t bytes;                 /* size of the whole tensor, padding included; 0 while the layout
                                   * is ANY */
    /* Emulated precision, for devices that lack the type `rounds`. The tensor is fp32, but all its
     * values are representable in `rounds`. On a GPU with the type, the tensor would be stored in
     * it (F16, BF16) or rounded to it when read (TF32). If `rounds` is F32, nothing is emulated. If
     * `raw` is true, the values are not rounded, because the library that wrote them could not do
     * so; the operation that reads them must round them. */
    enum dtype rounds;
    bool raw;
};

size_t dtype_size(enum dtype type);
bool dtype_is_float(enum dtype type); /* F32, F16 or BF16 */
const char *dtype_str(enum dtype type);

/* Loads or stores element i of an array of this type; dtype_store rounds `v` to the type. */
double dtype_load(enum dtype type, const void *mem, int64_t i);
void dtype_store(enum dtype type, void *mem, int64_t i, double v);
const char *layout_str(enum layout layout);

/* `x` rounded to the precision F16, BF16 or TF32 (base/half.h); unchanged for F32 and other
 * types. */
float dtype_round(enum dtype precision, float x);

/* Number of elements without padding; 0 for an absent tensor. */
int64_t tensor_count(const struct tensor_desc *t);

/* Make descriptors with `bytes` filled in (0 for LAYOUT_ANY and LAYOUT_OPAQUE). */
struct tensor_desc tensor_1d(enum dtype type, int64_t n);
struct tensor_desc tensor_2d(enum dtype type, int64_t rows, int64_t cols);
struct tensor_desc tensor_4d(enum dtype type, enum layout layout, int64_t n, int64_t c, int64_t h,
                             int64_t w);

/* The channel group b of an activation layout (see enum layout); 0 for ANY and OPAQUE. */
int64_t tensor_block(const struct tensor_desc *t);

/* The index of logical element (n, c, h, w) in memory; `b` is tensor_block(t). Not for ANY or
 * OPAQUE. */
static inline int64_t tensor_at(const struct tensor_desc *t, int64_t b, int64_t n, int64_t c,
                                int64_t h, int64_t w)
{
    return (((n * (t->dim[1] / b) + c / b) * t->dim[2] + h) * t->dim[3] + w) * b + c % b;
}

bool tensor_same_shape(const struct tensor_desc *a, const struct tensor_desc *b);

/* Whether both have the same type, shape and layout, so that no reorder is needed. */
bool tensor_same(const struct tensor_desc *a, const struct tensor_desc *b);

#ifdef __cplusplus
}
#endif
