/* Compares a predicted step of ResNet-50 with an independent count of bytes. The count adds up the
 * tensors that each form reads and writes in the network's blocks. It does not use the program's
 * graph, lowering or table of launches. Needs the CUDA module and a cuDNN that plans from
 * descriptions, but no GPU. */
#include "bench/step_predict.h"
#include "tests/kernels/group.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 256, BLOCKS = 16 };

/* --- the count --- */

/* Elements per image of the tensors in a residual block. */
struct block {
    double in, c1, c2, c3; /* the block's input, and the outputs of its convolutions */
    double read;           /* elements of the input that the shortcut's projection reads */
    bool projects, strided;
    bool joins; /* the next block has no projection; its data gradient can fuse this block's end */
    bool last;
};

/* The fused forms in a plan. count_step() handles plans with and without each form. */
struct forms {
    enum fuse fuse;
    bool stem;     /* one kernel computes batch norm, ReLU and pooling */
    bool shortcut; /* the addition at a block's end also applies the projection's batch norm */
    bool dual;     /* a data gradient also computes the backward sums of that batch norm */
    bool output;   /* the first convolution of the next block writes the output of this block */
};

/* A mask has one bit per element. The count is in elements of 16 bits. */
static const double BIT = 1.0 / 16;

/* Returns the number of parameters of the convolutions. */
static double make_blocks(struct block b[BLOCKS])
{
    static const int blocks[4] = {3, 4, 6, 3};
    double in = 64, side = 56, parameters = 64 * 3 * 49;
    int n = 0;
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < blocks[stage]; i++, n++) {
            double width = 64 << stage, out = 4 * width, stride = i == 0 && stage > 0 ? 2 : 1;
            double area = side * side, small = area / stride / stride;
            b[n] = (struct block){.in = in * area,
                                  .c1 = width * area,
                                  .c2 = width * small,
                                  .c3 = out * small,
                                  .read = in * small,
                                  .projects = i == 0,
                                  .strided = stride > 1,
                                  .joins = i + 1 < blocks[stage],
                                  .last = n == BLOCKS - 1};
            parameters += in * width + 9 * width * width + width * out + (i == 0 ? in * out : 0);
            in = out;
            side /= stride;
        }
    return parameters;
}

/* A weight gradient reads X and DY. These are as large as X and Y, which the forward convolution
 * reads and writes. */
static void count_products(const struct block *b, bool strides, double *e)
{
    double read = b->in + b->c1 + b->c2 + (b->projects ? b->read : 0);
    double written = b->c1 + b->c2 + b->c3 + (b->projects ? b->c3 : 0);
    *e += read + written;
    *e += read + written;
    *e += b->in + 2 * b->c1 + 2 * b->c2 + b->c3;
    /* With strides, a convolution first computes the projection's gradient for the pixels that the
     * projection reads. Another operation then adds it to the gradient of all pixels. */
    if (b->projects && b->strided && strides)
        *e += b->c3 + b->read + 3 * b->read;
    else if (b->projects)
        *e += b->c3 + b->in;
}

/* Batch norm as a separate operation. With `masks`, ReLUs write masks, and convolutions compute the
 * sums for batch norm's statistics. Without `masks`, the backward pass reads the ReLU's result, and
 * forward batch norm reads its input twice. */
static void count_plain(const struct block *b, bool masks, double *e)
{
    double inner = b->c1 + b->c2, projected = b->projects ? b->c3 : 0, relu = masks ? BIT : 1;
    /* At a block's end the backward pass adds two gradients. After the last block there is only
     * one gradient. There is also one gradient if the next block's projection has already added
     * both. */
    double gradients = b->last || (masks && !b->joins) ? 1 : 2;
    *e += (masks ? 2 : 3) * (inner + projected) + (masks ? 3 : 4) * b->c3;
    *e += masks ? BIT * (inner + b->c3) : 0;
    *e += (2 + relu + 3 + relu) * inner + 5 * projected;
    *e += (gradients + 1 + relu + 1 + 3) * b->c3;
}

/* Whether the data gradient of the next block computes the backward sums at the end of this block.
 */
static bool joined(const struct block *b, const struct forms *f)
{
    return b->joins && f->fuse == FUSE_ALL && (f->dual || !f->shortcut || !b->projects);
}

/* Inside a block, each convolution applies the batch norm that precedes it. Data gradients compute
 * the backward sums of these batch norms. At some blocks' ends (joined()), they also compute the
 * backward sums of the last batch norm. */
static void count_fused(const struct block *b, const struct forms *f, double *e)
{
    double inner = b->c1 + b->c2, mask = joined(b, f) ? 0 : BIT, gradients = b->joins ? 2 : 1;
    bool both = b->projects && f->shortcut; /* one operation applies both batch norms */
    if (joined(b, f) && f->output)
        *e += 2 * b->c3;
    else
        *e += (3 + mask + (b->projects && !both ? 2 : 0)) * b->c3;
    *e += 3 * inner + (b->projects && !both ? 5 : 0) * b->c3;
    if (joined(b, f))
        *e += (both ? 5 : 3) * b->c3;
    else if (both)
        *e += (gradients + 2 + BIT + 1 + 5) * b->c3;
    else
        *e += (gradients + 1 + BIT + 1 + 3) * b->c3;
    *e += inner + (joined(b, f) ? 3 * b->c3 : 0);
}

