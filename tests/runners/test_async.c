/* Training on a device that goes on beside the host, against training on the reference, whose bits
 * it must have: records, weights, checkpoints, messages. The thread sanitizer sees all of it. */
#include "base/file.h"
#include "results/run.h"
#include "runners/divergence.h"
#include "runners/trainer.h"
#include "tests/kernels/stream_backend.h"
#include "tests/results/scratch.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TEXT_MAX = 1024 };

/* The program's own look-up of a device's name, which knows of no backend for tests. */
enum status __real_backend_find(const char *name, const struct backend **b);
enum status __wrap_backend_find(const char *name, const struct backend **b);

static struct stream_backend streams; /* a look-up by name has nowhere else to find it */

enum status __wrap_backend_find(const char *name, const struct backend **b)
{
    if (strcmp(name, "stream") != 0)
        return __real_backend_find(name, b);
    *b = &streams.base;
    return STATUS_OK;
}

/* --- runs --- */

/* Where a run writes; asks it to stop at the line that has `stop_at`. */
struct output {
    char text[1 << 16];
    size_t length;
    const char *stop_at;
};

static ssize_t output_write(void *cookie, const char *text, size_t n)
{
    struct output *o = cookie;
    size_t room = sizeof o->text - 1 - o->length;
    size_t kept = n < room ? n : room;
    memcpy(o->text + o->length, text, kept);
    o->length += kept;
    if (o->stop_at && strstr(o->text, o->stop_at)) {
        o->stop_at = NULL;
        raise(SIGTERM);
    }
    return (ssize_t)n;
}

struct scene {
    char dir[SCRATCH_MAX];
    struct output output;
    char message[TEXT_MAX];
};

static struct train_config small_run(void)
{
    struct train_config c = train_config_default();
    c.arch = "resnet8";
    c.dummy = true;
    c.dummy_train = 14; /* batches of 4, and one of 2 */
    c.dummy_val = 5;
    c.classes = 5;
    c.image_size = 8;
    c.batch = 4;
    c.epochs = 2;
    c.workers = 2;
    c.lr = 0.05;
    c.print_freq = 1;
    c.precision = "fp32";
    c.devices = "";
    c.scaler.interval = 3;
    return c;
}

static enum status run(struct scene *s, const struct train_config *config, const char *device)
{
    char devices[32];
    char dir[SCRATCH_MAX + 32], argument[] = "ampscale";
    char *const argv[] = {argument, NULL};
    struct train_config c = *config;
    const cookie_io_functions_t io = {.write = output_write};
    FILE *out = fopencookie(&s->output, "w", io);
    assert_non_null(out);
    setvbuf(out, NULL, _IOLBF, 4096);
    snprintf(dir, sizeof dir, "%s/run", s->dir);
    snprintf(devices, sizeof devices, "%s%s", device, config->devices);
    c.devices = devices;
    c.out = dir;
    enum status st = trainer_run(&c, 1, argv, out);
    snprintf(s->message, sizeof s->message, "%s", st == STATUS_OK ? "" : status_message());
    fclose(out);
    return st;
}

static void expect(enum status st, enum status want, const struct scene *s)
{
    if (st != want)
        print_error("%s\n", s->message);
    assert_int_equal(st, want);
}

/* --- what a run leaves --- */

static struct run *load(const struct scene *s)
{
    struct run *r;
    char dir[SCRATCH_MAX + 32];
    snprintf(dir, sizeof dir, "%s/run", s->dir);
    assert_int_equal(run_load(dir, &r), STATUS_OK);
    return r;
}

static void same_step(const struct step_record *a, const struct step_record *b)
{
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->step, b->step);
    assert_int_equal(a->batch, b->batch);
    assert_int_equal(a->images, b->images);
    assert_memory_equal(&a->loss, &b->loss, sizeof a->loss);
    assert_true(a->top1 == b->top1 && a->top5 == b->top5);
    assert_true(a->lr == b->lr);
    assert_true(a->loss_scale == b->loss_scale);
    assert_int_equal(a->clean, b->clean);
    assert_int_equal(a->skipped, b->skipped);
}

