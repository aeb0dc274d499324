/* The gradient of batch norm, ReLU and maximum pooling. A thread processes tiles of pixels. With
 * 3x3 windows and stride 2, a tile has four pixels, and the same four windows cover all of them, so
 * a gradient is loaded once per tile instead of once per pixel. */
#include "kernels/cuda/kernels/bn_pool.h"

/* The tiles of all images, cut into slices of neighbouring tiles. Windows that overlap two rows of
 * tiles are then still in the cache when the second row is processed. */
struct tiles {
    struct columns m; /* m.rows: pixels in each sum */
    int rows, cols;   /* tiles of an image */
    int64_t count, per_slice;
    bool back; /* true: from the last tile to the first */
};

static struct tiles tiles_cut(const struct cu_pool *p, int blocks, bool back)
{
    struct tiles t = {};
    int stride = p->attr.stride[0];
    t.rows = (int)div_up(p->in[0], stride);
    t.cols = (int)div_up(p->in[1], stride);
    t.count = (int64_t)p->n * t.rows * t.cols;
    t.m = columns_cut(t.count, p->c, blocks);
    t.m.rows = (int64_t)p->n * p->in[0] * p->in[1];
    t.per_slice = div_up(t.count, t.m.slices);
    t.back = back;
    return t;
}

/* Only the shape determines how the tiles are cut into slices, so sums have the same order on every
 * device (see columns.h). */
static struct tiles tiles_to_sum(const struct cu_pool *p)
{
    return tiles_cut(p, COLUMN_SUM_BLOCKS / COLUMN_RESIDENT * COLUMN_RESIDENT_WIDE, false);
}

/* A tile. `left` is the number of tiles up to the end of the slice; 0 or less if the tile is beyond
 * the end. */
struct tile {
    int n, h, w;
    int64_t left;
};

static __device__ struct tile first_tile(const struct tiles &t)
{
    struct tile at;
    int64_t begin = blockIdx.y * t.per_slice, i = begin + threadIdx.y;
    int64_t end = begin + t.per_slice < t.count ? begin + t.per_slice : t.count;
    at.left = end - i;
    at.w = (int)(i % t.cols);
    at.h = (int)(i / t.cols % t.rows);
    at.n = (int)(i / t.cols / t.rows);
    return at;
}

static __device__ void next_tile(const struct tiles &t, struct tile *at)
{
    at->left -= blockDim.y;
    at->w += (int)blockDim.y;
    while (at->w >= t.cols) {
        at->w -= t.cols;
        if (++at->h == t.rows) {
            at->h = 0;
            at->n++;
        }
    }
}

static __device__ struct tile tile_of(const struct cu_pool &p, const struct tiles &t,
                                      struct tile at)
{
    if (t.back) {
        at.n = p.n - 1 - at.n;
        at.h = t.rows - 1 - at.h;
        at.w = t.cols - 1 - at.w;
    }
    return at;
}

/* The gradient of a window, and the position of the maximum in the window, for each channel. */
template <typename T> struct window_gradient {
    packed<T> dy, dy2;
    uint2 index;
};

/* Loads a window. `two`: whether there is a DY2. If the window does not exist (h or w is outside
 * Y), `index` is set to a value that equals no position. */
template <typename T>
static __device__ window_gradient<T> load_window(const struct cu_pool &p, const struct cu_bn_bwd &a,
                                                 const uint8_t *index, bool two,
                                                 const struct tile &t, int c, int h, int w)
{
    window_gradient<T> g = {};
    bool inside = within(h, p.out[0]) && within(w, p.out[1]);
    int64_t at = unit_at(p, p.out, t.n, c, clamp_to(h, p.out[0]), clamp_to(w, p.out[1]));
    g.dy = packed_load((const T *)a.dy + at, UNIT, true);
    if (two)
        g.dy2 = packed_load((const T *)a.dy2 + at, UNIT, true);
    g.index = *(const uint2 *)(index + at);
    if (!inside)
        g.index.x = g.index.y = ~0u;
    return g;
}

/* Adds the gradients of the windows whose maximum is at `place`. */
static __device__ void add_window(const struct unit &dy, const uint2 &index, int place,
                                  struct unit *d)
{
#pragma unroll
    for (int k = 0; k < UNIT; k++)
        if (((k < 4 ? index.x : index.y) >> 8 * (k % 4) & 255) == (unsigned)place)
            d->v[k] += dy.v[k];
}

