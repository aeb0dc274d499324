/* Tests the CUDA backend except for the values of operations: the order of work, waits, faults that
 * a later wait reports, and the table of launches (kernels/cuda/traffic.c). Runs on the fake GPU,
 * which executes all work as late as CUDA allows, and whose profiler lists each launch. */
#include "kernels/traffic.h"
#include "tests/kernels/group.h"
#include "verify/cases.h"
#include "verify/describe.h"
#include "verify/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 1000 };

struct bench {
    struct device *dev;
    const struct backend *b;
    struct stream *s;
    float *x, *y; /* device memory */
    float host[N];
    char path[64]; /* the file that the profiler writes */
};

static int set_up(void **state)
{
    static struct bench bench;
    void *mem;
    bench = (struct bench){.path = "/tmp/test_module.XXXXXX"};
    int fd = mkstemp(bench.path);
    if (fd < 0 || setenv("AMPSCALE_FAKE_PROFILE", bench.path, 1) != 0)
        return -1;
    close(fd);
    expect_ok(device_open("cuda:0", 1, &bench.dev));
    bench.b = bench.dev->backend;
    bench.dev->plans = 1; /* nothing is timed */
    expect_ok(bench.b->stream_open(bench.dev, &bench.s));
    expect_ok(bench.b->alloc(bench.dev, sizeof bench.host, &mem));
    bench.x = mem;
    expect_ok(bench.b->alloc(bench.dev, sizeof bench.host, &mem));
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
    return unlink(k->path);
}

/* y = x + x on stream `s`. */
static struct op_plan *doubling(struct bench *k)
{
    struct op_plan *plan;
    struct op_desc d = {.kind = OP_ADD};
    d.t[ROLE_X] = d.t[ROLE_Z] = d.t[ROLE_Y] = tensor_2d(DTYPE_F32, 1, N);
    expect_ok(op_plan(k->dev, &d, &plan));
    return plan;
}

static void execute(struct bench *k, struct op_plan *plan, struct stream *s)
{
    void *const arg[ROLE_COUNT] = {[ROLE_X] = k->x, [ROLE_Z] = k->x, [ROLE_Y] = k->y};
    expect_ok(op_execute(plan, arg, s));
}

static void memory_is_zero_and_aligned(void **state)
{
    struct bench *k = *state;
    assert_int_equal((uintptr_t)k->x % 256, 0);
    memset(k->host, 0xFF, sizeof k->host);
    expect_ok(k->b->download(k->s, k->host, k->x, sizeof k->host));
    expect_ok(k->b->stream_sync(k->s));
    for (int i = 0; i < N; i++)
        assert_true(k->host[i] == 0);
    void *mem;
    assert_int_equal(k->b->alloc(k->dev, (size_t)1 << 40, &mem), STATUS_OOM);
    assert_non_null(strstr(status_message(), "GPU 0 has no memory for another"));
    assert_null(mem);
}

