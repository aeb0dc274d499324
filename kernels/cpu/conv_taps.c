/* The gradient of a convolution's weights on small images, as one matrix product per tap.
 *
 * A tap is a place (kh, kw) of the kernel. Each output pixel multiplies a tap by one input pixel.
 * The gradient of the tap is a matrix of input by output channels: the product of these input
 * pixels and the gradients of the output pixels. Both are first copied into matrices with a row per
 * pixel. Output pixels whose input pixel is padding have no row: with a 3x3 kernel on 2x2 pixels,
 * more than half of the rows are absent.
 *
 * oneDNN's own kernel is slow if rows of pixels are short, because its inner loop runs along a row.
 * The matrices of all taps form one tensor in the order (KH, KW, I, O), which the plan reorders
 * into DW's layout. */
#include "kernels/cpu/internal.h"
#include "kernels/cpu/onednn_plan.h"

#include <stdio.h>
#include <string.h>

/* Measurements show that the matrix products are faster than oneDNN's kernel if the output has at
 * most PIXELS_MAX pixels per image and at least ROWS_MIN pixels in all images together. */
enum { PIXELS_MAX = 49, ROWS_MIN = 64 };

/* The pixels of an image that a tap uses, in each direction (height, width): `count` pixels, from
 * pixel `first` on, at a distance of `step` pixels. */
struct window {
    int64_t first[2], step[2], count[2];
};

/* Sets the windows of tap k in the input and in the output. */
static void find_windows(const struct op_desc *d, const int64_t k[2], struct window *in,
                         struct window *out)
{
    const struct conv_attr *a = &d->attr.conv;
    for (int i = 0; i < 2; i++) {
        int64_t stride = a->stride[i], offset = k[i] - a->pad[i];
        int64_t begin = offset < 0 ? (-offset + stride - 1) / stride : 0;
        int64_t last = d->t[ROLE_X].dim[2 + i] - 1 - offset; /* of begin * stride */
        int64_t end = last < 0 ? 0 : last / stride + 1, size = d->t[ROLE_DY].dim[2 + i];
        end = end < size ? end : size;
        out->first[i] = begin;
        out->step[i] = 1;
        in->first[i] = begin * stride + offset;
        in->step[i] = stride;
        in->count[i] = out->count[i] = end > begin ? end - begin : 0;
    }
}

static int64_t window_rows(const struct op_desc *d, const struct window *w)
{
    return d->t[ROLE_X].dim[0] * w->count[0] * w->count[1];
}

/* Copies the channels of each pixel of the window into a row of `to`. */
static void gather(const struct tensor_desc *t, const float *from, const struct window *w,
                   float *to, int threads)
{
    int64_t per_image = w->count[0] * w->count[1], rows = t->dim[0] * per_image;
    int64_t block = tensor_block(t), blocks = t->dim[1] / block, pixels = t->dim[2] * t->dim[3];
#pragma omp parallel for num_threads(threads)
    for (int64_t r = 0; r < rows; r++) {
        int64_t n = r / per_image, i = r % per_image;
        int64_t h = w->first[0] + i / w->count[1] * w->step[0];
        int64_t column = w->first[1] + i % w->count[1] * w->step[1];
        const float *pixel = from + (n * blocks * pixels + h * t->dim[3] + column) * block;
        for (int64_t b = 0; b < blocks; b++)
            memcpy(to + (r * blocks + b) * block, pixel + b * pixels * block,
                   (size_t)block * sizeof *to);
    }
}

static size_t rows_bytes(const struct op_desc *d, enum role role)
{
    const struct tensor_desc *dy = &d->t[ROLE_DY];
    int64_t rows = dy->dim[0] * dy->dim[2] * dy->dim[3];
    return cpu_align((size_t)(rows * d->t[role].dim[1]) * sizeof(float));
}