/* Computes the gradients of the normalised pixels of a tile (OP_BN_POOL_BWD's d). */
template <typename T, typename W>
static __device__ void gather(const struct cu_pool &p, const struct cu_bn_bwd &a,
                              const uint8_t *index, bool two, const struct tile &t, int c,
                              struct unit (&d)[W::STRIDE][W::STRIDE])
{
    window_gradient<T> row[W::COVER];
#pragma unroll
    for (int i = 0; i < W::COVER; i++) {
#pragma unroll
        for (int j = 0; j < W::COVER; j++)
            row[j] = load_window<T>(p, a, index, two, t, c, t.h + W::FIRST + i, t.w + W::FIRST + j);
#pragma unroll
        for (int j = 0; j < W::COVER; j++) {
            struct unit dy = unpack(row[j].dy), dy2 = unpack(row[j].dy2);
#pragma unroll
            for (int k = 0; k < UNIT; k++)
                dy.v[k] += dy2.v[k];
#pragma unroll
            for (int h = 0; h < W::STRIDE; h++)
#pragma unroll
                for (int w = 0; w < W::STRIDE; w++) {
                    const int kh = h + W::PAD - (W::FIRST + i) * W::STRIDE;
                    const int kw = w + W::PAD - (W::FIRST + j) * W::STRIDE;
                    if (kh >= 0 && kh < W::KERNEL && kw >= 0 && kw < W::KERNEL)
                        add_window(dy, row[j].index, kh * W::KERNEL + kw, &d[h][w]);
                }
        }
    }
#pragma unroll
    for (int h = 0; h < W::STRIDE; h++)
#pragma unroll
        for (int w = 0; w < W::STRIDE; w++)
#pragma unroll
            for (int k = 0; k < UNIT; k++)
                d[h][w].v[k] = held<T>(d[h][w].v[k], a.dz_rounds);
}

/* Loads the pixels of a tile. For a pixel outside the image, loads the nearest pixel of the image.
 */
template <typename T, typename W>
static __device__ void load_tile(const struct cu_pool &p, const struct tile &t, int c,
                                 const void *x, packed<T> (&pixel)[W::STRIDE][W::STRIDE])
{
#pragma unroll
    for (int h = 0; h < W::STRIDE; h++)
#pragma unroll
        for (int w = 0; w < W::STRIDE; w++) {
            int64_t at = unit_at(p, p.in, t.n, c, clamp_to(t.h * W::STRIDE + h, p.in[0]),
                                 clamp_to(t.w * W::STRIDE + w, p.in[1]));
            pixel[h][w] = packed_load((const T *)x + at, UNIT, true);
        }
}

static __device__ bool tile_has(const struct cu_pool &p, int h, int w)
{
    return h < p.in[0] && w < p.in[1];
}

template <typename T, typename W>
static __device__ void sum_tiles(const struct cu_pool &p, const struct tiles &all,
                                 const struct cu_bn_bwd &a, const uint8_t *index, bool two, int c,
                                 struct unit *sum, struct unit *centred)
{
    const struct unit mean = unit_load(a.mean + c, UNIT, true);
    for (struct tile at = first_tile(all); at.left > 0; next_tile(all, &at)) {
        const struct tile t = tile_of(p, all, at);
        packed<T> x[W::STRIDE][W::STRIDE];
        struct unit d[W::STRIDE][W::STRIDE] = {};
        if (sizeof(T) < sizeof(float))
            load_tile<T, W>(p, t, c, a.x, x);
        gather<T, W>(p, a, index, two, t, c, d);
        if (sizeof(T) == sizeof(float)) /* fp32: too few registers to load x earlier */
            load_tile<T, W>(p, t, c, a.x, x);
#pragma unroll
        for (int h = 0; h < W::STRIDE; h++)
#pragma unroll
            for (int w = 0; w < W::STRIDE; w++)
                if (tile_has(p, t.h * W::STRIDE + h, t.w * W::STRIDE + w))
                    bn_bwd_add(d[h][w], unpack(x[h][w]), mean, sum, centred);
    }
}

template <typename T, typename W>
COLUMN_KERNEL_WIDE bn_pool_bwd_sums(struct cu_pool p, struct tiles all, struct cu_bn_bwd a,
                                    const uint8_t *index, float *partial)
{
    await_previous();
    struct column_place place = column_place_of<true>(all.m);
    struct unit sums[2] = {};
    if (place.count > 0 && a.dy2)
        sum_tiles<T, W>(p, all, a, index, true, place.c, &sums[0], &sums[1]);
    else if (place.count > 0)
        sum_tiles<T, W>(p, all, a, index, false, place.c, &sums[0], &sums[1]);
    columns_reduce(all.m, place, sums, partial);
}

