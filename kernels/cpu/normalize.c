/* From pixels to the network's input. A pixel has 256 values and there are three channels, so the
 * plan works out every result once, in double. */
#include "kernels/cpu/internal.h"

struct normalize_plan {
    struct op_plan base;
    float value[3][256];
};

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
        int64_t image = row / height * 3 * height * width;
        float *y = (float *)arg[ROLE_Y] + image + row % height * width * step;
        for (int64_t w = 0; w < width; w++)
            for (int c = 0; c < 3; c++)
                y[c * plane + w * step] = p->value[c][x[w * 3 + c]];
    }
    return STATUS_OK;
}

enum status cpu_plan_normalize(struct device *dev, const struct op_desc *desc,
                               struct op_plan **plan)
{
    struct op_desc d = *desc;
    enum layout to = d.t[ROLE_Y].layout == LAYOUT_NHWC ? LAYOUT_NHWC : LAYOUT_PLAIN;
    TRY(cpu_take(&d, ROLE_X, DTYPE_U8, LAYOUT_NHWC));
    enum dtype rounds = d.t[ROLE_Y].rounds;
    TRY(cpu_take_rounded(&d, ROLE_Y, to, rounds));
    TRY(cpu_plan_new(dev, &d, sizeof(struct normalize_plan), normalize, plan));
    struct normalize_plan *p = (struct normalize_plan *)*plan;
    const struct normalize_attr *a = &d.attr.normalize;
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 256; i++)
            p->value[c][i] =
                dtype_round(rounds, (float)((i / 255.0 - (double)a->mean[c]) / (double)a->std[c]));
    return STATUS_OK;
}
