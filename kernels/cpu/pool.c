/* Max pooling and adaptive average pooling, of units of adjacent channels. */
#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"

#include <omp.h>
#include <string.h>

/* A unit is some channels of one image: one block of a blocked tensor, or up to MAXPOOL_LANES
 * adjacent channels of an NHWC tensor, or a few channels (planes) of a plain tensor. */
struct pool_units {
    int64_t per_image;
    int64_t lanes; /* channels of a unit; the last unit of an image may have fewer */
    int64_t channels;
};

/* `planes`: channels in a unit of a plain tensor. */
static struct pool_units pool_units_of(const struct tensor_desc *t, int64_t planes)
{
    int64_t channels = t->dim[1], block = tensor_block(t);
    int64_t lanes = block == 1 ? planes : block < MAXPOOL_LANES ? block : MAXPOOL_LANES;
    return (struct pool_units){(channels + lanes - 1) / lanes, lanes, channels};
}

/* One unit of one image in a tensor. Each channel of the unit is a lane; the element of lane i at
 * pixel p is at offset + p * pixel + i * lane. */
struct pool_view {
    int64_t offset;
    int64_t pixel;
    int64_t lane;
    int64_t lanes;
};

/* Returns the view of unit u; units are numbered over all images. `t` must have as many images and
 * channels as the tensor for which `units` was made, and the layout of that tensor or the plain
 * layout. */
static struct pool_view pool_view_of(const struct tensor_desc *t, const struct pool_units *units,
                                     int64_t u)
{
    int64_t image = u / units->per_image, channel = u % units->per_image * units->lanes;
    int64_t left = units->channels - channel, pixels = t->dim[2] * t->dim[3];
    int64_t block = tensor_block(t);
    /* For every block size, the blocks are stored one after the other. The channels of a block are
     * adjacent. */
    int64_t before = channel / block * block;
    return (struct pool_view){
        .offset = (image * units->channels + before) * pixels + channel - before,
        .pixel = block,
        .lane = block == 1 ? pixels : 1,
        .lanes = left < units->lanes ? left : units->lanes,
    };
}

/* Max pooling. Both passes call the instruction set's inner loops for each row of their result.
 * Backward adds the gradient of each output to the input that was the maximum. */
struct maxpool_plan {
    struct op_plan base;
    const struct maxpool_kernels *kernels;
    enum element element;
    struct pool_units units;
    struct maxpool_row row; /* `lanes` is set for each unit, from its view */
};

static enum status maxpool_fwd(struct op_plan *base, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct maxpool_plan *p = (const struct maxpool_plan *)base;
    const struct tensor_desc *x = &base->desc.t[ROLE_X], *y = &base->desc.t[ROLE_Y];
    uint8_t *index = base->desc.t[ROLE_INDEX].ndim ? arg[ROLE_INDEX] : NULL;
    int64_t rows = y->dim[2], units = y->dim[0] * p->units.per_image;
#pragma omp parallel for num_threads(base->device->threads)
    for (int64_t i = 0; i < units * rows; i++) {
        struct pool_view from = pool_view_of(x, &p->units, i / rows);
        struct pool_view to = pool_view_of(y, &p->units, i / rows);
        struct maxpool_row row = p->row;
        row.lanes = from.lanes;
        int64_t at = to.offset + i % rows * y->dim[3] * to.pixel;
        p->kernels->row(&row, element_at(arg[ROLE_X], p->element, from.offset), i % rows,
                        element_at(arg[ROLE_Y], p->element, at), index ? index + at : NULL);
    }
    return STATUS_OK;
}

/* Number of floats in the workspace for a row's sums. */
static int64_t row_floats(const struct maxpool_plan *p)
{
    return (p->row.width + 2 * p->row.pad[1]) * LINE;
}

static enum status maxpool_bwd(struct op_plan *base, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct maxpool_plan *p = (const struct maxpool_plan *)base;
    const struct tensor_desc *dy = &base->desc.t[ROLE_DY], *dx = &base->desc.t[ROLE_DX];
    bool two = base->desc.t[ROLE_DY2].ndim;
    /* Streamed lines of 16-bit elements, half a cache line each, measured 15 % slower. */
    bool stream =
        !element_is_narrow(p->element) && dx->bytes >= cpu_device_of(base->device)->stream_bytes;
    int64_t rows = p->row.height, units = dy->dim[0] * p->units.per_image;
#pragma omp parallel for num_threads(base->device->threads)
    for (int64_t i = 0; i < units * rows; i++) {
        struct pool_view from = pool_view_of(dy, &p->units, i / rows);
        struct pool_view to = pool_view_of(dx, &p->units, i / rows);
        struct maxpool_row row = p->row;
        row.lanes = from.lanes;
        p->kernels->grad_row(
            &row, element_at(arg[ROLE_DY], p->element, from.offset),
            two ? element_at(arg[ROLE_DY2], p->element, from.offset) : NULL,
            (const uint8_t *)arg[ROLE_INDEX] + from.offset, i % rows,
            (float *)arg[ROLE_WORKSPACE] + omp_get_thread_num() * row_floats(p),
            element_at(arg[ROLE_DX], p->element, to.offset + i % rows * row.width * to.pixel),
            stream);
    }
    return STATUS_OK;
}