/* Computes the gradients of gamma and beta. Also computes EQ of OP_CONV_BWD_DATA_BN, the
 * coefficients of the multiply-add that gives DX. */
static __global__ void bn_pool_bwd_combine(struct columns m, struct cu_bn_bwd a,
                                           const float *partial, float *eq)
{
    await_previous();
    int c = (int)(blockIdx.x * COMBINE_LANES + threadIdx.x);
    double total[2];
    columns_combine(partial, m.slices, m.width, total);
    if (threadIdx.y != 0 || c >= m.width)
        return;
    double invstd = (double)a.invstd[c];
    a.dbeta[c] = (float)total[0];
    a.dgamma[c] = (float)(total[1] * invstd);
    bn_eq_put(eq, m.width, c, (double)a.gamma[c] * invstd, invstd, (double)a.mean[c], total[0],
              total[1], (double)m.rows);
}

template <typename T, typename W>
static __device__ void apply_tiles(const struct cu_pool &p, const struct tiles &all,
                                   const struct cu_bn_bwd &a, const uint8_t *index, bool two, int c,
                                   const struct bn_eq &e)
{
    for (struct tile at = first_tile(all); at.left > 0; next_tile(all, &at)) {
        const struct tile t = tile_of(p, all, at);
        packed<T> x[W::STRIDE][W::STRIDE];
        struct unit d[W::STRIDE][W::STRIDE] = {};
        if (sizeof(T) < sizeof(float))
            load_tile<T, W>(p, t, c, a.x, x);
        gather<T, W>(p, a, index, two, t, c, d);
        if (sizeof(T) == sizeof(float)) /* fp32: too few registers to load x earlier */
            load_tile<T, W>(p, t, c, a.x, x);
#pragma unroll
        for (int h = 0; h < W::STRIDE; h++)
#pragma unroll
            for (int w = 0; w < W::STRIDE; w++) {
                int row = t.h * W::STRIDE + h, col = t.w * W::STRIDE + w;
                if (tile_has(p, row, col))
                    unit_store((T *)a.dx + unit_at(p, p.in, t.n, c, row, col), UNIT, true,
                               bn_eq_of(e, d[h][w], unpack(x[h][w])));
            }
    }
}

template <typename T, typename W>
COLUMN_KERNEL_WIDE bn_pool_bwd_apply(struct cu_pool p, struct tiles all, struct cu_bn_bwd a,
                                     const uint8_t *index, const float *eq)
{
    await_previous();
    struct column_place place = column_place_of<true>(all.m);
    if (place.count == 0)
        return;
    const struct bn_eq e = bn_eq_load(all.m, place, eq);
    if (a.dy2)
        apply_tiles<T, W>(p, all, a, index, true, place.c, e);
    else
        apply_tiles<T, W>(p, all, a, index, false, place.c, e);
}

size_t cu_bn_pool_workspace(const struct cu_pool *p)
{
    struct tiles t = tiles_to_sum(p);
    return (3 + (size_t)t.m.slices * 2) * (size_t)p->c * sizeof(float);
}

template <typename T>
static enum status launch_bwd(const struct cu_queue *q, const struct cu_pool *p,
                              const struct cu_bn_bwd *a, const uint8_t *index, float *eq)
{
    const struct tiles sums = tiles_to_sum(p);
    const struct tiles all = tiles_cut(p, q->multiprocessors * COLUMN_RESIDENT_WIDE, true);
    float *partial = eq + 3 * (size_t)p->c;
    TRY(LAUNCH_WINDOWS(p, launch_columns(q, &sums.m), bn_pool_bwd_sums, T, *p, sums, *a, index,
                       partial));
    TRY(launch("bn_pool_bwd_combine", launch_combine(q, p->c), bn_pool_bwd_combine, sums.m, *a,
               partial, eq));
    return LAUNCH_WINDOWS(p, launch_columns(q, &all.m), bn_pool_bwd_apply, T, *p, all, *a, index,
                          eq);
}

enum status cu_bn_pool_bwd(const struct cu_queue *q, const struct cu_pool *p,
                           const struct cu_bn_bwd *a, const uint8_t *index, void *workspace)
{
    return LAUNCH_TYPED(p->type, launch_bwd, q, p, a, index, (float *)workspace);
}
