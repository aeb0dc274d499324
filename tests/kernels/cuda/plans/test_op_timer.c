/* Tests the conditions of a timing: the device is busy before it, its caches are cold, and operands
 * are random. The GPU is a fake: as with a real asynchronous stream, the time of the host and the
 * time of the device are separate; both are numbers that only the functions below advance. */
#include "kernels/cuda/op_timer.h"
#include "tests/kernels/cuda/fake/arrays.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the fake GPU --- */

struct CUevent_st {
    double at;
};

static struct {
    double host, device; /* ms: the current time, and the time at which the device will have
                            completed its work */
    double latency_ms;   /* ms between an event and the execution after it */
    bool after_event;    /* the last work on the stream is an event */
    bool broken;
    size_t used;        /* bytes */
    size_t overwritten; /* bytes overwritten since the last work on a stream */
} gpu;

static const int l2 = 1 << 20; /* bytes of cache */
static const size_t memory = (size_t)8 << 30;

static struct cuda_device gpu_new(void)
{
    memset(&gpu, 0, sizeof gpu);
    return (struct cuda_device){.name = "NVIDIA H200", .sm = 90};
}

enum status cuda_check(cudaError_t e, const char *fmt, ...)
{
    return e == cudaSuccess ? STATUS_OK : status_fail(STATUS_LIBRARY, "cannot %s", fmt);
}

enum status cuda_enter(const struct cuda_device *dev)
{
    (void)dev;
    return STATUS_OK;
}

enum status cuda_alloc(struct device *dev, size_t bytes, void **mem)
{
    (void)dev;
    *mem = NULL;
    if (bytes > memory - gpu.used)
        return status_fail(STATUS_OOM, "the GPU has no memory");
    size_t *size = malloc(sizeof *size + 256 + bytes);
    assert_non_null(size);
    *size = bytes;
    gpu.used += bytes;
    *mem = (char *)size + 256;
    return STATUS_OK;
}

void cuda_free(struct device *dev, void *mem)
{
    if (!mem)
        return;
    size_t *size = (size_t *)((char *)mem - 256);
    (void)dev;
    gpu.used -= *size;
    free(size);
}

enum status cuda_upload(struct stream *s, void *dst, const void *src_host, size_t bytes)
{
    return cuda_copy(s, dst, src_host, bytes);
}

enum status cuda_copy(struct stream *s, void *dst, const void *src, size_t bytes)
{
    (void)s;
    memcpy(dst, src, bytes);
    return STATUS_OK;
}

/* Takes one nanosecond per byte. */
enum status cuda_zero(struct stream *s, void *dst, size_t bytes)
{
    (void)s, (void)dst;
    gpu.overwritten += bytes;
    gpu.device = fmax(gpu.host, gpu.device) + (double)bytes * 1e-6;
    return STATUS_OK;
}

static cudaError_t wait_until(double at)
{
    gpu.host = fmax(gpu.host, at);
    return gpu.broken ? cudaErrorIllegalAddress : cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return wait_until(gpu.device);
}

enum status cuda_stream_sync(struct stream *s)
{
    (void)s;
    return cuda_check(wait_until(gpu.device), "finish");
}

enum status cuda_stream_open(struct device *dev, struct stream **s)
{
    struct cuda_stream *new = calloc(1, sizeof *new);
    assert_non_null(new);
    *new = (struct cuda_stream){{dev}, (cudaStream_t)(void *)&gpu};
    *s = &new->base;
    return STATUS_OK;
}

void cuda_stream_close(struct stream *s)
{
    free(s);
}

enum status cuda_event_open(struct device *dev, struct event **e)
{
    *e = calloc(1, sizeof **e);
    assert_non_null(*e);
    (*e)->device = cuda_device_of(dev);
    (*e)->raw = calloc(1, sizeof *(*e)->raw);
    assert_non_null((*e)->raw);
    return STATUS_OK;
}

void cuda_event_close(struct event *e)
{
    free(e->raw);
    free(e);
}

enum status cuda_event_record(struct event *e, struct stream *s)
{
    (void)s;
    e->raw->at = fmax(gpu.host, gpu.device);
    gpu.after_event = true;
    return STATUS_OK;
}

enum status cuda_event_wait(const struct event *e)
{
    return cuda_check(wait_until(e->raw->at), "finish");
}

double cuda_event_seconds(const struct event *from, const struct event *to)
{
    return (to->raw->at - from->raw->at) * 1e-3;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return event->at > gpu.host ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int index)
{
    (void)index;
    assert_int_equal(attribute, cudaDevAttrL2CacheSize);
    *value = l2;
    return cudaSuccess;
}

/* --- tests --- */

enum { KEPT = 256 };

/* Work of a given duration, which records the address of its first operand. */
struct work {
    double host_ms, device_ms;
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
    w->cold[w->runs] = gpu.overwritten >= 2 * (size_t)l2;
    w->x[w->runs++] = operand[0];
    gpu.overwritten = 0;
    gpu.host += w->host_ms;
    gpu.device = fmax(gpu.host, gpu.device) + w->device_ms + (gpu.after_event ? gpu.latency_ms : 0);
    gpu.after_event = false;
    return STATUS_OK;
}

