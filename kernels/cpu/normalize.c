/* Converts pixels to the network's input. A channel of a pixel has 256 possible values, so the plan
 * computes a table of all results, in double. */
#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"

struct normalize_plan {
    struct op_plan base;
    union {
        float wide[3][256];
        uint16_t narrow[3][256]; /* the table, if Y's elements have two bytes */
    } value;
};

/* Converts one row of pixels. y points to its first value; channels are `plane` elements apart,
 * pixels `step` elements. */
static void normalize_wide(const struct normalize_plan *p, const uint8_t *x, float *y,
                           int64_t width, int64_t plane, int64_t step)
{
    for (int64_t w = 0; w < width; w++)
        for (int c = 0; c < 3; c++)
            y[c * plane + w * step] = p->value.wide[c][x[w * 3 + c]];
}

static void normalize_narrow(const struct normalize_plan *p, const uint8_t *x, uint16_t *y,
                             int64_t width, int64_t plane, int64_t step)
{
    for (int64_t w = 0; w < width; w++)
        for (int c = 0; c < 3; c++)
            y[c * plane + w * step] = p->value.narrow[c][x[w * 3 + c]];
}

static enum status normalize(struct op_plan *base, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct normalize_plan *p = (const struct normalize_plan *)base;
    const struct tensor_desc *t = &base->desc.t[ROLE_Y];
    bool plain = t->layout == LAYOUT_PLAIN;
    int64_t height = t->dim[2], width = t->dim[3];
    int64_t plane = plain ? height * width : 1, step = plain ? 1 : 3;
#pragma omp parallel for num_threads(base->device->threads)
    for (int64_t row = 0; row < t->dim[0] * height; row++) {
        const uint8_t *x = (const uint8_t *)arg[ROLE_X] + row * width * 3;
        int64_t at = row / height * 3 * height * width + row % height * width * step;
        void *y = element_at(arg[ROLE_Y], element_of(t), at);
        if (element_is_narrow(element_of(t)))
            normalize_narrow(p, x, y, width, plane, step);
        else
            normalize_wide(p, x, y, width, plane, step);
    }
    return STATUS_OK;
}

enum status cpu_plan_normalize(struct device *dev, const struct op_desc *desc,
                               struct op_plan **plan)
{
    struct op_desc d = *desc;
    enum layout to = d.t[ROLE_Y].layout == LAYOUT_NHWC ? LAYOUT_NHWC : LAYOUT_PLAIN;
    TRY(cpu_take(&d, ROLE_X, DTYPE_U8, LAYOUT_NHWC));
    TRY(cpu_take_like(&d, ROLE_Y, to, &d.t[ROLE_Y]));
    TRY(cpu_plan_new(dev, &d, sizeof(struct normalize_plan), normalize, plan));
    struct normalize_plan *p = (struct normalize_plan *)*plan;
    const struct normalize_attr *a = &d.attr.normalize;
    enum element element = element_of(&d.t[ROLE_Y]);
    for (int c = 0; c < 3; c++) {
        float value[256];
        for (int i = 0; i < 256; i++)
            value[i] = (float)((i / 255.0 - (double)a->mean[c]) / (double)a->std[c]);
        void *table = element_is_narrow(element) ? (void *)p->value.narrow[c] : p->value.wide[c];
        cpu_device_of(dev)->kernels->flat[element]->put(value, table, 256);
    }
    return STATUS_OK;
}
