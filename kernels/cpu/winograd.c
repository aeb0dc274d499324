/* 3x3 convolutions of stride 1 by Winograd's F(4x4, 3x3) (A. Lavin, S. Gray: Fast Algorithms for
 * Convolutional Neural Networks, 2016).
 *
 * The result is cut into tiles of 4x4 pixels. The 6x6 pixels on which a tile depends and each
 * kernel are transformed to values at 36 points. At each point the convolution is a product of
 * matrices, (tiles, input channels) and (input channels, output channels): 36 multiplications in
 * place of 144. Up to four images in each direction are one square if it needs fewer tiles: four of
 * 14 pixels, and three of zeros between them, are 15 tiles in place of 16. The gradient of X is a
 * convolution of DY with turned kernels. For the gradient of the weights, the products sum over
 * tiles. */
#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/onednn_plan.h"

#include <omp.h>

enum {
    KERNEL = 3,
    TAPS = KERNEL * KERNEL,
    PANEL = 2,   /* blocks of output channels that are multiplied together */
    PART = 128,  /* input channels whose transformed weights a thread keeps there */
    GROUP = 64,  /* channels whose products a thread keeps in its cache; a multiple of panels */
    SQUARE = 4,  /* most images of a square in each direction */
    TILES = 32,  /* tiles that a thread transforms at a time */
    SUMMED = 64, /* the same for the gradient of weights */
    BALANCE = 4, /* parts of the work per thread */
};

/* A convolution, and how it is cut for threads and caches. Sizes are in floats. */
struct cut {
    const struct winograd_kernels *k;
    struct winograd_tiles from, to; /* the tiles of the input, and of the result; of X and DY for
                                     * the gradient of weights */
    bool turned, stream;
    int64_t images[2]; /* of a square, down and across */
    bool whole; /* all tiles are one block, transformed once for all groups; each thread transforms
                 * the weights of its groups */
    int threads;
    int64_t lanes, in, out;         /* channels of `from` and `to` */
    int64_t in_group, group, pairs; /* channels of a group; pairs of groups */
    int64_t in_part;                /* input channels that are summed at a time */
    int64_t tiles, block;           /* of all images; transformed at a time */
    int64_t splits; /* parts of the output channels or, for the gradient of weights, of the tiles */
    int64_t v_step, m_step, u_step; /* from one point to the next */
    /* Areas of all points: transformed inputs, transformed weights or their gradients. Each thread
     * has one area of products, or of transformed DY. */
    int64_t v_areas, u_areas;
};

/* The distance of values at different points: an odd number of cache lines, so that the values of
 * one tile are in different cache sets. */
static int64_t step_of(int64_t floats)
{
    return (floats / LINE | 1) * LINE;
}

static int64_t group_of(const struct cut *c, int64_t channels)
{
    return channels % GROUP == 0 ? GROUP : PANEL * c->lanes;
}

/* Tiles of n images and the pixels between them. */
static int64_t tiles_across(int64_t n, int64_t pixels)
{
    return ceil_div(n * (pixels + 1) - 1, WINOGRAD_OUT);
}

static struct winograd_tiles tiles_of(const struct tensor_desc *t)
{
    return (struct winograd_tiles){
        .height = t->dim[2], .width = t->dim[3], .image = t->dim[1] * t->dim[2] * t->dim[3]};
}

/* Forms squares with the least number of tiles. The pixel between images is also their padding, so
 * padding by other than one pixel leaves each image alone. */
static void form_squares(struct cut *c, int64_t images)
{
    int64_t most = c->from.pad[0] == 1 && c->from.pad[1] == 1 ? SQUARE : 1;
    for (int64_t i = 0; i < most * most; i++) {
        int64_t down = i / most + 1, across = i % most + 1;
        int64_t rows = tiles_across(down, c->to.height),
                columns = tiles_across(across, c->to.width);
        int64_t tiles = images / (down * across) * rows * columns;
        if (images % (down * across) != 0 || tiles >= c->tiles)
            continue;
        c->tiles = tiles;
        c->images[0] = down;
        c->images[1] = across;
        c->from.images = c->to.images = down * across;
        c->from.rows = c->to.rows = rows;
        c->from.columns = c->to.columns = columns;
    }
}