static struct op_trial *opened(struct cuda_device *dev, size_t bytes)
{
    const struct timed_operand operand[] = {{bytes, DTYPE_F16}};
    struct op_trial *t;
    assert_int_equal(op_trial_open(dev, operand, 1, &t), STATUS_OK);
    return t;
}

static struct timed_seconds time_of(struct op_trial *t, struct work *w, double limit)
{
    const struct timed_work work = {run, w, 100};
    struct timed_seconds time;
    assert_int_equal(op_trial_time(t, &work, limit, &time), STATUS_OK);
    return time;
}

static void close_all(struct cuda_device *dev, struct op_trial *t)
{
    op_trial_close(t);
    cuda_close_opened(dev);
    assert_int_equal(gpu.used, 0);
}

static void assert_seconds(double got, double want)
{
    assert_true(fabs(got - want) < 1e-9);
}

/* A measured time does not include host time, even if the host is much slower than the device. The
 * time alone includes the latency after the event, of which a longer burst has only a part. */
static void times_are_the_devices(void **state)
{
    static const double host_ms[] = {0.001, 0.05, 1, 10};
    for (int i = 0; i < 4; i++) {
        struct cuda_device dev = gpu_new();
        struct work w = {.host_ms = host_ms[i], .device_ms = 0.01};
        struct op_trial *t = opened(&dev, 4096);
        assert_seconds(time_of(t, &w, 0).median, 10e-6);
        gpu.latency_ms = 0.004;
        assert_seconds(time_of(t, &w, 0).alone, 14e-6);
        assert_seconds(time_of(t, &w, 0).median, 10.5e-6);
        assert_seconds(time_of(t, &w, 12e-6).median, 14e-6); /* slower than the limit */
        close_all(&dev, t);
    }
}

/* Returns whether execution i found cold caches: since the last use of its memory, at least twice
 * the size of the cache was used or overwritten. */
static bool is_cold(const struct work *w, int i, size_t bytes)
{
    for (int k = i; k >= 0 && !w->cold[k]; k--)
        if (k < i && w->x[k] == w->x[i])
            return (size_t)(i - k) * bytes >= 2 * (size_t)l2;
    return true;
}

static void caches_are_cold(void **state)
{
    static const size_t bytes[] = {1000, 300 << 10, 1 << 20, 2 << 20, 9 << 20}; /* L2 has a MiB */
    for (int k = 0; k < COUNT(bytes); k++) {
        struct cuda_device dev = gpu_new();
        struct work w = {.host_ms = 0.001, .device_ms = 0.01};
        struct op_trial *t = opened(&dev, bytes[k]);
        time_of(t, &w, 0);
        assert_true(w.runs > 5);
        for (int i = 0; i < w.runs; i++)
            assert_true(is_cold(&w, i, bytes[k]));
        close_all(&dev, t);
    }
}

static const struct timed_operand each_type[] = {{1 << 20, DTYPE_F32},
                                                 {700000, DTYPE_F16},
                                                 {0, DTYPE_F32},
                                                 {1 << 10, DTYPE_BF16},
                                                 {3333, DTYPE_U8}};
enum { N_TYPES = 5 };

/* Values are uniform in [-1, 1): mean 0, variance 1/3; tolerance: 5 sigma. A mask has any bits. */
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
            double v = type == DTYPE_U8 ? ((const uint8_t *)operand[k])[i] / 127.5 - 1
                                        : (double)float_load(type, operand[k], (int64_t)i);
            assert_true(fabs(v) <= 1);
            sum += v;
            squares += v * v;
        }
        assert_true(fabs(sum) <= 5 * sqrt(1.0 / 3 * (double)n));
        assert_true(fabs(squares - (double)n / 3) <= 5 * 0.3 * sqrt((double)n));
    }
    return STATUS_OK;
}

static void operands_are_random(void **state)
{
    struct cuda_device dev = gpu_new();
    struct op_trial *t;
    const struct timed_work work = {look, NULL, 0};
    struct timed_seconds time;
    assert_int_equal(op_trial_open(&dev, each_type, N_TYPES, &t), STATUS_OK);
    assert_int_equal(op_trial_time(t, &work, 0, &time), STATUS_OK);
    close_all(&dev, t);
    const struct timed_operand label = {64, DTYPE_I32};
    assert_int_equal(op_trial_open(&dev, &label, 1, &t), STATUS_UNSUPPORTED);
    close_all(&dev, t);
}

static void failures_are_handed_on(void **state)
{
    struct cuda_device dev = gpu_new();
    struct work w = {.device_ms = 1};
    struct op_trial *t = opened(&dev, 4096), *none;
    const struct timed_work hungry = {run, &w, memory};
    const struct timed_operand large = {memory, DTYPE_F16};
    struct timed_seconds time;
    assert_int_equal(op_trial_time(t, &hungry, 0, &time), STATUS_OOM);
    assert_int_equal(op_trial_open(&dev, &large, 1, &none), STATUS_OOM);
    assert_seconds(time_of(t, &w, 0).median, 1e-3);
    assert_true(op_trial_lives(t));
    gpu.broken = true;
    assert_false(op_trial_lives(t));
    close_all(&dev, t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_the_devices),
        cmocka_unit_test(caches_are_cold),
        cmocka_unit_test(operands_are_random),
        cmocka_unit_test(failures_are_handed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
