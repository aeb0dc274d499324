/* Inner loops of Winograd's F(4x4, 3x3): see kernels/cpu/winograd.c.
 *
 * A transform of a tile or kernel applies one matrix to its columns and then to its rows; the
 * one-dimensional transforms below evaluate polynomials at the points 0, P, -P, Q, -Q and infinity.
 * P and Q are those of oneDNN 2: for them rounding errors are smaller than for 1 and 2, and all
 * entries of INPUT are exact in fp32. */
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/vec.h"

#define P 0.625F
#define Q 1.5F
enum { TILE = WINOGRAD_TILE, OUT = WINOGRAD_OUT, KERNEL = 3 };

/* The denominators of Lagrange's polynomials at 0, +-P and +-Q. */
#define AT_0 (1 / (P * P * Q * Q))
#define AT_P (1 / (2 * P * P * (P * P - Q * Q)))
#define AT_Q (1 / (2 * Q * Q * (Q * Q - P * P)))

static inline vec load(const float *p)
{
    return *(const vec_in_memory *)p;
}

static inline void store(float *p, vec v)
{
    *(vec_in_memory *)p = v;
}

/* Each transform reads values at a distance of `in` vectors, and writes at a distance of `out`. */
typedef void transform(const vec *x, int in, vec *y, int out);

/* INPUT (6x6): coefficients of the tile's polynomial for the points. */
static inline void transform_input(const vec *x, int in, vec *y, int out)
{
    vec x1 = x[in], x2 = x[2 * in], x3 = x[3 * in], x4 = x[4 * in];
    vec even_p = x4 - Q * Q * x2, odd_p = x3 - Q * Q * x1;
    vec even_q = x4 - P * P * x2, odd_q = x3 - P * P * x1;
    y[0] = x4 + (P * P * Q * Q * x[0] - (P * P + Q * Q) * x2);
    y[out] = even_p + P * odd_p;
    y[2 * out] = even_p - P * odd_p;
    y[3 * out] = even_q + Q * odd_q;
    y[4 * out] = even_q - Q * odd_q;
    y[5 * out] = x[5 * in] + (P * P * Q * Q * x1 - (P * P + Q * Q) * x3);
}

/* OUTPUT (4x6): 4 results from products at the points. */
static inline void transform_output(const vec *x, int in, vec *y, int out)
{
    vec even_p = x[in] + x[2 * in], odd_p = P * (x[in] - x[2 * in]);
    vec even_q = x[3 * in] + x[4 * in], odd_q = Q * (x[3 * in] - x[4 * in]);
    y[0] = x[0] + (even_p + even_q);
    y[out] = odd_p + odd_q;
    y[2 * out] = P * P * even_p + Q * Q * even_q;
    y[3 * out] = x[5 * in] + (P * P * odd_p + Q * Q * odd_q);
}

/* The transpose of OUTPUT (6x4): gradients of the products from those of 4 results. */
static inline void transform_gradient(const vec *x, int in, vec *y, int out)
{
    vec x1 = x[in], x2 = x[2 * in], x3 = x[3 * in];
    vec even_p = x[0] + P * P * x2, odd_p = x1 + P * P * x3;
    vec even_q = x[0] + Q * Q * x2, odd_q = x1 + Q * Q * x3;
    y[0] = x[0];
    y[out] = even_p + P * odd_p;
    y[2 * out] = even_p - P * odd_p;
    y[3 * out] = even_q + Q * odd_q;
    y[4 * out] = even_q - Q * odd_q;
    y[5 * out] = x3;
}

/* WEIGHTS (6x3): the kernel's polynomial at the points, times the denominators. */
static inline void transform_weights(const vec *x, int in, vec *y, int out)
{
    vec x0 = x[0], x1 = x[in], x2 = x[2 * in];
    vec even_p = AT_P * x0 + P * P * AT_P * x2, odd_p = P * AT_P * x1;
    vec even_q = AT_Q * x0 + Q * Q * AT_Q * x2, odd_q = Q * AT_Q * x1;
    y[0] = AT_0 * x0;
    y[out] = even_p + odd_p;
    y[2 * out] = even_p - odd_p;
    y[3 * out] = even_q + odd_q;
    y[4 * out] = even_q - odd_q;
    y[5 * out] = x2;
}

