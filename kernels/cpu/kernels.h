/* The inner loops of the CPU backend's own operations, as one table per instruction set.
 *
 * The sources under isa/ are compiled once for each instruction set and do not depend on plans,
 * threads or layouts; a device selects its table once, when it is opened. Loops over tensors of any
 * precision are compiled for each kind of element: arithmetic is always fp32, and values are
 * converted and rounded in registers, as base/half.h does. */
#pragma once

#include "kernels/tensor.h"

#include <stdbool.h>
#include <stdint.h>

/* The precision that values are rounded to. */
enum rounding { ROUND_NONE, ROUND_F16, ROUND_BF16, ROUND_TF32 };

static inline enum rounding rounding_of(enum dtype rounds)
{
    return rounds == DTYPE_F16    ? ROUND_F16
           : rounds == DTYPE_BF16 ? ROUND_BF16
           : rounds == DTYPE_TF32 ? ROUND_TF32
                                  : ROUND_NONE;
}

/* A tensor's kind of element: a float with any value, a float that emulates a 16-bit type or TF32
 * (see tensor_desc.rounds), or a 16-bit type. */
enum element {
    ELEMENT_F32,
    ELEMENT_ROUNDS_F16,
    ELEMENT_ROUNDS_BF16,
    ELEMENT_ROUNDS_TF32,
    ELEMENT_F16,
    ELEMENT_BF16,
    ELEMENTS
};

static inline bool element_is_narrow(enum element e)
{
    return e == ELEMENT_F16 || e == ELEMENT_BF16;
}

static inline size_t element_size(enum element e)
{
    return element_is_narrow(e) ? sizeof(uint16_t) : sizeof(float);
}

/* The kind of element of a tensor whose type is a floating type. */
static inline enum element element_of(const struct tensor_desc *t)
{
    if (t->type == DTYPE_F16 || t->type == DTYPE_BF16)
        return t->type == DTYPE_F16 ? ELEMENT_F16 : ELEMENT_BF16;
    return t->rounds == DTYPE_F16    ? ELEMENT_ROUNDS_F16
           : t->rounds == DTYPE_BF16 ? ELEMENT_ROUNDS_BF16
           : t->rounds == DTYPE_TF32 ? ELEMENT_ROUNDS_TF32
                                     : ELEMENT_F32;
}

/* The address of element i. */
static inline void *element_at(const void *p, enum element e, int64_t i)
{
    return (char *)p + i * (int64_t)element_size(e);
}

/* Number of elements that the loops over channels process at a time; see isa/vec.h. */
enum { LINE = 16 };

/* Batch norm works on patches. A patch is `lines` lines that begin `stride` elements apart,
 * followed by `tail` < LINE more elements. An array of LINE values has one value for each lane, and
 * a lane belongs to one channel.
 */
struct bn_patch {
    int64_t lines;
    int64_t stride;
    int tail;
};

/* y = (x - mean) * scale + bias. Subtracting first keeps precision if a channel's mean is much
 * larger than its standard deviation. */
struct bn_affine {
    const float *mean, *scale, *bias; /* LINE each */
};

/* dx = d * scale + (x - mean) * slope + bias. */
struct bn_affine_grad {
    const float *mean, *scale, *slope, *bias; /* LINE each */
};

/* Signs of the ReLU's results: bit i belongs to lane i of a line, and is 1 if the result as stored
 * is above 0. The signs of a patch begin with those of its first line; the signs of the next line
 * are `stride` / LINE elements further. Only patches without a tail have signs. */
typedef uint16_t bn_signs;

/* Inputs of the gradient d = (dy [+ dy2]) * (y > 0). */
struct bn_grad {
    const void *dy;
    const void *dy2; /* may be NULL */
    /* If a ReLU follows the batch norm, y or signs is given. Without a ReLU, both are NULL. */
    const void *y;
    const bn_signs *signs;
};