static void same_epoch(const struct epoch_record *a, const struct epoch_record *b)
{
    assert_int_equal(a->steps, b->steps);
    assert_int_equal(a->train_images, b->train_images);
    assert_true(a->train_loss == b->train_loss && a->train_top1 == b->train_top1);
    assert_int_equal(a->val_images, b->val_images);
    assert_true(a->val_loss == b->val_loss && a->val_top1 == b->val_top1);
    assert_true(a->val_top5 == b->val_top5 && a->best_top1 == b->best_top1);
    assert_true(a->loss_scale == b->loss_scale);
    assert_int_equal(a->clean, b->clean);
    assert_int_equal(a->skipped, b->skipped);
}

/* The parts of a step add up to no more than the step. */
static void times_make_sense(const struct run *r)
{
    for (int64_t i = 0; i < r->n_steps; i++) {
        const struct step_record *s = &r->step[i];
        double parts = s->h2d_s + s->forward_s + s->backward_s + s->comm_s + s->optimizer_s;
        assert_true(s->h2d_s > 0 && s->forward_s > 0 && s->backward_s > 0 && s->optimizer_s > 0);
        assert_true(s->data_s >= 0 && s->total_s > 0);
        assert_true(parts + s->data_s <= s->total_s * 1.001 + 1e-6);
    }
}

static void same_records(const struct scene *a, const struct scene *b)
{
    struct run *x = load(a), *y = load(b);
    assert_int_equal(x->n_steps, y->n_steps);
    for (int64_t i = 0; i < x->n_steps; i++)
        same_step(&x->step[i], &y->step[i]);
    assert_int_equal(x->n_epochs, y->n_epochs);
    for (int64_t i = 0; i < x->n_epochs; i++)
        same_epoch(&x->epoch[i], &y->epoch[i]);
    times_make_sense(y);
    run_free(x);
    run_free(y);
}