static struct cut cut_of(struct device *dev, const struct op_desc *d)
{
    bool data = d->kind == OP_CONV_BWD_DATA, weights = d->kind == OP_CONV_BWD_WEIGHTS;
    const struct tensor_desc *from = &d->t[data ? ROLE_DY : ROLE_X];
    const struct tensor_desc *to = &d->t[data ? ROLE_DX : weights ? ROLE_DY : ROLE_Y];
    struct cut c = {.k = cpu_device_of(dev)->kernels->winograd,
                    .from = tiles_of(from),
                    .to = tiles_of(to),
                    .tiles = INT64_MAX,
                    .turned = data,
                    .stream = to->bytes >= cpu_device_of(dev)->stream_bytes,
                    .threads = dev->threads,
                    .in = from->dim[1],
                    .out = to->dim[1]};
    for (int i = 0; i < 2; i++)
        c.from.pad[i] = data ? KERNEL - 1 - d->attr.conv.pad[i] : d->attr.conv.pad[i];
    c.lanes = c.k->lanes;
    form_squares(&c, to->dim[0]);
    c.group = group_of(&c, c.out);
    c.in_group = weights ? group_of(&c, c.in) : c.in;
    c.pairs = c.out / c.group * (c.in / c.in_group);
    c.whole = !weights && c.tiles <= 2 * TILES && c.pairs >= 2 * c.threads;
    c.in_part = c.whole && c.in % PART == 0 ? PART : c.in;
    c.block = c.whole ? c.tiles : weights ? SUMMED : ceil_div(c.tiles, ceil_div(c.tiles, TILES));
    c.splits = ceil_div(BALANCE * c.threads, weights ? c.pairs : ceil_div(c.tiles, c.block));
    c.splits = least(c.splits, weights ? ceil_div(c.tiles, BALANCE * SUMMED) : c.pairs);
    c.v_step = step_of(c.in_group * c.block);
    c.m_step = step_of(c.group * c.block);
    c.u_step = step_of((weights ? c.in_group : c.in_part) * (weights || c.whole ? c.group : c.out));
    c.v_areas = c.whole ? 1 : c.threads;
    c.u_areas = c.splits > 1 && weights ? c.splits * c.pairs : weights || c.whole ? c.threads : 1;
    return c;
}

static struct winograd_tiles part_of(struct winograd_tiles t, int64_t first, int64_t count)
{
    t.first = first;
    t.count = count;
    return t;
}

/* Offset of a block of channels in the first image. */
static int64_t plane_at(const struct cut *c, const struct winograd_tiles *t, int64_t block)
{
    return block * c->lanes * t->height * t->width;
}

/* Offset of a pair of blocks in a matrix of panels (out / panel, in, panel). */
static int64_t panel_at(const struct cut *c, int64_t in, int64_t in_block, int64_t out_block)
{
    return (out_block / PANEL * in + in_block * c->lanes) * PANEL * c->lanes +
           out_block % PANEL * c->lanes;
}

/* Transforms weights in blocks (O, I, 3, 3, i, o) to panels at each point, for one block of output
 * channels, which is block `at` of u, and the part of the input channels from `in` on. */
static void transform_weights(const struct cut *c, const float *w, int64_t out_block, int64_t in,
                              int64_t at, float *u)
{
    int64_t in_blocks = c->in / c->lanes, size = TAPS * c->lanes * c->lanes;
    for (int64_t i = 0; i < c->in_part / c->lanes; i++) {
        int64_t in_block = in / c->lanes + i;
        int64_t block = c->turned ? in_block * (c->out / c->lanes) + out_block
                                  : out_block * in_blocks + in_block;
        c->k->weights(w + block * size, c->turned, u + panel_at(c, c->in_part, i, at), c->u_step,
                      PANEL * c->lanes);
    }
}

