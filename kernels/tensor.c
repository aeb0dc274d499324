/* Tensor descriptors. */
#include "kernels/tensor.h"

#include "base/half.h"

size_t dtype_size(enum dtype type)
{
    static const size_t size[DTYPE_COUNT] = {
        [DTYPE_F32] = 4, [DTYPE_F16] = 2, [DTYPE_BF16] = 2, [DTYPE_F64] = 8,
        [DTYPE_U8] = 1,  [DTYPE_I32] = 4, [DTYPE_TF32] = 4,
    };
    return size[type];
}

bool dtype_is_float(enum dtype type)
{
    return type == DTYPE_F32 || type == DTYPE_F16 || type == DTYPE_BF16;
}

const char *dtype_str(enum dtype type)
{
    static const char *const name[DTYPE_COUNT] = {
        [DTYPE_F32] = "fp32", [DTYPE_F16] = "fp16",  [DTYPE_BF16] = "bf16", [DTYPE_F64] = "fp64",
        [DTYPE_U8] = "uint8", [DTYPE_I32] = "int32", [DTYPE_TF32] = "tf32",
    };
    return name[type];
}

const char *layout_str(enum layout layout)
{
    static const char *const name[] = {"any", "plain", "NHWC", "nChw8c", "nChw16c", "opaque"};
    return name[layout];
}

float dtype_round(enum dtype precision, float x)
{
    switch (precision) {
    case DTYPE_F16:
        return round_f16(x);
    case DTYPE_BF16:
        return round_bf16(x);
    case DTYPE_TF32:
        return round_tf32(x);
    default:
        return x;
    }
}

double dtype_load(enum dtype type, const void *mem, int64_t i)
{
    switch (type) {
    case DTYPE_U8:
        return ((const uint8_t *)mem)[i];
    case DTYPE_I32:
        return ((const int32_t *)mem)[i];
    case DTYPE_F64:
        return ((const double *)mem)[i];
    case DTYPE_F16:
        return (double)f16_to_float(((const uint16_t *)mem)[i]);
    case DTYPE_BF16:
        return (double)bf16_to_float(((const uint16_t *)mem)[i]);
    default:
        return (double)((const float *)mem)[i];
    }
}

void dtype_store(enum dtype type, void *mem, int64_t i, double v)
{
    if (type == DTYPE_U8)
        ((uint8_t *)mem)[i] = (uint8_t)v;
    else if (type == DTYPE_I32)
        ((int32_t *)mem)[i] = (int32_t)v;
    else if (type == DTYPE_F64)
        ((double *)mem)[i] = v;
    else if (type == DTYPE_F16)
        ((uint16_t *)mem)[i] = f16_from_float((float)v);
    else if (type == DTYPE_BF16)
        ((uint16_t *)mem)[i] = bf16_from_float((float)v);
    else
        ((float *)mem)[i] = (float)v;
}

int64_t tensor_count(const struct tensor_desc *t)
{
    if (t->ndim == 0)
        return 0;
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        n *= t->dim[i];
    return n;
}

static struct tensor_desc sized(struct tensor_desc t)
{
    if (t.layout != LAYOUT_ANY && t.layout != LAYOUT_OPAQUE)
        t.bytes = (size_t)tensor_count(&t) * dtype_size(t.type);
    return t;
}

struct tensor_desc tensor_1d(enum dtype type, int64_t n)
{
    return sized((struct tensor_desc){.type = type, .layout = LAYOUT_PLAIN, .ndim = 1, .dim = {n}});
}

struct tensor_desc tensor_2d(enum dtype type, int64_t rows, int64_t cols)
{
    return sized(
        (struct tensor_desc){.type = type, .layout = LAYOUT_PLAIN, .ndim = 2, .dim = {rows, cols}});
}

struct tensor_desc tensor_4d(enum dtype type, enum layout layout, int64_t n, int64_t c, int64_t h,
                             int64_t w)
{
    return sized(
        (struct tensor_desc){.type = type, .layout = layout, .ndim = 4, .dim = {n, c, h, w}});
}

int64_t tensor_block(const struct tensor_desc *t)
{
    switch (t->layout) {
    case LAYOUT_PLAIN:
        return 1;
    case LAYOUT_NHWC:
        return t->dim[1];
    case LAYOUT_NCHW8C:
        return 8;
    case LAYOUT_NCHW16C:
        return 16;
    default:
        return 0;
    }
}

bool tensor_same_shape(const struct tensor_desc *a, const struct tensor_desc *b)
{
    if (a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

bool tensor_same(const struct tensor_desc *a, const struct tensor_desc *b)
{
    return a->type == b->type && a->layout == b->layout && tensor_same_shape(a, b) &&
           (a->layout != LAYOUT_OPAQUE || a->opaque == b->opaque);
}
