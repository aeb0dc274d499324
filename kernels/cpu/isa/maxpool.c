/* Finds the maximum of each window in a row of windows, and the index of the maximum in the
 * window; and sums the gradients of a row of inputs. A line of channels stays in registers while
 * the loop over its window updates it. */
#include "kernels/cpu/isa/element.h"

#include <math.h>
#include <string.h>

/* The hardware does not prefetch beyond the end of a page, so rows are fetched so many bytes ahead.
 */
enum { AHEAD = 2048 };

/* Channels of a block in oneDNN's layouts for these registers. */
enum { BLOCK = VEC_BYTES == 64 ? 16 : 8 };

/* Inlines `row` with constants for the layout and window of most networks. */
#define WITH_CONSTANTS(row, p, ...)                                                                \
    do {                                                                                           \
        struct maxpool_row c_ = *(p);                                                              \
        if (c_.lanes == BLOCK && c_.pixel == BLOCK && c_.kernel[0] == 3 && c_.kernel[1] == 3 &&    \
            c_.stride[0] == 2 && c_.stride[1] == 2) {                                              \
            c_.lanes = c_.pixel = BLOCK;                                                           \
            c_.kernel[0] = c_.kernel[1] = 3;                                                       \
            c_.stride[0] = c_.stride[1] = 2;                                                       \
            row(c_, __VA_ARGS__);                                                                  \
        } else                                                                                     \
            row(c_, __VA_ARGS__);                                                                  \
    } while (0)

static inline int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Number of vectors that hold the first n lanes of a line. */
static inline int vecs_of(int n)
{
    return (n + VEC_LANES - 1) / VEC_LANES;
}

/* A line of outputs: the maxima so far, and their indices. */
struct contest {
    struct line best;
    vec_bits place[LINE_VECS];
};

/* A larger value or a NaN replaces the maximum. */
static inline struct contest compete(struct contest c, struct line x, uint32_t place, int n)
{
    for (int i = 0; i < vecs_of(n); i++) {
        vec_mask wins = VEC_EXCEEDS(x.v[i], c.best.v[i]);
        c.best.v[i] = (vec)VEC_CHOOSE(wins, (vec_bits)x.v[i], (vec_bits)c.best.v[i]);
        c.place[i] = VEC_CHOOSE(wins, (vec_bits){0} + place, c.place[i]);
    }
    return c;
}

/* The rows and columns of a window that lie in the image. */
struct inside {
    int row, end_row, column, end_column;
};

/* The first n <= LINE lanes of an output; x points to the window's corner, which may lie in the
 * padding. The contest begins with the first position and -infinity, which only -infinity itself
 * does not replace. */
static inline __attribute__((always_inline)) struct contest
contest_of(struct maxpool_row p, struct inside in, const stored *x, int n)
{
    struct contest c = {.best = line_all(-INFINITY)};
    for (int i = 0; i < LINE_VECS; i++)
        c.place[i] = (vec_bits){0} + (uint32_t)(in.row * p.kernel[1] + in.column);
    for (int kh = in.row; kh < in.end_row; kh++)
        for (int kw = in.column; kw < in.end_column; kw++) {
            const stored *from = x + (kh * p.width + kw) * p.pixel;
            if (kh >= p.kernel[0] - p.stride[0] && kw >= p.kernel[1] - p.stride[1])
                __builtin_prefetch((const char *)from + AHEAD);
            c = compete(c, element_get(from, n), (uint32_t)(kh * p.kernel[1] + kw), n);
        }
    return c;
}