/* The products of n transformed tiles for one group of output channels and a part of the input
 * channels, at all points. */
static void multiply_group(const struct cut *c, int64_t n, const float *v, const float *u, bool add,
                           float *m)
{
    int64_t parts = ceil_div(n, c->k->rows), panels = c->group / c->lanes / PANEL;
    for (int64_t i = 0; i < WINOGRAD_POINTS * panels; i++) {
        int64_t point = i / panels, b = i % panels * PANEL;
        int64_t after = i + 1 < WINOGRAD_POINTS * panels ? i + 1 : 0;
        const float *next =
            u + after / panels * c->u_step + panel_at(c, c->in_part, 0, after % panels * PANEL);
        for (int64_t part = 0; part < parts; part++) {
            int64_t first = n * part / parts, rows = n * (part + 1) / parts - first;
            c->k->multiply((int)rows, c->in_part / c->lanes,
                           v + point * c->v_step + first * c->lanes, c->block * c->lanes,
                           u + point * c->u_step + panel_at(c, c->in_part, 0, b), next, add,
                           m + point * c->m_step + (b * c->block + first) * c->lanes,
                           c->block * c->lanes);
        }
    }
}

static int64_t areas_floats(const struct cut *c)
{
    return WINOGRAD_POINTS *
           (c->v_step * c->v_areas + c->m_step * c->threads + c->u_step * c->u_areas);
}

/* Number of rows or columns on which n tiles depend. */
static int64_t reach_of(int64_t n)
{
    return (n - 1) * WINOGRAD_OUT + WINOGRAD_TILE;
}

/* The own part of the workspace, which follows that of reorders: the areas, and the places of rows
 * and columns of both kinds of tiles. */
static size_t own_bytes(const struct cut *c)
{
    size_t places = 2 * (size_t)(reach_of(c->to.rows) + reach_of(c->to.columns));
    return cpu_align((size_t)areas_floats(c) * sizeof(float) + places * sizeof(int64_t));
}

/* Sets the places of the rows (d = 0) or columns (d = 1) of a square, from -pad on: `pixel` and
 * `image` are the distances of pixels and of images, in floats. Returns the end of the places. */
static int64_t *set_places(const struct cut *c, struct winograd_tiles *t, int d, int64_t *at)
{
    int64_t n = reach_of(d == 0 ? t->rows : t->columns), size = d == 0 ? t->height : t->width;
    int64_t pixel = c->lanes * (d == 0 ? t->width : 1);
    int64_t image = t->image * (d == 0 ? c->images[1] : 1);
    for (int64_t i = 0; i < n; i++) {
        int64_t p = i - t->pad[d], k = p / (size + 1), inside = p % (size + 1);
        at[i] = p < 0 || k >= c->images[d] || inside == size ? -1 : k * image + inside * pixel;
    }
    *(d == 0 ? &t->row_at : &t->column_at) = at + t->pad[d];
    return at + n;
}

/* Sets the places of both kinds of tiles, in the workspace after the areas. */
static void set_all_places(struct cut *c, float *areas)
{
    int64_t *at = (int64_t *)(areas + areas_floats(c));
    for (int d = 0; d < 2; d++) {
        at = set_places(c, &c->from, d, at);
        at = set_places(c, &c->to, d, at);
    }
}

/* One execution: its tensors, and the areas in its workspace. */
struct run {
    const struct op_desc *d;
    const float *x, *dy, *w, *bias; /* x: what is transformed by tiles of 6x6 pixels */
    float *y, *v, *m, *u;
};