/* The transpose of WEIGHTS (3x6). */
static inline void transform_weights_gradient(const vec *x, int in, vec *y, int out)
{
    vec even_p = AT_P * (x[in] + x[2 * in]), odd_p = P * AT_P * (x[in] - x[2 * in]);
    vec even_q = AT_Q * (x[3 * in] + x[4 * in]), odd_q = Q * AT_Q * (x[3 * in] - x[4 * in]);
    y[0] = AT_0 * x[0] + (even_p + even_q);
    y[out] = odd_p + odd_q;
    y[2 * out] = x[5 * in] + (P * P * even_p + Q * Q * even_q);
}

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Transforms a square of side `from`, stored in rows, to a square of side `to`. */
ALWAYS_INLINE void transform_square(transform *t, const vec *x, int from, vec *y, int to)
{
    vec columns[TILE * TILE];
#pragma GCC unroll 6
    for (int i = 0; i < from; i++)
        t(x + i, from, columns + i, from);
#pragma GCC unroll 6
    for (int i = 0; i < to; i++)
        t(columns + i * from, 1, y + i * to, 1);
}

/* Calls f for each tile i, with the square's pixels and the tile's first row and column. */
#define FOR_EACH_TILE(tiles, f, pixels, ...)                                                       \
    do {                                                                                           \
        const struct winograd_tiles *t_ = (tiles);                                                 \
        int64_t column_ = t_->first % t_->columns, row_ = t_->first / t_->columns % t_->rows;      \
        int64_t square_ = t_->first / t_->columns / t_->rows;                                      \
        for (int64_t i_ = 0; i_ < t_->count; i_++) {                                               \
            f(t_, pixels + square_ * t_->images * t_->image, t_->row_at + row_ * OUT - t_->pad[0], \
              t_->column_at + column_ * OUT - t_->pad[1], i_ * VEC_LANES, __VA_ARGS__);            \
            if (++column_ == t_->columns) {                                                        \
                column_ = 0;                                                                       \
                if (++row_ == t_->rows) {                                                          \
                    row_ = 0;                                                                      \
                    square_++;                                                                     \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    } while (0)

/* Whether all of `side` x `side` pixels exist; they are then of one image. */
ALWAYS_INLINE bool are_pixels(const int64_t *row, const int64_t *column, int side)
{
    int64_t places = 0;
#pragma GCC unroll 6
    for (int i = 0; i < side; i++)
        places |= row[i] | column[i];
    return places >= 0;
}

/* Loads `side` x `side` pixels; pixels that do not exist are 0. */
ALWAYS_INLINE void load_pixels(const struct winograd_tiles *t, const float *square,
                               const int64_t *row, const int64_t *column, int side, vec *x)
{
    const vec zero = {0};
    if (are_pixels(row, column, side)) {
        const float *first = square + row[0] + column[0];
        /* The pixels that the tile after the next one adds. */
#pragma GCC unroll 6
        for (int i = 0; i < side; i++)
#pragma GCC unroll 4
            for (int k = 0; k < OUT; k++)
                __builtin_prefetch(first + (i * t->width + TILE + OUT + k) * VEC_LANES);
#pragma GCC unroll 6
        for (int i = 0; i < side; i++)
#pragma GCC unroll 6
            for (int k = 0; k < side; k++)
                x[i * side + k] = load(first + (i * t->width + k) * VEC_LANES);
        return;
    }
    for (int i = 0; i < side; i++)
        for (int k = 0; k < side; k++)
            x[i * side + k] = (row[i] | column[k]) < 0 ? zero : load(square + row[i] + column[k]);
}

ALWAYS_INLINE void transform_tile(const struct winograd_tiles *t, const float *square,
                                  const int64_t *row, const int64_t *column, int64_t at,
                                  transform *by, int side, float *points, int64_t step)
{
    vec x[TILE * TILE], y[TILE * TILE];
    load_pixels(t, square, row, column, side, x);
    transform_square(by, x, side, y, TILE);
#pragma GCC unroll 36
    for (int i = 0; i < TILE * TILE; i++)
        store(points + at + i * step, y[i]);
}

static void input(const struct winograd_tiles *t, const float *x, float *v, int64_t step)
{
    FOR_EACH_TILE(t, transform_tile, x, transform_input, TILE, v, step);
}

static void gradient(const struct winograd_tiles *t, const float *dy, float *d, int64_t step)
{
    FOR_EACH_TILE(t, transform_tile, dy, transform_gradient, OUT, d, step);
}

ALWAYS_INLINE void output_tile(const struct winograd_tiles *t, float *square, const int64_t *row,
                               const int64_t *column, int64_t at, const float *m, int64_t step,
                               vec bias, bool relu, bool stream)
{
    vec x[TILE * TILE], y[OUT * OUT];
#pragma GCC unroll 36
    for (int i = 0; i < TILE * TILE; i++)
        x[i] = load(m + at + i * step);
    transform_square(transform_output, x, TILE, y, OUT);
    bool all = are_pixels(row, column, OUT);
#pragma GCC unroll 4
    for (int i = 0; i < OUT; i++)
#pragma GCC unroll 4
        for (int k = 0; k < OUT; k++) {
            if (!all && (row[i] | column[k]) < 0)
                continue;
            vec r = y[i * OUT + k] + bias;
            float *to = square + (all ? row[0] + column[0] + (i * t->width + k) * VEC_LANES
                                      : row[i] + column[k]);
            if (relu)
                r = VEC_WHERE(r, r, NLT, 0);
            if (stream)
                VEC_STREAM(to, r);
            else
                store(to, r);
        }
}

static void output(const struct winograd_tiles *t, const float *m, int64_t step, const float *bias,
                   bool relu, bool stream, float *y)
{
    const vec zero = {0}, added = bias ? load(bias) : zero;
    stream = stream && (uintptr_t)y % VEC_BYTES == 0;
    FOR_EACH_TILE(t, output_tile, y, m, step, added, relu, stream);
    if (stream)
        line_stream_end();
}

/* Exchanges input and output channels of a block, and turns the kernel by 180 degrees. */
static void turn(const float *w, float *turned)
{
    for (int tap = 0; tap < KERNEL * KERNEL; tap++)
        for (int i = 0; i < VEC_LANES; i++)
            for (int o = 0; o < VEC_LANES; o++)
                turned[((KERNEL * KERNEL - 1 - tap) * VEC_LANES + o) * VEC_LANES + i] =
                    w[(tap * VEC_LANES + i) * VEC_LANES + o];
}

static void weights(const float *w, bool turned, float *u, int64_t step, int64_t row)
{
    float block[KERNEL * KERNEL * VEC_LANES * VEC_LANES];
    if (turned)
        turn(w, block);
    for (int i = 0; i < VEC_LANES; i++) {
        vec x[KERNEL * KERNEL], y[TILE * TILE];
        for (int tap = 0; tap < KERNEL * KERNEL; tap++)
            x[tap] = load((turned ? block : w) + (tap * VEC_LANES + i) * VEC_LANES);
        transform_square(transform_weights, x, KERNEL, y, TILE);
#pragma GCC unroll 36
        for (int k = 0; k < TILE * TILE; k++)
            store(u + k * step + i * row, y[k]);
    }
}

static void weights_gradient(const float *du, int64_t step, int64_t row, float *dw)
{
    for (int i = 0; i < VEC_LANES; i++) {
        vec x[TILE * TILE], y[KERNEL * KERNEL];
        for (int k = 0; k < TILE * TILE; k++)
            x[k] = load(du + k * step + i * row);
        transform_square(transform_weights_gradient, x, TILE, y, KERNEL);
        for (int tap = 0; tap < KERNEL * KERNEL; tap++)
            store(dw + (tap * VEC_LANES + i) * VEC_LANES, y[tap]);
    }
}

enum { VECTORS = 2, PANEL = VECTORS * VEC_LANES, ROWS = VEC_BYTES == 64 ? 14 : 6 };

/* A matrix as the sums below read it: element (i, k) is at[i * step + k * other]. */
struct operand {
    const float *at;
    int64_t step, other;
};

/* Adds to acc, which fills the registers, the sum over i < n of a(i, row) * b(i, vector). */
ALWAYS_INLINE void sum_products(int rows, int64_t n, struct operand a, struct operand b,
                                vec (*acc)[VECTORS])
{
    for (int64_t i = 0; i < n; i++) {
        vec b0 = load(b.at + i * b.step), b1 = load(b.at + i * b.step + b.other);
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) {
            float s = a.at[i * a.step + r * a.other];
            acc[r][0] += s * b0;
            acc[r][1] += s * b1;
        }
    }
}

ALWAYS_INLINE void multiply_rows(int rows, int64_t blocks, const float *v, int64_t v_block,
                                 const float *u, const float *next, bool add, float *m,
                                 int64_t m_block)
{
    vec acc[ROWS][VECTORS] = {{{0}}};
    if (add) {
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) {
            acc[r][0] = load(m + r * VEC_LANES);
            acc[r][1] = load(m + m_block + r * VEC_LANES);
        }
    }
    for (int64_t i = 0; i < blocks; i++) {
        for (int k = 0; k < PANEL * VEC_LANES; k += LINE)
            __builtin_prefetch(next + i * PANEL * VEC_LANES + k, 0, 2);
        sum_products(rows, VEC_LANES, (struct operand){v + i * v_block, 1, VEC_LANES},
                     (struct operand){u + i * PANEL * VEC_LANES, PANEL, VEC_LANES}, acc);
    }
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++) {
        store(m + r * VEC_LANES, acc[r][0]);
        store(m + m_block + r * VEC_LANES, acc[r][1]);
    }
}

