/* Tests parts of the kernels that the table of cases does not reach: types that tensors have only
 * on a GPU, the loss scaler's state machine, and labels that are not the index of a class. */
#include "tests/kernels/cuda/fake/arrays.h"
#include "tests/kernels/cuda/rig.h"
#include "tests/kernels/group.h"
#include "verify/rig.h"

#include "base/half.h"
#include "base/rng.h"
#include "engine/scaler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *allocated[64];
static int n_allocated;

/* Returns memory that is 16-byte aligned, as the kernels require, until the end of the test. */
static void *aligned(size_t bytes)
{
    void *p = aligned_alloc(16, (bytes + 15) / 16 * 16);
    assert_true(p && n_allocated < 64);
    memset(p, 0xff, bytes);
    allocated[n_allocated++] = p;
    return p;
}

static int free_all(void **state)
{
    while (n_allocated > 0)
        free(allocated[--n_allocated]);
    return 0;
}

/* --- the fourth channel --- */

/* One unit in the last place of values below 4. The compiler may fuse multiplications and
 * additions, which changes results by up to this amount. */
static float mixed_error(enum dtype type)
{
    return type == DTYPE_F32 ? 0x1p-21f : type == DTYPE_F16 ? 0x1p-9f : 0x1p-6f;
}

/* If `rows` is above 1, each image is mixed with the next one. */
static void check_normalize4(enum dtype type, int64_t pixels, int rows)
{
    static const struct normalize_attr attr = {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};
    struct cu_queue q = shim_queue();
    uint8_t *x = aligned((size_t)pixels * 3);
    void *y = aligned((size_t)pixels * 4 * dtype_size(type));
    for (int64_t i = 0; i < pixels * 3; i++)
        x[i] = (uint8_t)(i * 7 % 256);
    static const int32_t next[] = {1, 2, 0};
    static const struct step_state state = {.mix = 0.75f};
    const struct cu_mix mix = {rows > 1 ? next : NULL, &state, pixels / rows};
    expect_ok(cu_normalize(&q, type, pixels, 4, &attr, &mix, x, y));
    for (int64_t i = 0; i < pixels; i++) {
        int64_t other = (i + pixels / rows) % pixels;
        for (int c = 0; c < 3; c++) {
            double mean = (double)attr.mean[c], std = (double)attr.std[c];
            float own = (float)((x[i * 3 + c] / 255.0 - mean) / std);
            float partner = (float)((x[other * 3 + c] / 255.0 - mean) / std);
            float mixed = (float)(0.75 * (double)own + (double)(0.25f * partner));
            float exact = rows > 1 ? mixed : own;
            assert_true(fabsf(float_load(type, y, i * 4 + c) - dtype_round(type, exact)) <=
                        (rows > 1 ? mixed_error(type) : 0));
        }
        assert_true(float_load(type, y, i * 4 + 3) == 0);
    }
}