/* The stem: its convolution pads the weights; batch norm, ReLU and pooling read its output. */
static void count_stem(const struct forms *f, double *e)
{
    bool masks = f->fuse != FUSE_NONE;
    double image = 4 * 224 * 224, y = 64 * 112 * 112, pooled = 64 * 56 * 56, relu = masks ? BIT : 1;
    *e += image + y;
    *e += image + y;
    *e += (f->stem ? 2 : 3 + (masks ? BIT : 0) + 1) * y + 1.5 * pooled;
    *e += (f->stem ? 3 : 5 + 2 * relu + 1) * y + (f->stem ? 2 : 1) * 2.5 * pooled;
}

/* Returns the bytes of a step per image. */
static double count_step(const struct forms *f, int batch)
{
    struct block b[BLOCKS];
    double e = 0, parameters = make_blocks(b), classifier = 2048 * 1000;
    count_stem(f, &e);
    for (int i = 0; i < BLOCKS; i++) {
        count_products(&b[i], f->fuse != FUSE_NONE, &e);
        if (f->fuse == FUSE_ALL)
            count_fused(&b[i], f, &e);
        else
            count_plain(&b[i], f->fuse == FUSE_STATS, &e);
    }
    double all = 2 * e;
    /* The forward convolution and the data gradient read the weights, and the weight gradient
     * writes its result, all with 2 bytes per parameter. */
    all += 3 * 2 * parameters / batch;
    /* reading the pixels, and writing the network's input */
    all += 3 * 224 * 224 + 2 * 4 * 224 * 224;
    all += 2 * 2 * 2048 * 50;                /* average pooling */
    all += (2 + 2 + 4) * classifier / batch; /* linear layer */
    /* The overflow check and the optimizer each read the gradient. The optimizer also reads and
     * writes two fp32 buffers, and writes the half-precision copy. */
    all += (2 * 2 + 2 * 4 + 2 * 4 + 2) * parameters / batch;
    return all + (2 * 4 + 2 * 4 + 2 * 4 + 2) * classifier / batch;
}

/* --- the prediction --- */

static void predict_on(const char *gpu, const char *precision, enum fuse fuse, int batch,
                       struct step_prediction *p)
{
    static struct bench_options o;
    o = (struct bench_options){
        .net = "resnet50", .batch = batch, .image_size = 224, .precision = precision, .fuse = fuse};
    expect_ok(step_prediction_open(&o, gpu, p));
}

static struct forms forms_of(const struct step_prediction *p)
{
    struct forms f = {.fuse = p->options->fuse};
    for (int i = 0; i < p->n; i++) {
        const struct op_desc *d = &p->kernel[i].info.plan->desc;
        f.stem = f.stem || strcmp(op_str(d->kind), "bn_pool_fwd") == 0;
        f.shortcut = f.shortcut || d->t[ROLE_Z_AFFINE].ndim;
        f.output = f.output || d->t[ROLE_APPLIED].ndim;
        f.dual = f.dual || (d->kind == OP_CONV_BWD_DATA_BN && d->t[ROLE_Z_GAMMA].ndim);
    }
    return f;
}

/* A shape without a fused plan would be planned as separate operations, and read more bytes. */
static void test_bytes(void **state)
{
    static const struct {
        enum fuse fuse;
        int batch;
    } cases[] = {{FUSE_ALL, 256}, {FUSE_ALL, 64}, {FUSE_STATS, 256}, {FUSE_NONE, 256}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct step_prediction p;
        predict_on("h200", "amp", cases[i].fuse, cases[i].batch, &p);
        struct forms forms = forms_of(&p);
        double counted = count_step(&forms, cases[i].batch);
        double predicted = step_prediction_bytes(&p);
        if (fabs(predicted / counted - 1) > 0.001)
            fail_msg("--fuse %s, batch %d: predicted %.2f MB an image, counted %.2f",
                     fuse_str(cases[i].fuse), cases[i].batch, predicted * 1e-6, counted * 1e-6);
        step_prediction_close(&p);
    }
}

/* In fp32, cuDNN's engines for the forward pass and for data gradients copy both activations.
 * Convolutions that are products do not need that. */