enum status cpu_plan_maxpool(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    bool forward = d.kind == OP_MAXPOOL_FWD;
    enum role in = forward ? ROLE_X : ROLE_DX, out = forward ? ROLE_Y : ROLE_DY;
    enum layout layout = d.t[forward ? ROLE_X : ROLE_DY].layout;
    const struct tensor_desc *x = &d.t[in];
    TRY(cpu_take_like(&d, in, layout, x));
    TRY(cpu_take_like(&d, out, layout, x));
    TRY(cpu_take_like(&d, ROLE_DY2, layout, x));
    TRY(cpu_take(&d, ROLE_INDEX, DTYPE_U8, layout));
    TRY(cpu_plan_new(dev, &d, sizeof(struct maxpool_plan), forward ? maxpool_fwd : maxpool_bwd,
                     plan));
    struct maxpool_plan *p = (struct maxpool_plan *)*plan;
    const struct pool_attr *a = &d.attr.pool;
    const struct cpu_kernels *kernels = cpu_device_of(dev)->kernels;
    p->element = element_of(x);
    /* If the floats are already rounded, the plan uses the kernels without rounding: a maximum
     * equals one of the inputs. */
    bool floats = forward && !element_is_narrow(p->element) && !x->raw;
    p->kernels = kernels->maxpool[floats ? ELEMENT_F32 : p->element];
    p->units = pool_units_of(x, 1);
    p->row = (struct maxpool_row){
        .height = x->dim[2],
        .width = x->dim[3],
        .out_height = d.t[out].dim[2],
        .out_width = d.t[out].dim[3],
        .pixel = tensor_block(x),
        .lanes = p->units.lanes,
        .kernel = {a->kernel[0], a->kernel[1]},
        .stride = {a->stride[0], a->stride[1]},
        .pad = {a->pad[0], a->pad[1]},
    };
    if (!forward)
        p->base.workspace = (size_t)(dev->threads * row_floats(p)) * sizeof(float);
    return STATUS_OK;
}

/* Adaptive average pooling. Both tensors have the same layout, or one of them has the plain layout,
 * which the linear layer after the pooling needs.
 *
 * With n outputs and m inputs, output i covers inputs floor(i*m/n) .. ceil((i+1)*m/n)-1. The same
 * formula with n and m exchanged gives the outputs that cover an input. So both passes gather:
 * every result is written once, and its terms are added in order, in double. */
/* Number of planes processed together. The window is computed once for all of them. */
enum { PLANES = 16 };

/* A row or column of one tensor covers a range of rows or columns of the other tensor. `scale` is
 * the factor for the values of this row or column. */
struct cover {
    int64_t begin, end;
    double scale;
};

struct avgpool_plan {
    struct op_plan base;
    struct pool_units units;
    enum role from, to;
    /* A struct cover for each row and column; the pointers point into `cover`. */
    const struct cover *from_row, *from_col, *to_row, *to_col;
    struct cover cover[];
};

/* A view of a tensor, and its kind of element. */
struct lanes {
    struct pool_view view;
    void *memory;
    enum element element;
    const struct flat_kernels *kernels;
    int64_t run; /* number of adjacent elements: the number of lanes of a pixel, or 1 */
};

static struct lanes lanes_of(const struct avgpool_plan *p, enum role role, void *memory,
                             int64_t unit)
{
    const struct tensor_desc *t = &p->base.desc.t[role];
    struct pool_view view = pool_view_of(t, &p->units, unit);
    enum element element = element_of(t);
    return (struct lanes){.view = view,
                          .memory = memory,
                          .element = element,
                          .kernels = cpu_device_of(p->base.device)->kernels->flat[element],
                          .run = view.lane == 1 ? view.lanes : 1};
}

static void *lane_at(const struct lanes *l, int64_t pixel, int64_t lane)
{
    return element_at(l->memory, l->element,
                      l->view.offset + pixel * l->view.pixel + lane * l->view.lane);
}

static void lanes_get(const struct lanes *l, int64_t pixel, float value[MAXPOOL_LANES])
{
    for (int64_t i = 0; i < l->view.lanes; i += l->run)
        l->kernels->get(lane_at(l, pixel, i), value + i, l->run);
}

static void lanes_put(const struct lanes *l, int64_t pixel, const float value[MAXPOOL_LANES])
{
    for (int64_t i = 0; i < l->view.lanes; i += l->run)
        l->kernels->put(value + i, lane_at(l, pixel, i), l->run);
}

