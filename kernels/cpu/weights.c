/* The gradient of the weights of bf16 convolutions whose images have few pixels.
 *
 * The gradient at each place of the kernel is a product of matrices, (output channels, pixels) and
 * (pixels, input channels). oneDNN adds the product of one image after another to DW, which is
 * large where images are small; here the sums of many images stay in registers. The processor
 * multiplies pairs of bf16 values and adds both products, so X and DY are copied to pairs: the
 * values of one channel at one pixel of two images. At each place of the kernel the pixels outside
 * the image are the same for both images, so one copy serves all places. */
#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/onednn_plan.h"

enum {
    PAIR = 2,
    PIXEL = PAIR * LINE, /* values of a block of channels at a pixel of two images */
    PARTS = LINE / WEIGHTS_ROWS,
    SUMMED = 1600, /* pixels of pairs of images that are summed before DW is written */
};

struct cut {
    const struct weights_kernels *k;
    int64_t every[2]; /* one of so many rows and columns of X is copied */
    int64_t kernel[2], stride[2], pad[2], in[2], out[2]; /* `in`: sides of the copies of X */
    int64_t places;                                      /* of the kernel */
    int64_t pairs, summed;       /* of images; summed before DW is written */
    int64_t x_blocks, dy_blocks; /* of channels */
    int64_t x_pair, dy_pair;     /* values of a block of a pair of images */
    size_t x_bytes, bytes;       /* of copies */
};

static struct cut cut_of(struct device *dev, const struct op_desc *d)
{
    const struct tensor_desc *x = &d->t[ROLE_X], *dy = &d->t[ROLE_DY], *dw = &d->t[ROLE_DW];
    const struct conv_attr *a = &d->attr.conv;
    struct cut c = {.k = cpu_device_of(dev)->kernels->weights,
                    .places = dw->dim[2] * dw->dim[3],
                    .pairs = ceil_div(x->dim[0], PAIR),
                    .x_blocks = x->dim[1] / LINE,
                    .dy_blocks = dy->dim[1] / LINE};
    for (int i = 0; i < 2; i++) {
        c.kernel[i] = dw->dim[2 + i];
        c.pad[i] = a->pad[i];
        c.every[i] = c.kernel[i] == 1 && c.pad[i] == 0 ? a->stride[i] : 1;
        c.stride[i] = a->stride[i] / c.every[i];
        c.in[i] = ceil_div(x->dim[2 + i], c.every[i]);
        c.out[i] = dy->dim[2 + i];
    }
    c.summed = least(c.pairs, ceil_div(SUMMED, c.out[0] * c.out[1]));
    c.x_pair = c.in[0] * c.in[1] * PIXEL;
    c.dy_pair = c.out[0] * c.out[1] * PIXEL;
    c.x_bytes = (size_t)(c.x_blocks * c.pairs * c.x_pair) * sizeof(uint16_t);
    c.bytes = c.x_bytes + (size_t)(c.dy_blocks * c.pairs * c.dy_pair) * sizeof(uint16_t);
    return c;
}

/* Copies a tensor; called by all threads. */
static void copy(const struct cut *c, const struct tensor_desc *t, const int64_t every[2],
                 const uint16_t *from, uint16_t *to)
{
    const int64_t blocks = t->dim[1] / LINE, plane = t->dim[2] * t->dim[3] * LINE;
    const bool whole = every[0] == 1 && every[1] == 1;
    const int64_t rows = whole ? 1 : ceil_div(t->dim[2], every[0]);
    const int64_t columns = whole ? t->dim[2] * t->dim[3] : ceil_div(t->dim[3], every[1]);
#pragma omp for
    for (int64_t i = 0; i < blocks * c->pairs * rows; i++) {
        const int64_t image = i / rows % c->pairs * PAIR, block = i / rows / c->pairs;
        const uint16_t *a =
            from + (image * blocks + block) * plane + i % rows * every[0] * t->dim[3] * LINE;
        c->k->pair(columns, every[1] * LINE, a, image + 1 < t->dim[0] ? a + blocks * plane : NULL,
                   to + i * columns * PIXEL);
    }
}