struct bn_kernels {
    /* Adds to s1 and s2 the sums of (x - shift) and (x - shift)^2 of each lane. */
    void (*moments)(struct bn_patch p, const void *x, const float *shift, double *s1, double *s2);
    /* y = affine(x) [+ z] [then ReLU]; z and signs may be NULL. `stream`: stores bypass the caches
     * if y is aligned for that. */
    void (*apply)(struct bn_patch p, const void *x, const void *z, void *y, bn_signs *signs,
                  struct bn_affine c, bool relu, bool stream);
    /* Adds to sd and sdx the sums of d and d * (x - mean) of each lane. If dz is not NULL, d is
     * rounded to an element and written to dz; dz may be the memory of dy or dy2. */
    void (*grad_sums)(struct bn_patch p, struct bn_grad g, const void *x, void *dz,
                      const float *mean, double *sd, double *sdx);
    /* dx may be the memory of dy or of dy2; then `stream` must be false. */
    void (*grad_apply)(struct bn_patch p, struct bn_grad g, const void *x, void *dx,
                       struct bn_affine_grad c, bool stream);
};

/* Elementwise operations on n elements. An output with the same kind of element may share memory
 * with any input. */
struct flat_kernels {
    void (*relu)(const void *x, void *y, int64_t n);
    /* dy2 may be NULL. */
    void (*relu_grad)(const void *dy, const void *dy2, const void *y, void *dx, int64_t n);
    void (*add)(const void *a, const void *b, void *y, int64_t n);
    /* Computes d = dy [+ dy2] without rounding; dy2 may be NULL. */
    void (*incoming)(const void *dy, const void *dy2, float *d, int64_t n);
    /* `get` converts elements to floats, and also rounds them if the kind of element emulates a
     * type. `put` converts floats to elements and rounds to nearest. y may be the memory of x if
     * elements have 4 bytes. */
    void (*get)(const void *x, float *y, int64_t n);
    void (*put)(const float *x, void *y, int64_t n);
};

/* One step of SGD over a segment; see OP_SGD. */
struct sgd_step {
    float lr;
    float grad_scale;
    float weight_decay;
    float momentum;
    bool nesterov;
    enum rounding gradient, master, copy;
    bool stream; /* if the copy is aligned, stores to it bypass the caches */
};

/* Elementwise operations on n floats, with the rounding precision as an argument. */
struct mixed_kernels {
    /* Whether any x is infinite or NaN when rounded. */
    bool (*overflows)(enum rounding to, const float *x, int64_t n);
    /* The sum of the squares of rounded x, in double. */
    double (*squares)(enum rounding to, const float *x, int64_t n);
    /* `copy` may be NULL. */
    void (*sgd)(struct sgd_step s, const float *dw, float *w, float *v, float *copy, int64_t n);
};

/* A row of a max pool's outputs, for `lanes` channels that are adjacent in each pixel. */
struct maxpool_row {
    int64_t height, width; /* of the input */
    int64_t out_height, out_width;
    int64_t pixel; /* elements from one pixel to the next, in input and output */
    int64_t lanes; /* 1 .. MAXPOOL_LANES */
    int kernel[2], stride[2], pad[2];
};
enum { MAXPOOL_LANES = 64 };

struct maxpool_kernels {
    /* x points to the image's first pixel; y and index point to the first pixel of output row
     * `row`. index may be NULL. Inputs are rounded before they are compared. */
    void (*row)(const struct maxpool_row *p, const void *x, int64_t row, void *y, uint8_t *index);
    /* Row `row` of the input's gradient: each element is the sum, in the order of the outputs, of
     * dy [+ dy2] of the outputs whose maximum it was. dy, dy2 (may be NULL) and index point to the
     * image's first pixel, dx to the row's. `sum` has room for a line for each column, the padding
     * included. `stream`: see bn_kernels. */
    void (*grad_row)(const struct maxpool_row *p, const void *dy, const void *dy2,
                     const uint8_t *index, int64_t row, float *sum, void *dx, bool stream);
};

/* Winograd's F(4x4, 3x3) computes a tile of 4x4 results from 6x6 inputs by products at 36 points.
 * Activations and weights are blocked by `lanes` channels, and a vector has one value for each
 * channel of a block. Values at different points are `step` floats apart. */
enum { WINOGRAD_OUT = 4, WINOGRAD_TILE = 6, WINOGRAD_POINTS = 36 };

/* Tiles `first` to `first + count` of all squares, which have rows x columns tiles each. A square
 * is some images with a pixel of zeros between neighbours. */