/* Events order two streams. */
static void events_order_streams(void **state)
{
    struct bench *k = *state;
    struct stream *other;
    struct event *sent, *added;
    struct op_plan *plan = doubling(k);
    expect_ok(k->b->stream_open(k->dev, &other));
    expect_ok(k->b->event_open(k->dev, &sent));
    expect_ok(k->b->event_open(k->dev, &added));
    for (int i = 0; i < N; i++)
        k->host[i] = (float)i;
    expect_ok(k->b->upload(k->s, k->x, k->host, sizeof k->host));
    expect_ok(k->b->event_record(sent, k->s));
    expect_ok(k->b->stream_wait(other, sent));
    execute(k, plan, other);
    expect_ok(k->b->event_record(added, other));
    expect_ok(k->b->stream_wait(k->s, added));
    float back[N];
    expect_ok(k->b->download(k->s, back, k->y, sizeof back));
    expect_ok(k->b->stream_sync(k->s));
    for (int i = 0; i < N; i++)
        assert_true(back[i] == 2 * (float)i);
    expect_ok(k->b->event_wait(added));
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
    expect_ok(k->b->capture_begin(k->s));
    assert_int_equal(k->b->stream_sync(k->s), STATUS_LIBRARY);
    assert_int_equal(k->b->capture_end(k->s, &g), STATUS_LIBRARY);
    assert_null(g);
    expect_ok(k->b->stream_sync(k->s));
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
    expect_ok(op_plan(k->dev, &d, &plan));
    expect_ok(k->b->alloc(k->dev, sizeof label, &labels));
    expect_ok(k->b->alloc(k->dev, sizeof got, &metrics));
    expect_ok(k->b->alloc(k->dev, sizeof(struct step_state), &step_state));
    expect_ok(k->b->alloc(k->dev, plan->workspace, &workspace));
    expect_ok(k->b->upload(k->s, labels, label, sizeof label));
    void *const arg[ROLE_COUNT] = {[ROLE_X] = k->x,
                                   [ROLE_LABEL] = labels,
                                   [ROLE_STATE] = step_state,
                                   [ROLE_METRICS] = metrics,
                                   [ROLE_WORKSPACE] = workspace};
    expect_ok(op_execute(plan, arg, k->s));
    assert_int_equal(k->b->stream_sync(k->s), STATUS_INVALID);
    assert_string_equal(status_message(), "the label of row 1 is not the index of a class");
    expect_ok(k->b->download(k->s, &got, metrics, sizeof got));
    expect_ok(k->b->stream_sync(k->s));
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
    expect_ok(device_open("cuda:2", 1, &turing));
    assert_true(device_native(k->dev, DTYPE_F16) && device_native(k->dev, DTYPE_BF16));
    assert_true(device_native(k->dev, DTYPE_TF32) && device_native(turing, DTYPE_F16));
    assert_false(device_native(turing, DTYPE_BF16) || device_native(turing, DTYPE_TF32));
    turing->backend->describe(turing, text, sizeof text);
    assert_non_null(strstr(text, "fake GPU, sm_75"));
    device_close(turing);
    assert_int_equal(device_open("cuda:4", 1, &turing), STATUS_USAGE);
    assert_int_equal(device_open("cuda:3", 1, &turing), STATUS_UNSUPPORTED);
    /* pooling counts positions along a side in 16 bits */
    for (int side = 65535; side <= 65536; side++) {
        struct op_desc d = describe_avgpool(OP_AVGPOOL_FWD, 1, 8, side, 1, 1, 1);
        d.t[ROLE_X] = in_layout(d.t[ROLE_X], LAYOUT_NHWC);
        assert_int_equal(op_plan(k->dev, &d, &plan),
                         side == 65535 ? STATUS_OK : STATUS_UNSUPPORTED);
        op_plan_free(plan);
    }
}

/* --- the table of launches --- */

struct launches {
    int own, library;
};

static void begin_count(const struct bench *k)
{
    assert_int_equal(truncate(k->path, 0), 0);
    expect_ok(k->b->profile(k->s, PROFILE_BEGIN));
}

static struct launches end_count(const struct bench *k)
{
    struct launches n = {0};
    char line[256];
    expect_ok(k->b->profile(k->s, PROFILE_END));
    FILE *f = fopen(k->path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "library", 7) == 0)
            n.library++;
        else
            n.own++;
    }
    fclose(f);
    return n;
}

static struct launches listed(const struct traffic *t)
{
    struct launches n = {0};
    for (int i = 0; i < t->n; i++)
        *(t->kernel[i].library ? &n.library : &n.own) += 1;
    return n;
}

/* Checks tensors of two or more dimensions: every read and write in the operation's definition must
 * be in the table. */
