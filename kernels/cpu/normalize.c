/* Converts pixels to the network's input. A channel of a pixel has 256 possible values, so the plan
 * computes a table of all results, in double. A value of a mixed image is a weighted sum of two of
 * these results. */
#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"

struct normalize_plan {
    struct op_plan base;
    union {
        float wide[3][256];
        uint16_t narrow[3][256]; /* the table, if Y's elements have two bytes and no rows are
                                  * mixed */
    } value;
};

/* Converts one row of pixels. y points to the result's first value; channels are `plane` elements
 * apart, and pixels are `step` elements apart. */
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

/* Mixes the row of pixels `own` with the row `other`, and stores the result in `y`; `at` is the
 * index of the first value stored. */
static void mix_row(const struct normalize_plan *p, const uint8_t *own, const uint8_t *other,
                    float mix, void *y, int64_t at)
{
    enum { PIXELS = 128 };
    const struct tensor_desc *t = &p->base.desc.t[ROLE_Y];
    enum element e = element_of(t);
    const struct flat_kernels *flat = cpu_device_of(p->base.device)->kernels->flat[e];
    bool plain = t->layout == LAYOUT_PLAIN;
    int64_t width = t->dim[3], channel = plain ? PIXELS : 1, step = plain ? 1 : 3;
    float value[3 * PIXELS], rest = (float)(1 - (double)mix);
    for (int64_t begin = 0; begin < width; begin += PIXELS) {
        int64_t n = width - begin < PIXELS ? width - begin : PIXELS;
        for (int64_t w = 0; w < n; w++)
            for (int c = 0; c < 3; c++) {
                const float *table = p->value.wide[c];
                int64_t i = 3 * (begin + w) + c;
                value[c * channel + w * step] = mix * table[own[i]] + rest * table[other[i]];
            }
        for (int c = 0; plain && c < 3; c++)
            flat->put(value + c * PIXELS, element_at(y, e, at + c * t->dim[2] * width + begin), n);
        if (!plain)
            flat->put(value, element_at(y, e, at + 3 * begin), 3 * n);
    }
}

static enum status normalize(struct op_plan *base, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct normalize_plan *p = (const struct normalize_plan *)base;
    const struct tensor_desc *t = &base->desc.t[ROLE_Y];
    bool plain = t->layout == LAYOUT_PLAIN;
    int64_t height = t->dim[2], width = t->dim[3];
    int64_t plane = plain ? height * width : 1, step = plain ? 1 : 3;
    const int32_t *partner = base->desc.t[ROLE_PARTNER].ndim ? arg[ROLE_PARTNER] : NULL;
    float mix = partner ? ((const struct step_state *)arg[ROLE_STATE])->mix : 1;
#pragma omp parallel for num_threads(base->device->threads)
    for (int64_t row = 0; row < t->dim[0] * height; row++) {
        const uint8_t *x = (const uint8_t *)arg[ROLE_X] + row * width * 3;
        int64_t at = row / height * 3 * height * width + row % height * width * step;
        void *y = element_at(arg[ROLE_Y], element_of(t), at);
        int64_t other = partner ? partner[row / height] * height + row % height : row;
        if (partner)
            mix_row(p, x, (const uint8_t *)arg[ROLE_X] + other * width * 3, mix, arg[ROLE_Y], at);
        else if (element_is_narrow(element_of(t)))
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
    TRY(cpu_take(&d, ROLE_PARTNER, DTYPE_I32, LAYOUT_PLAIN));
    TRY(cpu_plan_new(dev, &d, sizeof(struct normalize_plan), normalize, plan));
    struct normalize_plan *p = (struct normalize_plan *)*plan;
    const struct normalize_attr *a = &d.attr.normalize;
    enum element element = element_of(&d.t[ROLE_Y]);
    bool mixes = d.t[ROLE_PARTNER].ndim > 0; /* if true, the table's values are not rounded */
    for (int c = 0; c < 3; c++) {
        float value[256];
        for (int i = 0; i < 256; i++)
            value[i] = (float)((i / 255.0 - (double)a->mean[c]) / (double)a->std[c]);
        void *table =
            !mixes && element_is_narrow(element) ? (void *)p->value.narrow[c] : p->value.wide[c];
        cpu_device_of(dev)->kernels->flat[mixes ? ELEMENT_F32 : element]->put(value, table, 256);
    }
    return STATUS_OK;
}