static struct run run_of(const struct onednn_plan *p, struct cut *c, void *const arg[ROLE_COUNT],
                         void *weights)
{
    float *v = (float *)((char *)arg[ROLE_WORKSPACE] + p->base.workspace - own_bytes(c));
    float *m = v + WINOGRAD_POINTS * c->v_step * c->v_areas;
    set_all_places(c, v);
    return (struct run){.d = &p->base.desc,
                        .x = arg[c->turned ? ROLE_DY : ROLE_X],
                        .dy = arg[ROLE_DY],
                        .w = weights,
                        .bias = arg[ROLE_B],
                        .y = arg[c->turned ? ROLE_DX : ROLE_Y],
                        .v = v,
                        .m = m,
                        .u = m + WINOGRAD_POINTS * c->m_step * c->threads};
}

static float *area(float *areas, int64_t step, int64_t i)
{
    return areas + WINOGRAD_POINTS * step * i;
}

/* Transforms block b of the input channels of n tiles. */
static void transform_input(const struct cut *c, const struct run *r, int64_t first, int64_t n,
                            int64_t b, float *v)
{
    struct winograd_tiles from = part_of(c->from, first, n);
    c->k->input(&from, r->x + plane_at(c, &from, b), v, c->v_step);
}

/* Computes the results of a block of tiles for a part of the output channels. */
static void convolve(const struct cut *c, const struct run *r, int64_t block, int64_t split,
                     int thread)
{
    float *v = area(r->v, c->v_step, c->whole ? 0 : thread), *m = area(r->m, c->m_step, thread);
    float *u = area(r->u, c->u_step, c->whole ? thread : 0);
    int64_t parts = ceil_div(c->tiles, c->block), first = c->tiles * block / parts;
    int64_t n = c->tiles * (block + 1) / parts - first;
    int64_t blocks = c->group / c->lanes, size = c->block * c->lanes;
    struct winograd_tiles to = part_of(c->to, first, n);
    for (int64_t b = 0; !c->whole && b < c->in / c->lanes; b++)
        transform_input(c, r, first, n, b, v + b * size);
    for (int64_t g = c->pairs * split / c->splits; g < c->pairs * (split + 1) / c->splits; g++) {
        for (int64_t in = 0; in < c->in; in += c->in_part) {
            for (int64_t b = 0; c->whole && b < blocks; b++)
                transform_weights(c, r->w, g * blocks + b, in, b, u);
            multiply_group(c, n, v + in * c->block, c->whole ? u : u + g * c->group * c->in, in > 0,
                           m);
        }
        for (int64_t b = 0; b < blocks; b++) {
            int64_t channel = g * c->group + b * c->lanes;
            const float *bias = r->d->t[ROLE_B].ndim && !c->turned ? r->bias + channel : NULL;
            c->k->output(&to, m + b * size, c->m_step, bias, !c->turned && r->d->attr.conv.relu,
                         c->stream, r->y + plane_at(c, &to, channel / c->lanes));
        }
    }
}

static enum status compute_activations(struct onednn_plan *p, void *const arg[ROLE_COUNT],
                                       void *weights)
{
    struct cut c = cut_of(p->base.device, &p->base.desc);
    const struct run r = run_of(p, &c, arg, weights);
#pragma omp parallel num_threads(c.threads)
    {
        if (c.whole) {
#pragma omp for
            for (int64_t b = 0; b < c.in / c.lanes; b++)
                transform_input(&c, &r, 0, c.tiles, b, r.v + b * c.block * c.lanes);
        } else {
#pragma omp for
            for (int64_t b = 0; b < c.out / c.lanes; b++)
                transform_weights(&c, r.w, b, 0, b, r.u);
        }
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < ceil_div(c.tiles, c.block) * c.splits; i++)
            convolve(&c, &r, i / c.splits, i % c.splits, omp_get_thread_num());
    }
    return STATUS_OK;
}

/* The first blocks of the two groups of a pair. */
static int64_t in_block(const struct cut *c, int64_t pair)
{
    return pair % (c->in / c->in_group) * c->in_group / c->lanes;
}