static void check_roles(const struct op_plan *plan, const struct traffic *t, const char *name)
{
    const struct op_desc *d = &plan->desc;
    uint64_t did[2] = {0}; /* roles read, roles written */
    for (int i = 0; i < t->n; i++)
        for (int j = 0; j < t->kernel[i].n; j++)
            did[t->kernel[i].access[j].writes] |= UINT64_C(1) << t->kernel[i].access[j].role;
    struct op_roles roles = op_roles(d->kind);
    if (d->kind == OP_SGD)
        roles.reads &= ~ROLE_SET(WCOPY); /* only a skipped step reads it */
    if (d->kind == OP_BN_BWD && (!d->attr.bn.relu || d->t[ROLE_MASK].ndim))
        roles.reads &= ~ROLE_SET(Y);
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d->t[r].ndim > 1 && d->kind != OP_REORDER &&
            ((roles.reads & ~did[0]) >> r & 1 || (roles.writes & ~did[1]) >> r & 1))
            fail_msg("%s: the table does not say that %s is %s", name, role_str((enum role)r),
                     (roles.writes & ~did[1]) >> r & 1 ? "written" : "read");
}

static void compare(const struct bench *k, const struct op_plan *plan, struct launches seen,
                    const char *name)
{
    struct traffic t;
    k->b->traffic(plan, &t);
    struct launches in_table = listed(&t);
    if (in_table.own != seen.own || in_table.library != seen.library)
        fail_msg("%s (%s): the table has %d own kernels and %d calls of libraries, but %d and %d "
                 "were launched; see kernels/cuda/traffic.c",
                 name, op_str(plan->desc.kind), in_table.own, in_table.library, seen.own,
                 seen.library);
    check_roles(plan, &t, name);
}

static void check_case(const struct bench *k, struct op_plan *plan, const char *name)
{
    void *arg[ROLE_COUNT] = {NULL};
    for (int r = 0; r < ROLE_COUNT; r++) {
        size_t bytes = plan->desc.t[r].ndim  ? plan->desc.t[r].bytes
                       : r == ROLE_STATE     ? sizeof(struct step_state)
                       : r == ROLE_METRICS   ? sizeof(struct loss_metrics)
                       : r == ROLE_WORKSPACE ? plan->workspace
                                             : 0;
        if (bytes)
            expect_ok(k->b->alloc(k->dev, bytes, &arg[r]));
    }
    begin_count(k);
    expect_ok(op_execute(plan, arg, k->s));
    compare(k, plan, end_count(k), name);
    for (int r = 0; r < ROLE_COUNT; r++)
        k->b->free(k->dev, arg[r]);
}

static bool is_small(const struct op_desc *d)
{
    int64_t elements = 0;
    for (int r = 0; r < ROLE_COUNT; r++)
        elements += d->t[r].ndim ? tensor_count(&d->t[r]) : 0;
    return elements < 20000;
}

/* Tests the first of every eight small cases of each kind that the backend covers. It must cover
 * each kind of its records; the table has no cases of the loss scaler. */
static void launches_are_in_the_table_of_traffic(void **state)
{
    const int stride = 8;
    const struct bench *k = *state;
    struct case_list list;
    uint64_t kinds = 0;
    int covered[OP_KIND_COUNT] = {0};
    expect_ok(case_list_new(&list));
    for (int i = 0; i < list.n; i++) {
        const struct op_case *c = &list.item[i];
        struct op_plan *plan;
        if (!is_small(&c->desc) || op_plan(k->dev, &c->desc, &plan) != STATUS_OK)
            continue;
        if (covered[c->desc.kind]++ % stride == 0)
            check_case(k, plan, c->name);
        op_plan_free(plan);
    }
    case_list_free(&list);
    for (int i = 0; i < k->b->n_records; i++)
        kinds |= k->b->record[i].kinds;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++)
        if (op_in((enum op_kind)kind, kinds & ~OPS_SCALE) && covered[kind] == 0)
            fail_msg("no case of %s has a plan", op_str((enum op_kind)kind));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zero_and_aligned),
        cmocka_unit_test(events_order_streams),
        cmocka_unit_test(waiting_spoils_a_capture),
        cmocka_unit_test(bad_labels_surface_at_the_next_wait),
        cmocka_unit_test(what_a_generation_lacks_is_declined),
        cmocka_unit_test(launches_are_in_the_table_of_traffic),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
