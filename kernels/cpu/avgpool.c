/* Adaptive average pooling. Both tensors have the same layout, or one of them has the plain layout,
 * which the linear layer after the pooling needs.
 *
 * With n outputs and m inputs, output i covers inputs floor(i*m/n) .. ceil((i+1)*m/n)-1. The same
 * formula with n and m exchanged gives the outputs that cover an input. So both passes gather:
 * every result is written once, and its terms are added in order, in double. */
#include "kernels/cpu/internal.h"
#include "kernels/cpu/pool.h"

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

/* Sums each lane of `from` over the pixels that one result covers. */
static void avgpool_gather(const struct avgpool_plan *p, const struct lanes *from,
                           const struct cover *row, const struct cover *col,
                           double sum[MAXPOOL_LANES])
{
    int64_t width = p->base.desc.t[p->from].dim[3];
    for (int64_t i = 0; i < from->view.lanes; i++)
        sum[i] = 0;
    for (int64_t h = row->begin; h < row->end; h++)
        for (int64_t w = col->begin; w < col->end; w++) {
            double scale = p->from_row[h].scale * p->from_col[w].scale;
            float value[MAXPOOL_LANES];
            lanes_get(from, h * width + w, value);
            for (int64_t i = 0; i < from->view.lanes; i++)
                sum[i] += scale * (double)value[i];
        }
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
        for (int64_t h = 0; h < to->dim[2]; h++)
            for (int64_t w = 0; w < to->dim[3]; w++) {
                double sum[MAXPOOL_LANES];
                float value[MAXPOOL_LANES];
                avgpool_gather(p, &in, &p->to_row[h], &p->to_col[w], sum);
                double scale = p->to_row[h].scale * p->to_col[w].scale;
                for (int64_t i = 0; i < out.view.lanes; i++)
                    value[i] = (float)(scale * sum[i]);
                lanes_put(&out, h * to->dim[3] + w, value);
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