struct winograd_tiles {
    int64_t height, width; /* of an image, in pixels */
    int64_t image;         /* floats from a block of channels to the same block of the next image */
    int64_t images;        /* of a square */
    int64_t rows, columns;
    int64_t pad[2]; /* the first tile begins so many pixels above and left of the square */
    int64_t first, count;
    /* The pixel in row r and column c is row_at[r] + column_at[c] floats after the first; there is
     * none where one of them is negative. r and c begin at -pad. */
    const int64_t *row_at, *column_at;
};

struct winograd_kernels {
    int lanes;
    int rows; /* the most tiles that `multiply` accepts */
    /* Transform a block of channels of X (tiles of 6x6 pixels) or of DY (4x4 pixels) to the points;
     * v and d have a vector for each tile. */
    void (*input)(const struct winograd_tiles *t, const float *x, float *v, int64_t step);
    void (*gradient)(const struct winograd_tiles *t, const float *dy, float *d, int64_t step);
    /* Transforms products to results; `bias` has `lanes` values, or is NULL. `stream`: see
     * bn_kernels. */
    void (*output)(const struct winograd_tiles *t, const float *m, int64_t step, const float *bias,
                   bool relu, bool stream, float *y);
    /* Transforms a block of weights (3, 3, input channels, output channels) to a vector for each
     * input channel, `row` floats apart. `turned`: for the gradient of X, the kernel is turned by
     * 180 degrees, and the two kinds of channels change places. */
    void (*weights)(const float *w, bool turned, float *u, int64_t step, int64_t row);
    /* Transforms the gradients of such vectors to the gradient of the weights. */
    void (*weights_gradient)(const float *du, int64_t step, int64_t row, float *dw);
    /* At one point: m [+]= v * u for `rows` tiles, `blocks` blocks of input channels, v_block
     * floats apart, and two blocks of output channels, m_block floats apart. u is (input channels,
     * 2 * lanes). `next` is the u after this one, and is fetched meanwhile. */
    void (*multiply)(int rows, int64_t blocks, const float *v, int64_t v_block, const float *u,
                     const float *next, bool add, float *m, int64_t m_block);
    /* At one point: du [+]= the sum over tiles of v[input channel] * d[output channel], for a block
     * of input channels, `row` floats apart in du, and two of output channels, d_block apart. */
    void (*accumulate)(int64_t tiles, const float *v, const float *d, int64_t d_block, bool add,
                       float *du, int64_t row);
};

/* A sum over pixels of pairs of images. A pair has one value of each of two images; a block of
 * channels has LINE pairs at each pixel. Distances are in values. */
struct pair_sum {
    int64_t pairs, rows, columns; /* of images; of pixels */
    int64_t x_pair, x_row, x_pixel;
    int64_t dy_pair, dy_row, dy_block; /* the pixels of a row are adjacent */
};
/* What is multiplied together: blocks of output channels, and input channels. */
enum { WEIGHTS_BLOCKS = 2, WEIGHTS_ROWS = LINE / 2 };

struct weights_kernels {
    /* Makes pairs of n pixels of a and b, which are `step` values apart; b NULL: zeros. */
    void (*pair)(int64_t n, int64_t step, const uint16_t *a, const uint16_t *b, uint16_t *to);
    /* dw [+]= the sum of x[input channel] * dy[output channel]; dw has a row of output channels for
     * each input channel, in blocks that are dw_block apart. */
    void (*multiply)(const struct pair_sum *s, const uint16_t *x, const uint16_t *dy, bool add,
                     float *dw, int64_t dw_block);
};

struct cpu_kernels {
    const char *isa;  /* "avx512" */
    const char *impl; /* "own:avx512", as plans report it */
    const struct bn_kernels *bn[ELEMENTS];
    const struct flat_kernels *flat[ELEMENTS];
    const struct maxpool_kernels *maxpool[ELEMENTS];
    const struct mixed_kernels *mixed;
    const struct winograd_kernels *winograd;
    const struct weights_kernels *weights; /* NULL: no instruction multiplies bf16 values */
};

extern const struct cpu_kernels cpu_kernels_generic;
#if defined(__x86_64__)
extern const struct cpu_kernels cpu_kernels_avx2;
extern const struct cpu_kernels cpu_kernels_avx512;
#endif