/* Adds the sums over some pairs of images to DW: item after item of its layout. */
static void sum_pairs(const struct cut *c, const uint16_t *x, const uint16_t *dy, int64_t pair,
                      int64_t item, float *dw)
{
    const int64_t part = item % PARTS * WEIGHTS_ROWS, at = item / PARTS % c->places;
    const int64_t in = item / PARTS / c->places % c->x_blocks;
    const int64_t out = item / PARTS / c->places / c->x_blocks * WEIGHTS_BLOCKS;
    const int64_t place[2] = {at / c->kernel[1], at % c->kernel[1]};
    int64_t first[2], count[2]; /* DY's pixels that have one of X */
    for (int i = 0; i < 2; i++) {
        int64_t before = c->pad[i] - place[i];
        first[i] = before > 0 ? ceil_div(before, c->stride[i]) : 0;
        count[i] = least(c->out[i], ceil_div(c->in[i] + before, c->stride[i])) - first[i];
        x += (first[i] * c->stride[i] - before) * (i == 0 ? c->in[1] : 1) * PIXEL;
    }
    struct pair_sum s = {least(c->summed, c->pairs - pair),
                         count[0],
                         count[1],
                         c->x_pair,
                         c->stride[0] * c->in[1] * PIXEL,
                         c->stride[1] * PIXEL,
                         c->dy_pair,
                         c->out[1] * PIXEL,
                         c->pairs * c->dy_pair};
    if (s.x_row == s.dy_row && s.x_pixel == PIXEL && count[1] == c->out[1] && count[0] > 0) {
        s.columns *= s.rows;
        s.rows = 1;
    }
    x += (in * c->pairs + pair) * c->x_pair + part * PAIR;
    dy += (out * c->pairs + pair) * c->dy_pair + first[0] * s.dy_row + first[1] * PIXEL;
    dw += (((out * c->x_blocks + in) * c->places + at) * LINE + part) * LINE;
    c->k->multiply(&s, x, dy, pair > 0, dw, c->x_blocks * c->places * LINE * LINE);
}

static enum status compute(struct onednn_plan *p, void *const arg[ROLE_COUNT], void *dw)
{
    const struct op_desc *d = &p->base.desc;
    const struct cut c = cut_of(p->base.device, d);
    char *copies = (char *)arg[ROLE_WORKSPACE] + p->base.workspace - c.bytes;
    uint16_t *x = (uint16_t *)copies, *dy = (uint16_t *)(copies + c.x_bytes);
    const int64_t items = c.dy_blocks * c.x_blocks * c.places * PARTS;
#pragma omp parallel num_threads(p->base.device->threads)
    {
        copy(&c, &d->t[ROLE_X], c.every, arg[ROLE_X], x);
        copy(&c, &d->t[ROLE_DY], (const int64_t[]){1, 1}, arg[ROLE_DY], dy);
        for (int64_t pair = 0; pair < c.pairs; pair += c.summed) {
#pragma omp for
            for (int64_t i = 0; i < items / WEIGHTS_BLOCKS; i++)
                sum_pairs(&c, x, dy, pair, i, dw);
        }
    }
    return STATUS_OK;
}

enum status cpu_plan_weights(struct device *dev, const struct op_desc *desc, struct op_plan **out)
{
    struct op_desc d = *desc;
    const struct tensor_desc *w = &d.t[ROLE_DW];
    if (!cpu_device_of(dev)->kernels->weights ||
        !onednn_native(cpu_device_of(dev)->onednn, DTYPE_BF16) || d.t[ROLE_DB].ndim != 0 ||
        d.attr.conv.groups != 1 || w->type != DTYPE_F32 ||
        w->dim[0] % (WEIGHTS_BLOCKS * LINE) != 0 || w->dim[1] % LINE != 0)
        return status_fail(STATUS_UNSUPPORTED, "pairs of images are not for this convolution");
    TRY(cpu_take(&d, ROLE_X, DTYPE_BF16, LAYOUT_NCHW16C));
    TRY(cpu_take(&d, ROLE_DY, DTYPE_BF16, LAYOUT_NCHW16C));
    const struct cut c = cut_of(dev, &d);
    const int64_t images = d.t[ROLE_X].dim[0];
    /* Fitted to ResNets with 2 to 64 images, on two cores (Zen 4): DW is more than three times as
     * large as an image's copies, and zeros fill no more than the last of five pairs. */
    if ((size_t)(tensor_count(w) * c.pairs * PAIR) * sizeof(float) <= 3 * c.bytes ||
        (images % PAIR != 0 && images <= 8))
        return status_fail(STATUS_UNSUPPORTED, "pairs of images are slower here");
    return onednn_plan_own(dev, &d, ROLE_DW, dnnl_OIhw16i16o, c.bytes, compute, "pairs", out);
}