static inline __attribute__((always_inline)) void find_row(struct maxpool_row p, const stored *x,
                                                           int64_t row, stored *y, uint8_t *index)
{
    const struct inside all = {0, p.kernel[0], 0, p.kernel[1]};
    int64_t top = row * p.stride[0] - p.pad[0];
    struct inside in = {(int)max64(0, -top), (int)min64(p.kernel[0], p.height - top), 0, 0};
    for (int64_t o = 0; o < p.out_width; o++) {
        int64_t left = o * p.stride[1] - p.pad[1];
        in.column = (int)max64(0, -left);
        in.end_column = (int)min64(p.kernel[1], p.width - left);
        bool whole = in.end_row - in.row == p.kernel[0] && in.end_column - in.column == p.kernel[1];
        for (int64_t lane = 0; lane < p.lanes; lane += LINE) {
            int n = (int)min64(LINE, p.lanes - lane);
            int64_t to = o * p.pixel + lane;
            const stored *from = x + (top * p.width + left) * p.pixel + lane;
            struct contest c = whole ? contest_of(p, all, from, n) : contest_of(p, in, from, n);
            /* Needs no rounding: each maximum equals one of the inputs. */
            element_put_exact(y + to, c.best, n);
            for (int i = 0; index && i < n; i++)
                index[to + i] = (uint8_t)c.place[i / VEC_LANES][i % VEC_LANES];
        }
    }
}

static void maxpool_row(const struct maxpool_row *p, const void *x, int64_t row, void *y,
                        uint8_t *index)
{
    WITH_CONSTANTS(find_row, p, x, row, y, index);
}

/* Adds d to the sums in the lanes whose index is `place`. */
static inline void add_where(float *sum, struct line d, const vec_bits *index, uint32_t place,
                             int n)
{
    for (int i = 0; i < vecs_of(n); i++) {
        vec_bits hit = (vec_bits)(index[i] == (vec_bits){0} + place);
        *(vec_in_memory *)(sum + i * VEC_LANES) += (vec)((vec_bits)d.v[i] & hit);
    }
}

static inline __attribute__((always_inline)) void grad_row(struct maxpool_row p, const stored *dy,
                                                           const stored *dy2, const uint8_t *index,
                                                           int64_t row, float *sum, stored *dx,
                                                           bool stream)
{
    int64_t kh = row + p.pad[0], end = min64(p.out_height, kh / p.stride[0] + 1);
    int64_t begin = kh < p.kernel[0] ? 0 : (kh - p.kernel[0]) / p.stride[0] + 1;
    for (int64_t lane = 0; lane < p.lanes; lane += LINE) {
        int n = (int)min64(LINE, p.lanes - lane);
        memset(sum, 0, (size_t)((p.width + 2 * p.pad[1]) * LINE) * sizeof *sum);
        for (int64_t oh = begin; oh < end; oh++)
            for (int64_t ow = 0; ow < p.out_width; ow++) {
                int64_t at = (oh * p.out_width + ow) * p.pixel + lane;
                int64_t first = (kh - oh * p.stride[0]) * p.kernel[1];
                struct line d = element_get(dy + at, n);
                if (dy2)
                    d = line_add(d, element_get(dy2 + at, n));
                uint32_t byte[LINE] = {0};
                for (int i = 0; i < n; i++)
                    byte[i] = index[at + i];
                vec_bits place[LINE_VECS];
                memcpy(place, byte, sizeof byte);
                for (int kw = 0; kw < p.kernel[1]; kw++)
                    add_where(sum + (ow * p.stride[1] + kw) * LINE, d, place,
                              (uint32_t)(first + kw), n);
            }
        for (int64_t w = 0; w < p.width; w++) {
            struct line total = line_load(sum + (p.pad[1] + w) * LINE);
            if (stream)
                element_stream(dx + w * p.pixel + lane, total);
            else
                element_put(dx + w * p.pixel + lane, total, n);
        }
    }
    if (stream)
        line_stream_end();
}

static void maxpool_grad_row(const struct maxpool_row *p, const void *dy, const void *dy2,
                             const uint8_t *index, int64_t row, float *sum, void *dx, bool stream)
{
    stream = stream && element_can_stream(dx) && p->lanes % LINE == 0 && p->pixel % LINE == 0;
    WITH_CONSTANTS(grad_row, p, dy, dy2, index, row, sum, dx, stream);
}

const struct maxpool_kernels OF_ELEMENT(maxpool_kernels) = {maxpool_row, maxpool_grad_row};
