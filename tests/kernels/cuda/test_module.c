/* Tests the CUDA backend except for the values of operations: the order of work, waits, captured
 * steps, and faults that a later wait reports. Runs on the fake GPU, which executes all work as
 * late as CUDA allows. */
#include "tests/kernels/group.h"
#include "verify/describe.h"
#include "verify/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { N = 1000 };

struct bench {
    struct device *dev;
    const struct backend *b;
    struct stream *s;
    float *x, *y; /* device memory */
    float host[N];
};

static int set_up(void **state)
{
    static struct bench bench;
    void *mem;
    bench = (struct bench){0};
    OK(device_open("cuda:0", 1, &bench.dev));
    bench.b = bench.dev->backend;
    OK(bench.b->stream_open(bench.dev, &bench.s));
    OK(bench.b->alloc(bench.dev, sizeof bench.host, &mem));
    bench.x = mem;
    OK(bench.b->alloc(bench.dev, sizeof bench.host, &mem));
    bench.y = mem;
    *state = &bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *k = *state;
    k->b->stream_close(k->s);
    k->b->free(k->dev, k->x);
    k->b->free(k->dev, k->y);
    device_close(k->dev);
    return 0;
}

/* y = x + x on stream `s`. */
static struct op_plan *doubling(struct bench *k)
{
    struct op_plan *plan;
    struct op_desc d = {.kind = OP_ADD};
    d.t[ROLE_X] = d.t[ROLE_Z] = d.t[ROLE_Y] = tensor_2d(DTYPE_F32, 1, N);
    OK(op_plan(k->dev, &d, &plan));
    return plan;
}

static void execute(struct bench *k, struct op_plan *plan, struct stream *s)
{
    void *const arg[ROLE_COUNT] = {[ROLE_X] = k->x, [ROLE_Z] = k->x, [ROLE_Y] = k->y};
    OK(op_execute(plan, arg, s));
}

static void memory_is_zero_and_aligned(void **state)
{
    struct bench *k = *state;
    assert_int_equal((uintptr_t)k->x % 256, 0);
    memset(k->host, 0xFF, sizeof k->host);
    OK(k->b->download(k->s, k->host, k->x, sizeof k->host));
    OK(k->b->stream_sync(k->s));
    for (int i = 0; i < N; i++)
        assert_true(k->host[i] == 0);
    void *mem;
    assert_int_equal(k->b->alloc(k->dev, (size_t)1 << 40, &mem), STATUS_OOM);
    assert_non_null(strstr(status_message(), "GPU 0 has no memory for another"));
    assert_null(mem);
}

/* An event orders two streams. The order is the same whichever stream the host waits for. */
static void events_order_streams(void **state)
{
    struct bench *k = *state;
    struct stream *other;
    struct event *sent, *added;
    struct op_plan *plan = doubling(k);
    OK(k->b->stream_open_urgent(k->dev, &other));
    OK(k->b->event_open(k->dev, &sent));
    OK(k->b->event_open(k->dev, &added));
    for (int i = 0; i < N; i++)
        k->host[i] = (float)i;
    OK(k->b->upload(k->s, k->x, k->host, sizeof k->host));
    OK(k->b->event_record(sent, k->s));
    OK(k->b->stream_wait(other, sent));
    execute(k, plan, other);
    OK(k->b->event_record(added, other));
    OK(k->b->stream_wait(k->s, added));
    float back[N];
    OK(k->b->download(k->s, back, k->y, sizeof back));
    OK(k->b->stream_sync(k->s));
    for (int i = 0; i < N; i++)
        assert_true(back[i] == 2 * (float)i);
    OK(k->b->event_wait(added));
    assert_true(k->b->event_seconds(sent, added) >= 0);
    k->b->event_close(sent);
    k->b->event_close(added);
    k->b->stream_close(other);
    op_plan_free(plan);
}

static void waiting_spoils_a_capture(void **state)
{
    struct bench *k = *state;
    struct graph_exec *g;
    OK(k->b->capture_begin(k->s));
    assert_int_equal(k->b->stream_sync(k->s), STATUS_LIBRARY);
    assert_int_equal(k->b->capture_end(k->s, &g), STATUS_LIBRARY);
    assert_null(g);
    OK(k->b->stream_sync(k->s));
}

/* The first wait after the operation reports the bad label, and later waits do not. The operation
 * writes nothing. */
static void bad_labels_surface_at_the_next_wait(void **state)
{
    struct bench *k = *state;
    struct op_desc d = describe_xent(3, 7, 0, 0);
    struct op_plan *plan;
    void *labels, *metrics, *step_state, *workspace;
    static const int32_t label[3] = {6, 7, 0};
    struct loss_metrics got = {.count = 5};
    OK(op_plan(k->dev, &d, &plan));
    OK(k->b->alloc(k->dev, sizeof label, &labels));
    OK(k->b->alloc(k->dev, sizeof got, &metrics));
    OK(k->b->alloc(k->dev, sizeof(struct step_state), &step_state));
    OK(k->b->alloc(k->dev, plan->workspace, &workspace));
    OK(k->b->upload(k->s, labels, label, sizeof label));
    void *const arg[ROLE_COUNT] = {[ROLE_X] = k->x,
                                   [ROLE_LABEL] = labels,
                                   [ROLE_STATE] = step_state,
                                   [ROLE_METRICS] = metrics,
                                   [ROLE_WORKSPACE] = workspace};
    OK(op_execute(plan, arg, k->s));
    assert_int_equal(k->b->stream_sync(k->s), STATUS_INVALID);
    assert_string_equal(status_message(), "the label of row 1 is not the index of a class");
    OK(k->b->download(k->s, &got, metrics, sizeof got));
    OK(k->b->stream_sync(k->s));
    assert_int_equal(got.count, 0);
    k->b->free(k->dev, labels);
    k->b->free(k->dev, metrics);
    k->b->free(k->dev, step_state);
    k->b->free(k->dev, workspace);
    op_plan_free(plan);
}

/* Turing and later GPUs have fp16; Ampere and later GPUs also have bf16 and TF32. */
static void what_a_generation_lacks_is_declined(void **state)
{
    struct bench *k = *state;
    struct device *turing;
    struct op_plan *plan;
    char text[256];
    OK(device_open("cuda:2", 1, &turing));
    assert_true(device_native(k->dev, DTYPE_F16) && device_native(k->dev, DTYPE_BF16));
    assert_true(device_native(k->dev, DTYPE_TF32) && device_native(turing, DTYPE_F16));
    assert_false(device_native(turing, DTYPE_BF16) || device_native(turing, DTYPE_TF32));
    turing->backend->describe(turing, text, sizeof text);
    assert_non_null(strstr(text, "fake GPU, sm_75"));
    device_close(turing);
    assert_int_equal(device_open("cuda:4", 1, &turing), STATUS_USAGE);
    assert_int_equal(device_open("cuda:3", 1, &turing), STATUS_UNSUPPORTED);
    /* pooling counts positions along a side in 16 bits */
    struct op_desc d = describe_avgpool(OP_AVGPOOL_FWD, 1, 8, 65536, 1, 1, 1);
    d.t[ROLE_X] = in_layout(d.t[ROLE_X], LAYOUT_NHWC);
    assert_int_equal(op_plan(k->dev, &d, &plan), STATUS_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zero_and_aligned),
        cmocka_unit_test(events_order_streams),
        cmocka_unit_test(waiting_spoils_a_capture),
        cmocka_unit_test(bad_labels_surface_at_the_next_wait),
        cmocka_unit_test(what_a_generation_lacks_is_declined),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
