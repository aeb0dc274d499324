/* Tests the conditions of a timing: the device is busy before it, its caches are cold, and operands
 * are random. The GPU is a fake (gpu_double.h). */
#include "base/half.h"
#include "gpu_double.h"
#include "kernels/cuda/op_timer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { KEPT = 256 };

/* Work of a given duration, which records the address of its first operand. */
struct work {
    double host_ms, device_ms;
    int pause; /* the execution during which the host pauses for 100 ms, from 1; 0: none */
    enum status fails;
    int runs;
    void *x[KEPT];
    bool cold[KEPT]; /* whether at least twice the cache size was overwritten before the run */
};

static enum status run(void *context, void *const operand[], void *workspace, struct cuda_stream *s)
{
    struct work *w = context;
    assert_non_null(s);
    assert_non_null(workspace);
    assert_in_range(w->runs, 0, KEPT - 1);
    w->cold[w->runs] = gpu.overwritten >= 2 * (size_t)gpu.l2;
    w->x[w->runs++] = operand[0];
    gpu.overwritten = 0;
    if (w->fails)
        return status_fail(w->fails, "it fails");
    gpu.host += w->host_ms + (w->runs == w->pause ? 100 : 0);
    gpu.device = fmax(gpu.host, gpu.device) + w->device_ms;
    return STATUS_OK;
}

static struct op_trial *opened(struct cuda_device *dev, size_t bytes)
{
    const struct timed_operand operand[] = {{bytes, DTYPE_F16}};
    struct op_trial *t;
    assert_int_equal(op_trial_open(dev, operand, 1, &t), STATUS_OK);
    return t;
}

static double seconds_of(struct op_trial *t, struct work *w, double limit)
{
    const struct timed_work work = {run, w, 100};
    struct timed_seconds time;
    assert_int_equal(op_trial_time(t, &work, limit, &time), STATUS_OK);
    return time.median;
}

static void close_all(struct cuda_device *dev, struct op_trial *t)
{
    op_trial_close(t);
    cuda_close_opened(dev);
    assert_int_equal(dev->trials, 0);
    assert_int_equal(gpu.used, 0);
}

/* A measured time does not include host time, even if the host is much slower than the device. */
static void the_hosts_time_is_in_none(void **state)
{
    static const double host_ms[] = {0.001, 0.05, 1, 10};
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct cuda_device dev = gpu_new();
        struct work w = {.host_ms = host_ms[i], .device_ms = 0.01};
        struct op_trial *t = opened(&dev, 4096);
        assert_true(fabs(seconds_of(t, &w, 0) - 1e-5) < 1e-9);
        close_all(&dev, t);
    }
}

/* Returns how many times a trial of this work overwrites the block of memory. */
static int overwrites(struct cuda_device *dev, struct work w)
{
    size_t before = gpu.zeroed;
    struct op_trial *t = opened(dev, 4096);
    assert_true(fabs(seconds_of(t, &w, 0) - 1e-5) < 1e-9);
    op_trial_close(t);
    return (int)((gpu.zeroed - before) / (2 * (size_t)gpu.l2));
}

/* A pause of the host costs one more burst. Work that the host enqueues slowly makes the timer
 * overwrite more memory in its own trial, but not in later trials. */
static void a_slow_host_does_not_slow_later_trials(void **state)
{
    const struct work quick = {.host_ms = 0.001, .device_ms = 0.01};
    struct work paused = quick, slow = quick;
    struct cuda_device dev = gpu_new();
    int usual = overwrites(&dev, quick), head = usual / (1 + 1 + 5);
    (void)state;
    assert_in_range(head, 1, 8);
    assert_int_equal(usual, head * (1 + 1 + 5));
    paused.pause = 2;
    assert_int_equal(overwrites(&dev, paused), usual + head);
    slow.host_ms = 10;
    assert_in_range(overwrites(&dev, slow), 3 * usual, 64 * (7 + 3));
    assert_int_equal(overwrites(&dev, quick), usual);
    cuda_close_opened(&dev);
}

/* The time alone includes the latency after the event; in a longer burst each execution has a part
 * of it. */
static enum status run_late(void *context, void *const operand[], void *workspace,
                            struct cuda_stream *s)
{
    gpu.device += gpu.after_event ? 0.004 : 0;
    gpu.after_event = false;
    return run(context, operand, workspace, s);
}

static void times_have_their_kind(void **state)
{
    struct cuda_device dev = gpu_new();
    struct op_trial *t = opened(&dev, 4096);
    struct work w = {.host_ms = 0.001, .device_ms = 0.01};
    const struct timed_work work = {run_late, &w, 100};
    struct timed_seconds time;
    (void)state;
    assert_int_equal(op_trial_time(t, &work, 0, &time), STATUS_OK);
    assert_true(fabs(time.alone - 14e-6) < 1e-9);
    assert_true(fabs(time.median - 10.5e-6) < 1e-9);
    assert_int_equal(op_trial_time(t, &work, 12e-6, &time), STATUS_OK);
    assert_true(fabs(time.alone - 14e-6) < 1e-9);
    assert_true(fabs(time.median - 14e-6) < 1e-9);
    close_all(&dev, t);
}

/* Returns whether execution i found cold caches: since the last use of its memory, at least twice
 * the size of the cache was used or overwritten. */
static bool is_cold(const struct work *w, int i, size_t bytes)
{
    for (int k = i; k >= 0 && !w->cold[k]; k--)
        if (k < i && w->x[k] == w->x[i])
            return (size_t)(i - k) * bytes >= 2 * (size_t)gpu.l2;
    return true;
}