static void test_copies(void **state)
{
    struct step_prediction p;
    int products = 0, copying = 0;
    predict_on("h200", "fp32", FUSE_NONE, BATCH, &p);
    for (int i = 0; i < p.n; i++) {
        const struct predicted_kernel *k = &p.kernel[i];
        const struct op_desc *d = &k->info.plan->desc;
        const struct tensor_desc *x = &d->t[d->kind == OP_CONV_BWD_DATA ? ROLE_DX : ROLE_X];
        const struct tensor_desc *y = &d->t[d->kind == OP_CONV_FWD ? ROLE_Y : ROLE_DY];
        const struct tensor_desc *w = &d->t[d->kind == OP_CONV_BWD_WEIGHTS ? ROLE_DW : ROLE_W];
        if (!op_in(d->kind, OPS_CONV) || !k->what.library)
            continue;
        bool pointwise = w->dim[2] == 1 && d->attr.conv.stride[0] == 1;
        bool product = strcmp(k->what.name, "cublaslt") == 0;
        if ((product && !pointwise) || (pointwise && k->what.copies > 0))
            fail_msg("%s, %s: %s", k->info.layer, op_str(d->kind), k->what.name);
        if (k->what.copies > 0 && x->dim[1] > 3) /* the image has 4 channels in memory */
            assert_true(k->what.copies == (double)(x->bytes + y->bytes));
        products += product;
        copying += k->what.copies > 0;
    }
    assert_true(products > 33 && copying > 0);
    step_prediction_close(&p);
}

/* --- descriptions and times --- */

/* Peaks from data sheets: A100 80 GB 2,039 GB/s and 312 TFLOP/s, T4 320 GB/s and 65 TFLOP/s, L40S
 * 864 GB/s and 362 TFLOP/s. */
static void test_rates(void **state)
{
    static const struct {
        const char *gpu;
        double bytes_per_s, half;
    } sheet[] = {{"a100", 2039e9, 312e12}, {"t4", 320e9, 65e12}, {"l40", 864e9, 362e12}};
    struct gpu_description g;
    for (int i = 0; i < 3; i++) {
        expect_ok(gpu_description_open(sheet[i].gpu, &g));
        assert_true(fabs(g.bytes_per_s / 0.875 / sheet[i].bytes_per_s - 1) < 0.02);
        assert_true(fabs(g.flops_per_s[DTYPE_F16] / 0.74 / sheet[i].half - 1) < 0.02);
    }
}

/* The expected times are computed by hand. The GPU has 1e12 bytes/s, 1e14 FLOP/s and a cache of
 * which 64 bytes are used. */
static void test_times(void **state)
{
    const struct gpu_description g = {
        .l2 = 100, .bytes_per_s = 1e12, .flops_per_s = {[DTYPE_F16] = 1e14}};
    const struct op_desc d = {.kind = OP_CONV_FWD,
                              .t = {[ROLE_X] = {.type = DTYPE_F16, .ndim = 4},
                                    [ROLE_W] = {.ndim = 4, .dim = {8, 8, 1, 1}}}};
    struct traffic_kernel k = {
        .library = true, .n = 2, .access = {{ROLE_X, false, 40}, {ROLE_Y, true, 20}}};
    struct gpu_cache cache = {.n = 0};
    char memory[200];
    void *const arg[ROLE_COUNT] = {[ROLE_X] = memory, [ROLE_Y] = memory + 100};
    struct gpu_time t = gpu_time_of(&g, &d, &k, &cache, arg);
    assert_true(t.dram_bytes == 60 && !t.compute);
    assert_true(fabs(t.seconds - (60 / 0.85e12 + 1e-6)) < 1e-18);
    t = gpu_time_of(&g, &d, &k, &cache, arg); /* X and Y are in the cache */
    assert_true(fabs(t.dram_bytes - (0.35 * 40 + 20)) < 1e-9);
    k.access[1].bytes = 30; /* the cache cannot hold both X and Y now: Y displaces X */
    t = gpu_time_of(&g, &d, &k, &cache, arg);
    t = gpu_time_of(&g, &d, &k, &cache, arg);
    assert_true(t.dram_bytes == 70);
    k.flops = 7e7;
    t = gpu_time_of(&g, &d, &k, NULL, arg);
    assert_true(t.compute && fabs(t.seconds - (1e-6 + 1e-6)) < 1e-12);
    k.copies = 8.5e5; /* read and written, in 1e-6 seconds each, before and after the product */
    t = gpu_time_of(&g, &d, &k, NULL, arg);
    assert_true(!t.compute && fabs(t.seconds - (1e-6 + 2e-6 + 1e-6)) < 1e-12);
    assert_true(t.dram_bytes == 70 + 1.7e6);
}

/* Published results: logs of MLPerf Training v4.0, closed division, NVIDIA, one node with 8 GPUs,
 * images/s of ResNet-50 in fp16. They say nothing about fp32. */
static void test_published(void **state)
{
    static const struct {
        const char *gpu;
        double images_per_s;
    } published[] = {{"h100", 57280}, {"h200", 63600}};
    for (int i = 0; i < 2; i++) {
        struct step_prediction p;
        predict_on(published[i].gpu, "amp", FUSE_AUTO, BATCH, &p);
        double at_most = p.share * BATCH / p.all.time.seconds;
        assert_true(fabs(at_most / (published[i].images_per_s / 8) - 1) < 0.01);
        step_prediction_close(&p);
        predict_on(published[i].gpu, "fp32", FUSE_NONE, 16, &p);
        assert_true(p.share == 1);
        step_prediction_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates),     cmocka_unit_test(test_times),
        cmocka_unit_test(test_bytes),     cmocka_unit_test(test_copies),
        cmocka_unit_test(test_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
