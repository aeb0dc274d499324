/* Adaptive average pooling, between activations of one layout or with one side plain, as the
 * linear layer after it wants it.
 *
 * Output i of n over m inputs covers the inputs floor(i*m/n) .. ceil((i+1)*m/n)-1, and the outputs
 * that cover an input are given by the same formula with n and m exchanged. Both passes gather
 * therefore: every result is written once, and its terms are added in order, in double. */
#include "kernels/cpu/internal.h"
#include "kernels/cpu/pool.h"

/* Planes taken together, so that finding a window costs each of them little. */
enum { PLANES = 16 };

/* A row or a column of one side: what it covers of the other, and the factor of its terms. */
struct cover {
    int64_t begin, end;
    double scale;
};

struct avgpool_plan {
    struct op_plan base;
    struct pool_units units;
    enum role from, to;
    /* Rows and columns, in `cover`. */
    const struct cover *from_row, *from_col, *to_row, *to_col;
    struct cover cover[];
};

/* Values of some lanes, rounded where the tensor says so. */
static void round_lanes(const struct avgpool_plan *p, enum role role, float *value, int64_t lanes)
{
    enum rounding to = rounding_of(p->base.desc.t[role].rounds);
    if (to != ROUND_NONE)
        cpu_device_of(p->base.device)->kernels->mixed->round(to, value, value, lanes);
}

/* Sums of the lanes of `from` over the pixels that one result covers. */
static void gather(const struct avgpool_plan *p, struct pool_view from, const float *x,
                   const struct cover *row, const struct cover *col, double sum[MAXPOOL_LANES])
{
    int64_t width = p->base.desc.t[p->from].dim[3];
    for (int64_t i = 0; i < from.lanes; i++)
        sum[i] = 0;
    for (int64_t h = row->begin; h < row->end; h++)
        for (int64_t w = col->begin; w < col->end; w++) {
            double scale = p->from_row[h].scale * p->from_col[w].scale;
            const float *pixel = x + from.offset + (h * width + w) * from.pixel;
            float value[MAXPOOL_LANES];
            for (int64_t i = 0; i < from.lanes; i++)
                value[i] = pixel[i * from.lane];
            round_lanes(p, p->from, value, from.lanes);
            for (int64_t i = 0; i < from.lanes; i++)
                sum[i] += scale * (double)value[i];
        }
}

static enum status avgpool_execute(struct op_plan *base, void *const arg[ROLE_COUNT],
                                   struct stream *s)
{
    (void)s;
    const struct avgpool_plan *p = (const struct avgpool_plan *)base;
    const struct tensor_desc *from = &base->desc.t[p->from], *to = &base->desc.t[p->to];
    const float *x = arg[p->from];
    float *y = arg[p->to];
    int64_t units = to->dim[0] * p->units.per_image;
#pragma omp parallel for num_threads(base->device->threads)
    for (int64_t u = 0; u < units; u++) {
        struct pool_view in = pool_view_of(from, &p->units, u);
        struct pool_view out = pool_view_of(to, &p->units, u);
        for (int64_t h = 0; h < to->dim[2]; h++)
            for (int64_t w = 0; w < to->dim[3]; w++) {
                double sum[MAXPOOL_LANES];
                float value[MAXPOOL_LANES];
                gather(p, in, x, &p->to_row[h], &p->to_col[w], sum);
                double scale = p->to_row[h].scale * p->to_col[w].scale;
                for (int64_t i = 0; i < out.lanes; i++)
                    value[i] = (float)(scale * sum[i]);
                round_lanes(p, p->to, value, out.lanes);
                float *pixel = y + out.offset + (h * to->dim[3] + w) * out.pixel;
                for (int64_t i = 0; i < out.lanes; i++)
                    pixel[i * out.lane] = value[i];
            }
    }
    return STATUS_OK;
}

/* Fills in n positions that cover m others; each averages what it covers, or passes it on. */
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
        return status_fail(STATUS_UNSUPPORTED, "%s: no kernel from %s to %s", op_str(d.kind),
                           layout_str(from->layout), layout_str(layout));
    TRY(cpu_take_rounded(&d, forward ? ROLE_X : ROLE_DY, from->layout, from->rounds));
    TRY(cpu_take_rounded(&d, forward ? ROLE_Y : ROLE_DX, layout, to->rounds));
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