static void check_cold(size_t bytes, int sets)
{
    struct cuda_device dev = gpu_new();
    struct work w = {.host_ms = 0.001, .device_ms = 0.01};
    struct op_trial *t = opened(&dev, bytes);
    int different = 0;
    seconds_of(t, &w, 0);
    assert_true(w.runs > 5 * 8);
    for (int i = 0; i < w.runs; i++)
        assert_true(is_cold(&w, i, bytes));
    for (int i = 0; i < 16; i++) {
        bool met = false;
        for (int k = 0; k < i; k++)
            met = met || w.x[k] == w.x[i];
        different += !met;
    }
    assert_int_equal(different, sets);
    assert_true(gpu.most <= 5 * 2 * (size_t)gpu.l2 + bytes);
    close_all(&dev, t);
}

static void caches_are_cold(void **state)
{
    (void)state; /* L2 has a MiB */
    check_cold(1000, 8);
    check_cold(300 << 10, 7);
    check_cold(1 << 20, 2);
    check_cold(2 << 20, 1);
    check_cold(9 << 20, 1);
}

static void long_work_is_timed_a_few_times(void **state)
{
    struct cuda_device dev = gpu_new();
    struct work w = {.host_ms = 0.001, .device_ms = 7};
    struct op_trial *t = opened(&dev, 4096);
    (void)state;
    assert_true(fabs(seconds_of(t, &w, 0) - 7e-3) < 1e-9);
    assert_int_equal(w.runs, 6);
    w.runs = 0;
    assert_true(fabs(seconds_of(t, &w, 5e-3) - 7e-3) < 1e-9);
    assert_int_equal(w.runs, 2); /* this work is slower than the fastest plan so far: fewer runs */
    close_all(&dev, t);
}

static double value_at(enum dtype type, const void *mem, size_t i)
{
    switch (type) {
    case DTYPE_F32:
        return (double)((const float *)mem)[i];
    case DTYPE_F16:
        return (double)f16_to_float(((const uint16_t *)mem)[i]);
    case DTYPE_BF16:
        return (double)bf16_to_float(((const uint16_t *)mem)[i]);
    default:
        return ((const uint8_t *)mem)[i] / 127.5 - 1;
    }
}

static const struct timed_operand each_type[] = {{1 << 20, DTYPE_F32},
                                                 {700000, DTYPE_F16},
                                                 {0, DTYPE_F32},
                                                 {1 << 10, DTYPE_BF16},
                                                 {3333, DTYPE_U8}};
enum { N_TYPES = 5 };

static enum status look(void *context, void *const operand[], void *workspace,
                        struct cuda_stream *s)
{
    (void)context, (void)workspace, (void)s;
    for (int k = 0; k < N_TYPES; k++) {
        enum dtype type = each_type[k].type;
        size_t n = each_type[k].bytes / dtype_size(type);
        double sum = 0, squares = 0;
        assert_true((operand[k] == NULL) == (n == 0));
        for (size_t i = 0; i < n; i++) {
            double v = value_at(type, operand[k], i);
            assert_true(fabs(v) <= 1);
            sum += v;
            squares += v * v;
        }
        if (n > 0) { /* uniform in [-1, 1): mean 0, variance 1/3; tolerance: 5 sigma */
            assert_true(fabs(sum / (double)n) < 5 * sqrt(1.0 / 3 / (double)n));
            assert_true(fabs(squares / (double)n - 1.0 / 3) < 5 * 0.3 / sqrt((double)n));
        }
    }
    return STATUS_OK;
}

static void operands_are_random(void **state)
{
    struct cuda_device dev = gpu_new();
    struct op_trial *t;
    const struct timed_work work = {look, NULL, 0};
    struct timed_seconds time;
    (void)state;
    assert_int_equal(op_trial_open(&dev, each_type, N_TYPES, &t), STATUS_OK);
    assert_int_equal(op_trial_time(t, &work, 0, &time), STATUS_OK);
    close_all(&dev, t);
    const struct timed_operand label = {64, DTYPE_I32};
    assert_int_equal(op_trial_open(&dev, &label, 1, &t), STATUS_UNSUPPORTED);
    assert_null(t);
    close_all(&dev, t);
}

static void failures_are_handed_on(void **state)
{
    struct cuda_device dev = gpu_new();
    struct work w = {.fails = STATUS_LIBRARY};
    struct timed_work work = {run, &w, 100};
    struct op_trial *t = opened(&dev, 4096), *none;
    const struct timed_operand large = {(size_t)9 << 30, DTYPE_F16};
    struct timed_seconds time;
    (void)state;
    assert_int_equal(op_trial_time(t, &work, 0, &time), STATUS_LIBRARY);
    assert_true(op_trial_lives(t));
    work.workspace = (size_t)9 << 30;
    assert_int_equal(op_trial_time(t, &work, 0, &time), STATUS_OOM);
    assert_int_equal(op_trial_open(&dev, &large, 1, &none), STATUS_OOM);
    assert_null(none);
    w.fails = STATUS_OK;
    w.device_ms = 1;
    assert_true(fabs(seconds_of(t, &w, 0) - 1e-3) < 1e-9);
    gpu.broken = true;
    assert_false(op_trial_lives(t));
    close_all(&dev, t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hosts_time_is_in_none),
        cmocka_unit_test(caches_are_cold),
        cmocka_unit_test(long_work_is_timed_a_few_times),
        cmocka_unit_test(operands_are_random),
        cmocka_unit_test(failures_are_handed_on),
        cmocka_unit_test(a_slow_host_does_not_slow_later_trials),
        cmocka_unit_test(times_have_their_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
