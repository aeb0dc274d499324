/* Max pooling. Forward calls the instruction set's inner loops for each row. Backward adds the
 * gradient of each output to the input that was the maximum (a scatter). The sums are fp32. They
 * are in DX if DX is fp32; otherwise each thread sums one unit of channels in the workspace. */
#include "kernels/cpu/internal.h"
#include "kernels/cpu/pool.h"

#include <omp.h>
#include <string.h>

enum { WINDOW_MAX = 256 }; /* a window index is a byte */

/* Number of output gradients that are gathered at a time and then scattered. */
enum { TILE = 1024 };

struct maxpool_plan {
    struct op_plan base;
    const struct maxpool_kernels *kernels;
    const struct flat_kernels *flat;
    enum element element;
    struct pool_units units;
    struct maxpool_row row;    /* `lanes` is set for each unit, from its view */
    int64_t sum_pixel;         /* distance, in floats, from one pixel's sums to the next pixel's */
    int64_t place[WINDOW_MAX]; /* for each window index, its offset in floats from the window's
                                * corner, which may lie in the padding */
};

static enum status maxpool_fwd(struct op_plan *base, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct maxpool_plan *p = (const struct maxpool_plan *)base;
    const struct tensor_desc *x = &base->desc.t[ROLE_X], *y = &base->desc.t[ROLE_Y];
    uint8_t *index = base->desc.t[ROLE_INDEX].ndim ? arg[ROLE_INDEX] : NULL;
    int64_t rows = y->dim[2], units = y->dim[0] * p->units.per_image;
#pragma omp parallel for schedule(dynamic, rows) num_threads(base->device->threads)
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

/* The scatter of one unit from DY to DX; pointers point to the unit's first pixel. */
struct scatter {
    const struct maxpool_plan *p;
    struct pool_view from, to;
    const void *dy, *dy2; /* dy2 may be NULL */
    const uint8_t *index;
    float *sum;
    void *dx;
};

static void zero_sums(const struct scatter *s)
{
    const struct maxpool_plan *p = s->p;
    int64_t pixels = p->row.height * p->row.width, lanes = s->to.lanes;
    int64_t step = lanes == p->sum_pixel ? pixels : 1;
    for (int64_t i = 0; i < pixels; i += step)
        memset(s->sum + i * p->sum_pixel, 0, (size_t)(step * lanes) * sizeof *s->sum);
}

/* Gathers the gradients of output pixels [at, at + pixels) into d (pixels, lanes). */
static void maxpool_gather(const struct scatter *s, int64_t at, int64_t pixels, float *d)
{
    enum element element = s->p->element;
    int64_t lanes = s->from.lanes, step = lanes == s->from.pixel ? pixels : 1;
    for (int64_t i = 0; i < pixels; i += step) {
        int64_t from = (at + i) * s->from.pixel;
        s->p->flat->incoming(element_at(s->dy, element, from),
                             s->dy2 ? element_at(s->dy2, element, from) : NULL, d + i * lanes,
                             step * lanes);
    }
}

static void scatter_row(const struct scatter *s, int64_t oh)
{
    const struct maxpool_row *r = &s->p->row;
    int64_t lanes = s->from.lanes, columns = TILE / lanes;
    int64_t h = oh * r->stride[0] - r->pad[0];
    for (int64_t begin = 0; begin < r->out_width; begin += columns) {
        int64_t left = r->out_width - begin, n = left < columns ? left : columns;
        int64_t first = oh * r->out_width + begin;
        float d[TILE];
        maxpool_gather(s, first, n, d);
        for (int64_t o = 0; o < n; o++) {
            const uint8_t *index = s->index + (first + o) * s->from.pixel;
            int64_t w = (begin + o) * r->stride[1] - r->pad[1];
            int64_t corner = (h * r->width + w) * s->p->sum_pixel;
            for (int64_t i = 0; i < lanes; i++)
                s->sum[corner + s->p->place[index[i]] + i] += d[o * lanes + i];
        }
    }
}

/* Converts rows [begin, end) of the sums to DX's elements; these rows must be complete. */
static void finish_rows(const struct scatter *s, int64_t begin, int64_t end)
{
    const struct maxpool_plan *p = s->p;
    int64_t lanes = s->to.lanes, pixels = p->row.width * (end - begin);
    int64_t step = lanes == s->to.pixel && lanes == p->sum_pixel ? pixels : 1;
    for (int64_t i = 0; p->element != ELEMENT_F32 && i < pixels; i += step) {
        int64_t pixel = begin * p->row.width + i;
        p->flat->put(s->sum + pixel * p->sum_pixel,
                     element_at(s->dx, p->element, pixel * s->to.pixel), step * lanes);
    }
}

/* Number of floats in the workspace for a unit's sums; 0: not needed. */
static int64_t unit_floats(const struct maxpool_plan *p)
{
    return element_is_narrow(p->element) ? p->row.height * p->row.width * p->sum_pixel : 0;
}

static void scatter_unit(const struct maxpool_plan *p, int64_t unit, void *const arg[ROLE_COUNT])
{
    const struct op_desc *d = &p->base.desc;
    struct pool_view from = pool_view_of(&d->t[ROLE_DY], &p->units, unit);
    struct pool_view to = pool_view_of(&d->t[ROLE_DX], &p->units, unit);
    void *dx = element_at(arg[ROLE_DX], p->element, to.offset);
    float *sum = dx;
    if (element_is_narrow(p->element))
        sum = (float *)arg[ROLE_WORKSPACE] + omp_get_thread_num() * unit_floats(p);
    const struct scatter s = {
        .p = p,
        .from = from,
        .to = to,
        .dy = element_at(arg[ROLE_DY], p->element, from.offset),
        .dy2 = d->t[ROLE_DY2].ndim ? element_at(arg[ROLE_DY2], p->element, from.offset) : NULL,
        .index = (const uint8_t *)arg[ROLE_INDEX] + from.offset,
        .sum = sum,
        .dx = dx,
    };
    zero_sums(&s);
    int64_t height = p->row.height, finished = 0;
    for (int64_t oh = 0; oh < d->t[ROLE_DY].dim[2]; oh++) {
        scatter_row(&s, oh);
        /* Rows above the next window are complete, and still in the cache. */
        int64_t next = (oh + 1) * p->row.stride[0] - p->row.pad[0];
        int64_t end = next < height ? next : height;
        if (end > finished) {
            finish_rows(&s, finished, end);
            finished = end;
        }
    }
    finish_rows(&s, finished, height);
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
    bool floats = !element_is_narrow(p->element) && !x->raw;
    p->kernels = kernels->maxpool[floats ? ELEMENT_F32 : p->element];
    p->flat = kernels->flat[p->element];
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
    p->sum_pixel = element_is_narrow(p->element) ? p->units.lanes : p->row.pixel;
    for (int i = 0; i < a->kernel[0] * a->kernel[1]; i++)
        p->place[i] = (i / a->kernel[1] * p->row.width + i % a->kernel[1]) * p->sum_pixel;
    if (!forward)
        p->base.workspace = (size_t)(dev->threads * unit_floats(p)) * sizeof(float);
    return STATUS_OK;
}
