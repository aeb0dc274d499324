/* Max pooling. Forward works row by row through inner loops of the instruction set; backward is a
 * scatter, with as many steps as there are outputs. */
#include "kernels/cpu/internal.h"
#include "kernels/cpu/pool.h"

#include <string.h>

enum { WINDOW_MAX = 256 }; /* a place in the window is a byte */

struct maxpool_plan {
    struct op_plan base;
    const struct maxpool_kernels *kernels;
    struct pool_units units;
    struct maxpool_row row;    /* `lanes` is that of each unit's view */
    int64_t place[WINDOW_MAX]; /* floats from the window's corner, which may lie in the padding */
};

static enum status maxpool_fwd(struct op_plan *base, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct maxpool_plan *p = (const struct maxpool_plan *)base;
    const struct tensor_desc *x = &base->desc.t[ROLE_X], *y = &base->desc.t[ROLE_Y];
    const float *in = arg[ROLE_X];
    float *out = arg[ROLE_Y];
    uint8_t *index = base->desc.t[ROLE_INDEX].ndim ? arg[ROLE_INDEX] : NULL;
    int64_t rows = y->dim[2], units = y->dim[0] * p->units.per_image;
#pragma omp parallel for schedule(dynamic, rows) num_threads(base->device->threads)
    for (int64_t i = 0; i < units * rows; i++) {
        struct pool_view from = pool_view_of(x, &p->units, i / rows);
        struct pool_view to = pool_view_of(y, &p->units, i / rows);
        struct maxpool_row row = p->row;
        row.lanes = from.lanes;
        int64_t at = to.offset + i % rows * y->dim[3] * to.pixel;
        p->kernels->row(&row, in + from.offset, i % rows, out + at, index ? index + at : NULL);
    }
    return STATUS_OK;
}

static void zero_unit(const struct tensor_desc *t, struct pool_view v, float *data)
{
    int64_t pixels = t->dim[2] * t->dim[3];
    if (v.lanes == v.pixel) {
        memset(data + v.offset, 0, (size_t)(pixels * v.lanes) * sizeof *data);
        return;
    }
    for (int64_t i = 0; i < pixels; i++)
        memset(data + v.offset + i * v.pixel, 0, (size_t)v.lanes * sizeof *data);
}

static void scatter_unit(const struct maxpool_plan *p, int64_t unit, void *const arg[ROLE_COUNT])
{
    const struct op_desc *d = &p->base.desc;
    struct pool_view from = pool_view_of(&d->t[ROLE_DY], &p->units, unit);
    struct pool_view to = pool_view_of(&d->t[ROLE_DX], &p->units, unit);
    const float *dy = (const float *)arg[ROLE_DY] + from.offset;
    const float *dy2 = d->t[ROLE_DY2].ndim ? (const float *)arg[ROLE_DY2] + from.offset : NULL;
    const uint8_t *index = (const uint8_t *)arg[ROLE_INDEX] + from.offset;
    zero_unit(&d->t[ROLE_DX], to, arg[ROLE_DX]);
    float *dx = (float *)arg[ROLE_DX] + to.offset;
    const struct maxpool_row *r = &p->row;
    for (int64_t oh = 0; oh < d->t[ROLE_DY].dim[2]; oh++)
        for (int64_t ow = 0; ow < r->out_width; ow++) {
            int64_t at = (oh * r->out_width + ow) * from.pixel;
            int64_t h = oh * r->stride[0] - r->pad[0], w = ow * r->stride[1] - r->pad[1];
            int64_t corner = (h * r->width + w) * to.pixel;
            for (int64_t i = 0; i < from.lanes; i++)
                dx[corner + p->place[index[at + i]] + i] += dy[at + i] + (dy2 ? dy2[at + i] : 0);
        }
}

static enum status maxpool_bwd(struct op_plan *base, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct maxpool_plan *p = (const struct maxpool_plan *)base;
    int64_t units = base->desc.t[ROLE_DY].dim[0] * p->units.per_image;
#pragma omp parallel for schedule(dynamic) num_threads(base->device->threads)
    for (int64_t u = 0; u < units; u++)
        scatter_unit(p, u, arg);
    return STATUS_OK;
}

enum status cpu_plan_maxpool(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    bool forward = d.kind == OP_MAXPOOL_FWD;
    enum role in = forward ? ROLE_X : ROLE_DX, out = forward ? ROLE_Y : ROLE_DY;
    enum layout layout = d.t[forward ? ROLE_X : ROLE_DY].layout;
    TRY(cpu_take(&d, in, DTYPE_F32, layout));
    TRY(cpu_take(&d, out, DTYPE_F32, layout));
    TRY(cpu_take(&d, ROLE_DY2, DTYPE_F32, layout));
    TRY(cpu_take(&d, ROLE_INDEX, DTYPE_U8, layout));
    TRY(cpu_plan_new(dev, &d, sizeof(struct maxpool_plan), forward ? maxpool_fwd : maxpool_bwd,
                     plan));
    struct maxpool_plan *p = (struct maxpool_plan *)*plan;
    const struct pool_attr *a = &d.attr.pool;
    const struct tensor_desc *x = &d.t[in];
    p->kernels = cpu_device_of(dev)->kernels->maxpool;
    p->units = pool_units_of(x, 1);
    p->row = (struct maxpool_row){
        .height = x->dim[2],
        .width = x->dim[3],
        .out_width = d.t[out].dim[3],
        .pixel = tensor_block(x),
        .lanes = p->units.lanes,
        .kernel = {a->kernel[0], a->kernel[1]},
        .stride = {a->stride[0], a->stride[1]},
        .pad = {a->pad[0], a->pad[1]},
    };
    for (int i = 0; i < a->kernel[0] * a->kernel[1]; i++)
        p->place[i] = (i / a->kernel[1] * p->row.width + i % a->kernel[1]) * p->row.pixel;
    return STATUS_OK;
}
