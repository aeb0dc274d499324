/* The gradient of the input of a bf16 convolution as a forward convolution of DY. Its weights are W
 * turned by 180 degrees, with input and output channels exchanged; oneDNN's own data gradient would
 * reorder W as well. Turning is exact, and both ways sum products of the same values in fp32. */
#include "kernels/cpu/internal.h"
#include "kernels/cpu/onednn_plan.h"

#include <stdlib.h>

struct turned_plan {
    struct op_plan base;
    struct op_plan *forward; /* its workspace follows the turned weights */
};

/* Transposes a block of 16x16 weights, in which one kind of channels is stored in pairs: (8, 16, 2)
 * becomes the same form with the kinds exchanged. Four values are moved at a time, as 2x2. */
static void turn_block(const uint64_t *from, uint64_t *to)
{
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 8; k++) {
            uint64_t v = from[i * 8 + k];
            to[k * 8 + i] =
                (v & 0xffff00000000ffff) | (v >> 16 & 0xffff0000) | (v << 16 & 0xffff00000000);
        }
}

/* Weights are blocked as (O, I, KH, KW, 8i, 16o, 2i). */
static void turn(const struct tensor_desc *w, const void *from, void *to, int threads)
{
    enum { BYTES = 16 * 16 * 2 };
    int64_t out = w->dim[0] / 16, in = w->dim[1] / 16, taps = w->dim[2] * w->dim[3];
#pragma omp parallel for num_threads(threads)
    for (int64_t i = 0; i < in * out; i++)
        for (int64_t tap = 0; tap < taps; tap++) {
            int64_t block = (i % out * in + i / out) * taps + tap;
            turn_block((const void *)((const char *)from + block * BYTES),
                       (void *)((char *)to + (i * taps + taps - 1 - tap) * BYTES));
        }
}

static enum status turned_execute(struct op_plan *base, void *const arg[ROLE_COUNT],
                                  struct stream *s)
{
    struct op_plan *forward = ((struct turned_plan *)base)->forward;
    const struct tensor_desc *w = &base->desc.t[ROLE_W];
    char *weights = arg[ROLE_WORKSPACE];
    turn(w, arg[ROLE_W], weights, base->device->threads);
    void *const use[ROLE_COUNT] = {[ROLE_X] = arg[ROLE_DY],
                                   [ROLE_W] = weights,
                                   [ROLE_Y] = arg[ROLE_DX],
                                   [ROLE_WORKSPACE] = weights + cpu_align(w->bytes)};
    return op_execute(forward, use, s);
}

static void turned_free(struct op_plan *base)
{
    op_plan_free(((struct turned_plan *)base)->forward);
    free(base);
}

/* Whether it is possible and faster. Measured on two cores with avx512_core_bf16, 512 channels,
 * 3x3: rows of 7 pixels take 7.1 ms instead of 8.4 (16 images, in a training step), 1.9 instead
 * of 2.3 (4 images). Rows of 2, 4, 8, 14, 28 and 56 pixels take the same time within 4 %. */
static bool is_faster(const struct op_desc *d)
{
    const struct conv_attr *a = &d->attr.conv;
    const struct tensor_desc *w = &d->t[ROLE_W];
    return d->kind == OP_CONV_BWD_DATA && d->t[ROLE_DX].dim[3] == 7 && w->type == DTYPE_BF16 &&
           a->groups == 1 && w->dim[0] % 16 == 0 && w->dim[1] % 16 == 0 && w->dim[2] > 1 &&
           w->dim[3] > 1 && a->stride[0] == 1 && a->stride[1] == 1 && a->pad[0] < w->dim[2] &&
           a->pad[1] < w->dim[3];
}

/* Sets *same to whether the layout of weights is the one that turn() takes; a layout of ANY becomes
 * it. */
static enum status take_weights(struct onednn_engine *e, struct tensor_desc *w, bool *same)
{
    enum status st;
    struct md given = {0}, blocked = {0};
    const dnnl_dims_t dims = {w->dim[0], w->dim[1], w->dim[2], w->dim[3]};
    CHECK(md_make(&blocked, 4, dims, dnnl_bf16, dnnl_OIhw8i16o2i));
    if (w->layout == LAYOUT_ANY)
        CHECK(md_to_tensor(e, &blocked, 1, w));
    CHECK(md_from_tensor(e, w, 1, &given));
    *same = md_equal(&given, &blocked);
    w->bytes = md_bytes(&blocked);
done:
    md_free(&given);
    md_free(&blocked);
    return st;
}

enum status onednn_plan_turned(struct device *dev, const struct op_desc *desc,
                               struct op_plan **plan)
{
    enum status st;
    struct op_desc d = *desc, f = {.kind = OP_CONV_FWD, .attr = desc->attr};
    struct op_plan *forward = NULL;
    bool from = false, to = false;
    if (!onednn_native(onednn_engine_of(dev), DTYPE_BF16) || !is_faster(desc))
        return STATUS_UNSUPPORTED;
    const struct tensor_desc *w = &d.t[ROLE_W];
    f.t[ROLE_X] = d.t[ROLE_DY];
    f.t[ROLE_Y] = d.t[ROLE_DX];
    f.t[ROLE_W] = tensor_4d(DTYPE_BF16, LAYOUT_ANY, w->dim[1], w->dim[0], w->dim[2], w->dim[3]);
    for (int i = 0; i < 2; i++)
        f.attr.conv.pad[i] = (int)w->dim[2 + i] - 1 - f.attr.conv.pad[i];
    CHECK(take_weights(onednn_engine_of(dev), &d.t[ROLE_W], &from));
    CHECK(onednn_plan_conv(dev, &f, &forward));
    CHECK(take_weights(onednn_engine_of(dev), &forward->desc.t[ROLE_W], &to));
    d.t[ROLE_DY] = forward->desc.t[ROLE_X];
    d.t[ROLE_DX] = forward->desc.t[ROLE_Y];
    st = from && to
             ? op_plan_new(dev, &d, sizeof(struct turned_plan), forward->impl, turned_execute, plan)
             : STATUS_UNSUPPORTED;
    CHECK(st);
    ((struct turned_plan *)*plan)->forward = forward;
    (*plan)->workspace = cpu_align(d.t[ROLE_W].bytes) + forward->workspace;
    (*plan)->free = turned_free;
    forward = NULL;
done:
    op_plan_free(forward);
    return st;
}