static void same_file(const struct scene *a, const struct scene *b, const char *name)
{
    size_t n, m;
    char path[64];
    snprintf(path, sizeof path, "run/%s", name);
    char *x = scratch_read(a->dir, path, &n), *y = scratch_read(b->dir, path, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static void same_run(const struct scene *a, const struct scene *b)
{
    same_records(a, b);
    same_file(a, b, CHECKPOINT_NAME);
    same_file(a, b, BEST_NAME);
}

static struct scene *scene_open(void)
{
    struct scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    scratch_make(s->dir);
    return s;
}

static void scene_close(struct scene *s)
{
    scratch_remove(s->dir);
    free(s);
}

/* On the reference and on streams. */
static void same_on_streams(const struct train_config *c)
{
    struct scene *want = scene_open(), *got = scene_open();
    expect(run(want, c, "ref"), STATUS_OK, want);
    expect(run(got, c, "stream"), STATUS_OK, got);
    same_run(want, got);
    scene_close(want);
    scene_close(got);
}

/* --- tests --- */

static void in_fp32(void **state)
{
    (void)state;
    struct train_config c = small_run();
    same_on_streams(&c);
    c.no_graph = true;
    c.epochs = 1;
    same_on_streams(&c);
}

static void with_overflows(void **state)
{
    (void)state;
    struct train_config c = small_run();
    c.precision = "amp";
    c.inject_overflow = 4;
    same_on_streams(&c);
    c.no_graph = true;
    c.epochs = 1;
    c.scaler.init = 3000; /* no power of two */
    c.scaler.growth = 1.7;
    c.inject_overflow = 0;
    same_on_streams(&c);
    c.scaler.dynamic = false;
    same_on_streams(&c);
}

/* 4 batches make a step of 3 and one of 1. */
static void with_accumulation(void **state)
{
    (void)state;
    struct train_config c = small_run();
    c.accumulate = 3;
    same_on_streams(&c);
    c.precision = "amp";
    c.no_graph = true;
    c.epochs = 1;
    c.inject_overflow = 1;
    same_on_streams(&c);
}

/* `devices` of a run is put after the device's name. */
static void with_two_devices(void **state)
{
    (void)state;
    struct train_config c = small_run();
    c.devices = ":2";
    c.dp_reduce = DP_ALL;
    c.precision = "amp";
    c.bucket_mb = 0.05;
    c.inject_overflow = 2;
    same_on_streams(&c);
    c.epochs = 1;
    c.accumulate = 2;
    same_on_streams(&c);
    c.sync_bn = true;
    same_on_streams(&c);
    c.sync_bn = false;
    c.dp_reduce = DP_CENTRAL;
    same_on_streams(&c);
}

/* A checkpoint comes after the steps before it and before those after it. */
static void with_checkpoints(void **state)
{
    (void)state;
    struct train_config c = small_run();
    c.precision = "amp";
    c.inject_overflow = 3;
    c.checkpoint_steps = 2;
    c.steps = 7; /* leaves the epoch before it is over */
    struct scene *want = scene_open(), *got = scene_open();
    expect(run(want, &c, "ref"), STATUS_OK, want);
    expect(run(got, &c, "stream"), STATUS_OK, got);
    same_run(want, got);
    same_file(want, got, CHECKPOINT_PREV_NAME);
    scene_close(want);
    scene_close(got);
}

/* A run that ended early and one that was stopped go on as if they had not. */
static void resumed(void **state)
{
    (void)state;
    struct train_config c = small_run();
    c.precision = "amp";
    c.inject_overflow = 2;
    struct scene *want = scene_open(), *got = scene_open();
    expect(run(want, &c, "ref"), STATUS_OK, want);
    c.resume = "auto";
    c.steps = 3;
    expect(run(got, &c, "stream"), STATUS_OK, got);
    c.steps = 0;
    got->output.stop_at = "Epoch: [1][1/4]";
    expect(run(got, &c, "stream"), STATUS_INTERRUPTED, got);
    assert_non_null(strstr(got->message, "stopped by SIGTERM"));
    struct run *r = load(got);
    assert_in_range(r->n_steps, 6, 8); /* what was begun was ended */
    run_free(r);
    expect(run(got, &c, "stream"), STATUS_OK, got);
    same_records(want, got);
    same_file(want, got, CHECKPOINT_NAME);
    same_file(want, got, BEST_NAME);
    scene_close(want);
    scene_close(got);
}

/* Both runs end at the same step, and say the same. */
static void end_alike(const struct train_config *c)
{
    struct scene *want = scene_open(), *got = scene_open();
    expect(run(want, c, "ref"), STATUS_DIVERGED, want);
    expect(run(got, c, "stream"), STATUS_DIVERGED, got);
    assert_string_equal(want->message, got->message);
    same_records(want, got);
    scene_close(want);
    scene_close(got);
}

static void diverged(void **state)
{
    (void)state;
    struct train_config c = small_run();
    c.lr = 1e30;
    end_alike(&c);
    c = small_run();
    c.precision = "amp";
    c.scaler.min = c.scaler.init;
    c.inject_overflow = 4;
    end_alike(&c);
}

static void evaluated(void **state)
{
    (void)state;
    char weights[SCRATCH_MAX + 64];
    struct train_config c = small_run();
    struct scene *want = scene_open(), *got = scene_open();
    c.epochs = 1;
    expect(run(want, &c, "ref"), STATUS_OK, want);
    snprintf(weights, sizeof weights, "%s/run/" CHECKPOINT_NAME, want->dir);
    c.evaluate = true;
    c.resume = weights;
    want->output.length = 0;
    memset(want->output.text, 0, sizeof want->output.text);
    expect(run(want, &c, "ref"), STATUS_OK, want);
    expect(run(got, &c, "stream"), STATUS_OK, got);
    const char *accuracy = strstr(want->output.text, " *   Acc");
    assert_non_null(accuracy);
    assert_string_equal(accuracy, strstr(got->output.text, " *   Acc"));
    scene_close(want);
    scene_close(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_fp32),           cmocka_unit_test(with_overflows),
        cmocka_unit_test(with_accumulation), cmocka_unit_test(with_two_devices),
        cmocka_unit_test(with_checkpoints),  cmocka_unit_test(resumed),
        cmocka_unit_test(diverged),          cmocka_unit_test(evaluated),
    };
    stream_backend_make(&streams);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