#define ROWS_CASE(n)                                                                               \
    case n:                                                                                        \
        multiply_rows(n, blocks, v, v_block, u, next, add, m, m_block);                            \
        break;
#define ROWS_CASES(n) ROWS_CASE(n) ROWS_CASE((n) + 1)

static void multiply(int rows, int64_t blocks, const float *v, int64_t v_block, const float *u,
                     const float *next, bool add, float *m, int64_t m_block)
{
    switch (rows) {
        ROWS_CASES(1)
        ROWS_CASES(3)
        ROWS_CASES(5)
#if VEC_BYTES == 64
        ROWS_CASES(7)
        ROWS_CASES(9)
        ROWS_CASES(11)
        ROWS_CASES(13)
#endif
    }
}

static void accumulate(int64_t tiles, const float *v, const float *d, int64_t d_block, bool add,
                       float *du, int64_t row)
{
    enum { HALF = VEC_LANES / 2 };
    for (int half = 0; half < 2; half++) {
        vec acc[HALF][VECTORS] = {{{0}}};
        float *to = du + half * HALF * row;
        sum_products(HALF, tiles, (struct operand){v + half * HALF, VEC_LANES, 1},
                     (struct operand){d, VEC_LANES, d_block}, acc);
#pragma GCC unroll 14
        for (int r = 0; r < HALF; r++)
            for (int k = 0; k < VECTORS; k++) {
                float *at = to + r * row + k * VEC_LANES;
                store(at, add ? load(at) + acc[r][k] : acc[r][k]);
            }
    }
}

const struct winograd_kernels ISA(winograd_kernels) = {
    .lanes = VEC_LANES,
    .rows = ROWS,
    .input = input,
    .gradient = gradient,
    .output = output,
    .weights = weights,
    .weights_gradient = weights_gradient,
    .multiply = multiply,
    .accumulate = accumulate,
};