static enum status taps_compute(struct onednn_plan *p, void *const arg[ROLE_COUNT], void *result)
{
    const struct op_desc *d = &p->base.desc;
    int64_t in = d->t[ROLE_X].dim[1], out = d->t[ROLE_DY].dim[1];
    int64_t height = d->t[ROLE_DW].dim[2], width = d->t[ROLE_DW].dim[3];
    char *workspace = (char *)arg[ROLE_WORKSPACE] + p->base.workspace;
    float *dy = (float *)(workspace - rows_bytes(d, ROLE_DY));
    float *x = (float *)((char *)dy - rows_bytes(d, ROLE_X));
    for (int64_t tap = 0; tap < height * width; tap++) {
        struct window from, to;
        float *dw = (float *)result + tap * in * out;
        find_windows(d, (int64_t[]){tap / width, tap % width}, &from, &to);
        int64_t rows = window_rows(d, &to);
        if (rows == 0) {
            memset(dw, 0, (size_t)(in * out) * sizeof *dw);
            continue;
        }
        gather(&d->t[ROLE_X], arg[ROLE_X], &from, x, p->base.device->threads);
        gather(&d->t[ROLE_DY], arg[ROLE_DY], &to, dy, p->base.device->threads);
        TRY(onednn_status(dnnl_sgemm('T', 'N', in, out, rows, 1, x, in, dy, out, 0, dw, out),
                          "dnnl_sgemm"));
    }
    return STATUS_OK;
}

/* Whether the products are faster than the library's kernel. */
static bool is_small(const struct op_desc *d)
{
    const struct tensor_desc *dy = &d->t[ROLE_DY], *dw = &d->t[ROLE_DW];
    int64_t pixels = dy->dim[2] * dy->dim[3];
    return d->attr.conv.groups == 1 && dw->dim[2] * dw->dim[3] > 1 && pixels <= PIXELS_MAX &&
           dy->dim[0] * pixels >= ROWS_MIN && onednn_vector_bits() >= 256;
}

static bool is_blocked(const struct tensor_desc *t)
{
    return t->type == DTYPE_F32 && !t->raw && tensor_block(t) >= 8;
}

enum status onednn_plan_conv_taps(struct device *dev, const struct op_desc *desc,
                                  struct op_plan **out)
{
    enum status st;
    struct op_desc d = *desc;
    struct onednn_engine *e = onednn_engine_of(dev);
    struct md given = {0}, wanted = {0};
    struct onednn_plan *plan = NULL;
    struct tensor_desc *dw = &d.t[ROLE_DW];
    if (!is_small(&d) || !is_blocked(&d.t[ROLE_X]) || !is_blocked(&d.t[ROLE_DY]) ||
        dw->type != DTYPE_F32 || d.t[ROLE_DB].ndim)
        return status_fail(STATUS_UNSUPPORTED, "no product by taps for this convolution");
    if (dw->layout == LAYOUT_ANY)
        dw->layout = LAYOUT_PLAIN;
    dw->raw = dw->rounds != DTYPE_F32;
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d.t[r].ndim)
            d.t[r].bytes = (size_t)tensor_count(&d.t[r]) * sizeof(float);
    dnnl_dims_t dims = {dw->dim[0], dw->dim[1], dw->dim[2], dw->dim[3]};
    CHECK(md_from_tensor(e, dw, 1, &given));
    dw->bytes = md_bytes(&given);
    CHECK(md_make(&wanted, 4, dims, dnnl_f32, dnnl_hwio));
    CHECK(onednn_plan_new(dev, &d, &plan));
    CHECK(onednn_plan_bind(plan, DNNL_ARG_DIFF_WEIGHTS, ROLE_DW, true, &given, &wanted));
    plan->compute = taps_compute;
    plan->base.workspace += rows_bytes(&d, ROLE_X) + rows_bytes(&d, ROLE_DY);
    snprintf(plan->impl, sizeof plan->impl, "own:taps");
    *out = &plan->base;
    plan = NULL;
done:
    md_free(&given);
    md_free(&wanted);
    if (plan)
        op_plan_free(&plan->base);
    return st;
}