static int64_t out_block(const struct cut *c, int64_t pair)
{
    return pair / (c->in / c->in_group) * c->group / c->lanes;
}

/* du = the sums at all points over the tiles of one split, for one pair of groups. */
static void sum_pair(const struct cut *c, const struct run *r, int64_t pair, int64_t split,
                     int thread, float *du)
{
    int64_t first = c->tiles * split / c->splits, end = c->tiles * (split + 1) / c->splits;
    int64_t lanes = c->lanes, size = c->block * lanes;
    int64_t in = in_block(c, pair), out = out_block(c, pair);
    float *v = area(r->v, c->v_step, thread), *d = area(r->m, c->m_step, thread);
    for (int64_t at = first; at < end; at += c->block) {
        int64_t n = least(c->block, end - at);
        struct winograd_tiles to = part_of(c->to, at, n);
        for (int64_t b = 0; b < c->in_group / lanes; b++)
            transform_input(c, r, at, n, in + b, v + b * size);
        for (int64_t b = 0; b < c->group / lanes; b++)
            c->k->gradient(&to, r->dy + plane_at(c, &to, out + b), d + b * size, c->m_step);
        for (int64_t point = 0; point < WINOGRAD_POINTS; point++)
            for (int64_t o = 0; o < c->group / lanes; o += PANEL)
                for (int64_t i = 0; i < c->in_group / lanes; i++)
                    c->k->accumulate(n, v + point * c->v_step + i * size,
                                     d + point * c->m_step + o * size, size, at > first,
                                     du + point * c->u_step + panel_at(c, c->in_group, i, o),
                                     PANEL * lanes);
    }
}

/* Adds the sums of all splits, which are `distance` apart, and transforms them to weights. */
static void finish_pair(const struct cut *c, int64_t pair, float *du, int64_t distance, float *dw)
{
    int64_t size = TAPS * c->lanes * c->lanes;
    for (int64_t s = 1; s < c->splits; s++)
        for (int64_t i = 0; i < WINOGRAD_POINTS * c->u_step; i++)
            du[i] += du[s * distance + i];
    for (int64_t o = 0; o < c->group / c->lanes; o++)
        for (int64_t i = 0; i < c->in_group / c->lanes; i++)
            c->k->weights_gradient(
                du + panel_at(c, c->in_group, i, o), c->u_step, PANEL * c->lanes,
                dw +
                    ((out_block(c, pair) + o) * (c->in / c->lanes) + in_block(c, pair) + i) * size);
}

static void sum_bias(const struct cut *c, int64_t images, const float *dy, float *db)
{
#pragma omp parallel for num_threads(c->threads)
    for (int64_t b = 0; b < c->out / c->lanes; b++) {
        double sum[LINE] = {0};
        for (int64_t n = 0; n < images; n++) {
            const float *plane = dy + n * c->to.image + plane_at(c, &c->to, b);
            for (int64_t i = 0; i < c->to.height * c->to.width; i++)
                for (int64_t k = 0; k < c->lanes; k++)
                    sum[k] += (double)plane[i * c->lanes + k];
        }
        for (int64_t k = 0; k < c->lanes; k++)
            db[b * c->lanes + k] = (float)sum[k];
    }
}