/* A unit of eight pixels may belong to two images, if an image has 35 pixels or one. */
static void normalize_pads_to_four_channels(void **state)
{
    static const enum dtype type[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    static const int pixels[] = {1, 8, 13, 5000}, of_image[] = {64, 35, 1};
    for (int t = 0; t < 3; t++) {
        for (int k = 0; k < 4; k++)
            check_normalize4(type[t], pixels[k], 1);
        for (int k = 0; k < 3; k++)
            check_normalize4(type[t], 3 * of_image[k], 3);
        free_all(NULL);
    }
}

/* --- invalid labels --- */

static void bad_label_leaves_everything(void **state)
{
    enum { ROWS = 700, CLASSES = 5 };
    struct cu_queue q = shim_queue();
    struct step_state step = {.loss_scale = 1};
    struct loss_metrics before = {.loss_sum = 7, .count = 3}, metrics = before;
    float *x = aligned(ROWS * CLASSES * sizeof *x), *dx = aligned(ROWS * CLASSES * sizeof *dx);
    int32_t *label = aligned(ROWS * sizeof *label);
    int64_t *work = aligned(cu_softmax_xent_workspace(ROWS));
    for (int i = 0; i < ROWS * CLASSES; i++)
        x[i] = dx[i] = (float)(i % 3);
    for (int i = 0; i < ROWS; i++)
        label[i] = i % (CLASSES + 1) - 1; /* -1 for some rows, which have no label */
    struct cu_xent a = {.type = DTYPE_F32,
                        .rows = ROWS,
                        .classes = CLASSES,
                        .x = x,
                        .label = label,
                        .state = &step,
                        .dx = dx,
                        .metrics = &metrics};
    label[300] = label[600] = CLASSES;
    expect_ok(cu_softmax_xent(&q, &a, work));
    assert_int_equal(work[0], 300);
    assert_memory_equal(&metrics, &before, sizeof before);
    for (int i = 0; i < ROWS * CLASSES; i++)
        assert_true(dx[i] == (float)(i % 3));

    label[300] = label[600] = -1;
    expect_ok(cu_softmax_xent(&q, &a, work));
    assert_int_equal(work[0], -1);
    int64_t labelled = 0;
    for (int i = 0; i < ROWS; i++)
        labelled += label[i] >= 0;
    assert_int_equal(metrics.count, labelled);
}

/* Without label smoothing, a logit of -infinity of another class does not affect the loss. */
static void infinite_logit_of_another_class(void **state)
{
    struct cu_queue q = shim_queue();
    struct loss_metrics metrics;
    float *x = aligned(3 * sizeof *x);
    int32_t *label = aligned(sizeof *label);
    void *work = aligned(cu_softmax_xent_workspace(1));
    struct cu_xent a = {
        .type = DTYPE_F32, .rows = 1, .classes = 3, .x = x, .label = label, .metrics = &metrics};
    x[0] = -INFINITY;
    x[1] = x[2] = 1;
    *label = 2;
    expect_ok(cu_softmax_xent(&q, &a, work));
    assert_true(fabs(metrics.loss_sum - log(2)) < 1e-6);
    assert_int_equal(metrics.top1, 0); /* the lower index wins a tie */
    assert_int_equal(metrics.top5, 1);
}

/* --- half-precision gradients and weights --- */

static const struct sgd_segment segments[] = {
    {0, 5, 1e-2f, DTYPE_F16, DTYPE_F32, DTYPE_F16, 0},
    {5, 5000, 1e-4f, DTYPE_F16, DTYPE_F32, DTYPE_F16, 0},
    {5000, 9001, 1e-4f, DTYPE_F16, DTYPE_F32, DTYPE_F16, 0.02f},
};
static const struct sgd_attr attr_f16 = {
    .momentum = 0.9f, .nesterov = true, .n_segments = 3, .segment = segments};
enum { PARAMETERS = 9001 };

static struct cu_segments segments_of(const struct sgd_attr *attr)
{
    int64_t chunks = cu_chunks_cut(attr, NULL);
    struct cu_chunk *chunk = aligned((size_t)chunks * sizeof *chunk);
    cu_chunks_cut(attr, chunk);
    return (struct cu_segments){attr->n_segments, chunks, attr->segment, chunk};
}

/* Executes a step in two ways, from the same weights and momentum. Both must give the same bits. */
static void check_same_step(const struct sgd_attr *const attr[2], struct cu_sgd a[2])
{
    struct cu_queue q = shim_queue();
    struct rng r = rng_at(1, RNG_TEST, 0, 0);
    struct step_state step = {.lr = 0.1f, .grad_scale = 1.0f / 1024};
    for (int k = 0; k < 2; k++) {
        a[k].w = aligned(PARAMETERS * sizeof *a[k].w);
        a[k].v = aligned(PARAMETERS * sizeof *a[k].v);
    }
    for (int i = 0; i < PARAMETERS; i++) {
        a[0].w[i] = a[1].w[i] = rng_float(&r) - 0.5f;
        a[0].v[i] = a[1].v[i] = rng_float(&r) - 0.5f;
    }
    for (int k = 0; k < 2; k++) {
        const struct cu_segments s = segments_of(attr[k]);
        a[k].momentum = 0.9f;
        a[k].nesterov = a[k].lars = true;
        a[k].state = &step;
        expect_ok(cu_check_finite(&q, &a[k], &s, &step));
        assert_int_equal(step.found_inf, 0);
        expect_ok(cu_sgd(&q, &a[k], &s, aligned(cu_sgd_workspace(&a[k], &s))));
    }
    assert_memory_equal(a[0].w, a[1].w, PARAMETERS * sizeof *a->w);
    assert_memory_equal(a[0].v, a[1].v, PARAMETERS * sizeof *a->v);
}

/* dw and wcopy are stored as fp16, or as fp32. */
static void sgd_of_stored_gradients(void **state)
{
    struct rng r = rng_at(3, RNG_TEST, 0, 0);
    float *dw = aligned(PARAMETERS * sizeof *dw), *copy = aligned(PARAMETERS * sizeof *copy);
    uint16_t *dw16 = aligned(PARAMETERS * sizeof *dw16), *copy16 = aligned(PARAMETERS * 2);
    for (int i = 0; i < PARAMETERS; i++) {
        dw16[i] = f16_from_float(1000 * (rng_float(&r) - 0.5f));
        dw[i] = f16_to_float(dw16[i]);
    }
    struct cu_sgd a[2] = {{.gradient = DTYPE_F16, .copy = DTYPE_F16, .dw = dw16, .wcopy = copy16},
                          {.dw = dw, .wcopy = copy}};
    check_same_step((const struct sgd_attr *const[]){&attr_f16, &attr_f16}, a);
    for (int i = 0; i < PARAMETERS; i++) {
        assert_true(f16_to_float(copy16[i]) == copy[i]);
        assert_true(copy[i] == round_f16(a[1].w[i]));
    }
}

/* All gradients are in fp32, or the gradient of one segment is in the half-precision buffer. Each
 * segment must read the right buffer: the other one has NaNs. */
static void sgd_of_two_gradient_buffers(void **state)
{
    struct rng r = rng_at(2, RNG_TEST, 0, 0);
    struct sgd_segment split[3];
    memcpy(split, segments, sizeof split);
    split[1].half = true;
    const struct sgd_attr halved = {.momentum = 0.9f, .n_segments = 3, .segment = split};
    float *dw[2] = {aligned(PARAMETERS * sizeof **dw), aligned(PARAMETERS * sizeof **dw)};
    uint16_t *half = aligned(PARAMETERS * sizeof *half);
    for (int i = 0; i < PARAMETERS; i++) {
        bool narrow = i >= split[1].begin && i < split[1].end;
        dw[0][i] = round_f16(1000 * (rng_float(&r) - 0.5f));
        dw[1][i] = narrow ? NAN : dw[0][i];
        half[i] = narrow ? f16_from_float(dw[0][i]) : 0x7e00;
    }
    struct cu_sgd a[2] = {{.half = DTYPE_F16, .dw = dw[0], .dw_half = half},
                          {.half = DTYPE_F16, .dw = dw[1], .dw_half = half}};
    check_same_step((const struct sgd_attr *const[]){&attr_f16, &halved}, a);
}

/* An infinity or NaN must be found at every place. The check must not change any other part of the
 * state. */
static void finite_check_of_stored_gradients(void **state)
{
    static const int places[] = {0, 4, 5, 6, 4095, 4096, 4999, 5000, PARAMETERS - 1};
    static const uint16_t values[] = {0x7bff, 0x7c00, 0xfc00, 0x7e00, 0xfe01}; /* one is finite */
    struct cu_queue q = shim_queue();
    const struct cu_segments s = segments_of(&attr_f16);
    uint16_t *dw = aligned(PARAMETERS * sizeof *dw);
    const struct cu_sgd a = {.gradient = DTYPE_F16, .dw = dw};
    struct step_state step = {.seed = 3, .step = 4, .lr = 0.5f, .found_inf = 1}, wanted = step;
    for (int i = 0; i < PARAMETERS; i++)
        dw[i] = 0x7bff; /* the largest finite value */
    for (int p = 0; p < COUNT(places); p++)
        for (int k = 0; k < COUNT(values); k++) {
            dw[places[p]] = values[k];
            wanted.found_inf = k > 0;
            expect_ok(cu_check_finite(&q, &a, &s, &step));
            assert_memory_equal(&step, &wanted, sizeof step);
            dw[places[p]] = 0x7bff;
        }
}

/* --- the scaler --- */

/* Compares the device's state machine with the host's after each step, until the scale collapses.
 */
static void run_scalers(const struct scaler_rule *c, uint64_t seed, double overflows)
{
    struct cu_queue q = shim_queue();
    struct scaler_state want = scaler_begin(c), got = want;
    struct rng r = rng_at(seed, RNG_TEST, 0, 0);
    for (int i = 0; i < 2000 && !want.collapsed; i++) {
        struct step_state step = {.lr = 3, .share = 0.75f, .divisor = 4};
        expect_ok(cu_scale_set(&q, &got, &step));
        assert_true(step.loss_scale == (float)want.scale * 0.75f);
        assert_true(step.grad_scale == (float)(1 / (want.scale * 4)));
        assert_true(step.lr == 3 && step.share == 0.75f && step.divisor == 4);
        step.found_inf = rng_double(&r) < overflows;
        bool collapsed = scaler_update(c, &want, step.found_inf) != STATUS_OK;
        expect_ok(cu_scale_update(&q, c, &got, &step));
        assert_int_equal(got.collapsed, collapsed);
        assert_true(got.scale == want.scale);
        assert_int_equal(got.clean, want.clean);
        assert_int_equal(got.skipped, want.skipped);
    }
}

static void scaler_is_the_hosts(void **state)
{
    struct scaler_rule c = scaler_default();
    run_scalers(&c, 1, 0);
    c.interval = 7;
    for (uint64_t seed = 2; seed < 20; seed++)
        run_scalers(&c, seed, 0.05 * (double)seed);
    c.dynamic = false;
    run_scalers(&c, 21, 0.3);
}

/* --- statistics over ranks --- */

/* The sums of two halves of a batch, added together, must give the statistics of the whole batch.
 */
static void sums_of_ranks_add_up(void **state)
{
    enum { ROWS = 1001, FIRST = 400, CHANNELS = 24 };
    struct cu_queue q = shim_queue();
    struct rng r = rng_at(5, RNG_TEST, 0, 0);
    struct cu_bn_shape whole = {DTYPE_F32, ROWS, CHANNELS}, part[2] = {whole, whole};
    part[0].rows = FIRST;
    part[1].rows = ROWS - FIRST;
    float *x = aligned(ROWS * CHANNELS * sizeof *x), *saved = aligned(8 * CHANNELS * sizeof *saved);
    void *work = aligned(cu_bn_workspace(&whole));
    double sums[3][2 * CHANNELS + 1];
    for (int i = 0; i < ROWS * CHANNELS; i++)
        x[i] = 100 + rng_float(&r);
    for (int c = 0; c < 8 * CHANNELS; c++)
        saved[c] = 1;
    expect_ok(cu_bn_sums(&q, &whole, x, sums[0], work));
    expect_ok(cu_bn_sums(&q, &part[0], x, sums[1], work));
    expect_ok(cu_bn_sums(&q, &part[1], x + FIRST * CHANNELS, sums[2], work));
    for (int i = 0; i <= 2 * CHANNELS; i++)
        sums[1][i] += sums[2][i];
    for (int k = 0; k < 2; k++) {
        float *out = saved + 4 * CHANNELS * k;
        struct cu_bn_statistics statistics = {
            out, out + CHANNELS, out + 2 * CHANNELS, out + 3 * CHANNELS, 1e-5f, 0.1f};
        expect_ok(cu_bn_finalize(&q, CHANNELS, sums[k], &statistics));
    }
    for (int i = 0; i < 4 * CHANNELS; i++)
        assert_true(fabsf(saved[i] - saved[4 * CHANNELS + i]) <= 1e-5f * fabsf(saved[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(normalize_pads_to_four_channels, free_all),
        cmocka_unit_test_teardown(bad_label_leaves_everything, free_all),
        cmocka_unit_test_teardown(infinite_logit_of_another_class, free_all),
        cmocka_unit_test_teardown(sgd_of_stored_gradients, free_all),
        cmocka_unit_test_teardown(sgd_of_two_gradient_buffers, free_all),
        cmocka_unit_test_teardown(finite_check_of_stored_gradients, free_all),
        cmocka_unit_test_teardown(scaler_is_the_hosts, free_all),
        cmocka_unit_test_teardown(sums_of_ranks_add_up, free_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