/* Sums each lane of `from` over the pixels that one result covers, and scales the sums. */
static void avgpool_gather(const struct avgpool_plan *p, const struct lanes *from,
                           const struct cover *row, const struct cover *col,
                           float result[MAXPOOL_LANES])
{
    int64_t width = p->base.desc.t[p->from].dim[3];
    double sum[MAXPOOL_LANES] = {0};
    for (int64_t h = row->begin; h < row->end; h++)
        for (int64_t w = col->begin; w < col->end; w++) {
            double scale = p->from_row[h].scale * p->from_col[w].scale;
            float value[MAXPOOL_LANES];
            lanes_get(from, h * width + w, value);
            for (int64_t i = 0; i < from->view.lanes; i++)
                sum[i] += scale * (double)value[i];
        }
    for (int64_t i = 0; i < from->view.lanes; i++)
        result[i] = (float)(row->scale * col->scale * sum[i]);
}

static bool cover_same(const struct cover *a, const struct cover *b)
{
    return a->begin == b->begin && a->end == b->end;
}

static enum status avgpool_execute(struct op_plan *base, void *const arg[ROLE_COUNT],
                                   struct stream *s)
{
    (void)s;
    const struct avgpool_plan *p = (const struct avgpool_plan *)base;
    const struct tensor_desc *to = &base->desc.t[p->to];
    int64_t units = to->dim[0] * p->units.per_image;
#pragma omp parallel for num_threads(base->device->threads)
    for (int64_t u = 0; u < units; u++) {
        const struct lanes in = lanes_of(p, p->from, arg[p->from], u);
        const struct lanes out = lanes_of(p, p->to, arg[p->to], u);
        float value[MAXPOOL_LANES];
        const struct cover *row = NULL, *col = NULL; /* `value` is that of pixels with these */
        for (int64_t i = 0; i < to->dim[2] * to->dim[3]; i++) {
            const struct cover *r = &p->to_row[i / to->dim[3]], *c = &p->to_col[i % to->dim[3]];
            if (i == 0 || !cover_same(r, row) || !cover_same(c, col))
                avgpool_gather(p, &in, r, c, value);
            row = r;
            col = c;
            lanes_put(&out, i, value);
        }
    }
    return STATUS_OK;
}

/* Fills in a struct cover for each of the n rows (or columns) of one tensor. The other tensor has m
 * rows (or columns). The scale is 1 / (length of the range) if `averages` is true, else 1. */
static struct cover *cover_fill(struct cover *c, int64_t n, int64_t m, bool averages)
{
    for (int64_t i = 0; i < n; i++, c++) {
        c->begin = i * m / n;
        c->end = ((i + 1) * m + n - 1) / n;
        c->scale = averages ? 1.0 / (double)(c->end - c->begin) : 1.0;
    }
    return c;
}

enum status cpu_plan_avgpool(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    bool forward = d.kind == OP_AVGPOOL_FWD;
    struct tensor_desc *from = &d.t[forward ? ROLE_X : ROLE_DY];
    struct tensor_desc *to = &d.t[forward ? ROLE_Y : ROLE_DX];
    enum layout layout = to->layout == LAYOUT_ANY ? from->layout : to->layout;
    if (layout == LAYOUT_OPAQUE ||
        (layout != from->layout && layout != LAYOUT_PLAIN && from->layout != LAYOUT_PLAIN))
        return status_fail(STATUS_UNSUPPORTED, "%s: no kernel from layout %s to layout %s",
                           op_str(d.kind), layout_str(from->layout), layout_str(layout));
    TRY(cpu_take_like(&d, forward ? ROLE_X : ROLE_DY, from->layout, from));
    TRY(cpu_take_like(&d, forward ? ROLE_Y : ROLE_DX, layout, to));
    int64_t positions = from->dim[2] + from->dim[3] + to->dim[2] + to->dim[3];
    TRY(cpu_plan_new(dev, &d,
                     sizeof(struct avgpool_plan) + (size_t)positions * sizeof(struct cover),
                     avgpool_execute, plan));
    struct avgpool_plan *p = (struct avgpool_plan *)*plan;
    p->units = pool_units_of(layout == LAYOUT_PLAIN ? from : to, PLANES);
    p->from = forward ? ROLE_X : ROLE_DY;
    p->to = forward ? ROLE_Y : ROLE_DX;
    struct cover *c = p->cover;
    p->from_row = c;
    p->from_col = c = cover_fill(c, from->dim[2], to->dim[2], !forward);
    p->to_row = c = cover_fill(c, from->dim[3], to->dim[3], !forward);
    p->to_col = c = cover_fill(c, to->dim[2], from->dim[2], forward);
    cover_fill(c, to->dim[3], from->dim[3], forward);
    return STATUS_OK;
}