static enum status compute_weights_gradient(struct onednn_plan *p, void *const arg[ROLE_COUNT],
                                            void *dw)
{
    const struct op_desc *d = &p->base.desc;
    struct cut c = cut_of(p->base.device, d);
    const struct run r = run_of(p, &c, arg, dw);
#pragma omp parallel num_threads(c.threads)
    {
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < c.pairs * c.splits; i++) {
            int thread = omp_get_thread_num();
            float *du = area(r.u, c.u_step, c.splits == 1 ? thread : i);
            sum_pair(&c, &r, i % c.pairs, i / c.pairs, thread, du);
            if (c.splits == 1)
                finish_pair(&c, i, du, 0, dw);
        }
#pragma omp for
        for (int64_t i = 0; i < (c.splits == 1 ? 0 : c.pairs); i++)
            finish_pair(&c, i, area(r.u, c.u_step, i), WINOGRAD_POINTS * c.u_step * c.pairs, dw);
    }
    if (d->t[ROLE_DB].ndim)
        sum_bias(&c, d->t[ROLE_DY].dim[0], arg[ROLE_DY], arg[ROLE_DB]);
    return STATUS_OK;
}

/* Whether the transforms can compute this convolution with weights w. */
static bool is_possible(const struct op_desc *d, const struct tensor_desc *w, int lanes)
{
    const struct conv_attr *a = &d->attr.conv;
    const int panel = PANEL * lanes;
    return lanes >= 8 && w->type == DTYPE_F32 && w->rounds == DTYPE_F32 && w->dim[2] == KERNEL &&
           w->dim[3] == KERNEL && w->dim[0] % panel == 0 && w->dim[1] % panel == 0 &&
           a->groups == 1 && a->stride[0] == 1 && a->stride[1] == 1 && a->pad[0] < KERNEL &&
           a->pad[1] < KERNEL;
}

/* Whether Winograd's algorithm is expected to be faster. The estimate counts multiplications per
 * pair of channels. Fitted to the 3x3 layers of ResNets (64 to 512 channels, 16 images) on two
 * cores with AVX-512: a multiplication takes 1.25 times as long as in a direct convolution, the
 * transforms of a tile cost 6 per point for each channel, and those of weights as much as 20 tiles.
 */
static bool is_faster(const struct cut *c)
{
    double tiles = (double)c->tiles;
    double squares = tiles / (double)(c->to.rows * c->to.columns);
    double pixels = squares * (double)(c->to.images * c->to.height * c->to.width);
    return WINOGRAD_POINTS * (tiles * (1.25 + 6.0 / (double)c->in + 6.0 / (double)c->out) + 20) <
           TAPS * pixels;
}

enum status cpu_plan_winograd(struct device *dev, const struct op_desc *desc, struct op_plan **out)
{
    struct op_desc d = *desc;
    const int lanes = cpu_device_of(dev)->kernels->winograd->lanes;
    const bool backward = d.kind == OP_CONV_BWD_WEIGHTS;
    const enum role role = backward ? ROLE_DW : ROLE_W;
    if (dev->conv_algorithm == CONV_DIRECT || !is_possible(&d, &d.t[role], lanes))
        return status_fail(STATUS_UNSUPPORTED, "Winograd's algorithm is not for this convolution");
    for (int r = 0; r < ROLE_COUNT; r++)
        if (r != (int)role)
            TRY(cpu_take(&d, (enum role)r, DTYPE_F32,
                         d.t[r].ndim != 4 ? LAYOUT_PLAIN
                         : lanes == 16    ? LAYOUT_NCHW16C
                                          : LAYOUT_NCHW8C));
    const struct cut c = cut_of(dev, &d);
    /* oneDNN's kernels for AVX2 compute no such gradient; its matrix product is slower, and
     * allocates memory in each call. */
    const bool sole = backward && lanes == 8 && c.from.width < KERNEL;
    if (dev->conv_algorithm == CONV_AUTO && !sole && !is_faster(&c))
        return status_fail(STATUS_UNSUPPORTED, "Winograd's algorithm is slower here");
    TRY(onednn_plan_own(dev, &d, role, lanes == 16 ? dnnl_OIhw16i16o : dnnl_OIhw8i8o, own_bytes(&c),
                        backward ? compute_weights_gradient : compute_activations, "winograd",
                        out));
    (*out)->flops = 2.0 * WINOGRAD_POINTS * (double)(c.tiles * c.in * c.out);
    return STATUS_OK;
}
