/* Tests the benchmarks of single operations: the shapes of a network's matrix products, the bytes
 * of the optimizer's update, and that wrong results are detected. */
#include "bench/conv.h"
#include "bench/gemm.h"
#include "bench/optimizer.h"
#include "tests/unit.h"

#include <string.h>

static const struct harness_config quick = {.warmup = 1, .most = 3};

/* --- a device that computes wrong --- */

/* The cpu backend, of which one kind of operation computes a wrong last element. */
struct broken {
    struct backend base;
    enum role role; /* fp32 tensor of the operation whose last element is 1 too large */
    /* The functions of the backend that the broken functions replace. */
    enum status (*plan)(struct device *dev, const struct op_desc *desc, struct op_plan **plan);
    enum status (*execute)(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s);
    struct op_record record[2 * OP_KIND_COUNT];
};

static enum status wrong_execute(struct op_plan *p, void *const arg[ROLE_COUNT], struct stream *s)
{
    const struct broken *b = (const struct broken *)p->device->backend;
    TRY(b->execute(p, arg, s));
    ((float *)arg[b->role])[tensor_count(&p->desc.t[b->role]) - 1] += 1;
    return STATUS_OK;
}

static enum status wrong_plan(struct device *dev, const struct op_desc *d, struct op_plan **p)
{
    struct broken *b = (struct broken *)dev->backend;
    TRY(b->plan(dev, d, p));
    b->execute = (*p)->execute;
    (*p)->execute = wrong_execute;
    return STATUS_OK;
}

/* Opens a device with this fault. `b` must live as long as the device. */
static struct device *broken_open(struct broken *b, enum op_kind kind, enum role role)
{
    const struct backend *cpu;
    struct device *dev;
    assert_int_equal(backend_find("cpu", &cpu), STATUS_OK);
    *b = (struct broken){.base = *cpu, .role = role};
    assert_true((size_t)cpu->n_records < sizeof b->record / sizeof *b->record);
    memcpy(b->record + 1, cpu->record, (size_t)cpu->n_records * sizeof *b->record);
    for (int i = 0; i < cpu->n_records; i++)
        if (op_in(kind, cpu->record[i].kinds))
            b->plan = cpu->record[i].plan;
    b->record[0] = (struct op_record){UINT64_C(1) << kind, ~0u, ~0u, wrong_plan};
    b->base.n_records++;
    b->base.record = b->record;
    assert_int_equal(cpu->open(cpu, 0, 1, &dev), STATUS_OK);
    dev->backend = &b->base;
    return dev;
}

/* --- passes of a convolution --- */

/* A convolution whose sizes, kernel and stride differ between height and width; or one with 2
 * groups and a bias. */
static struct op_desc convolution(bool grouped, int pass)
{
    struct op_desc fwd = {.kind = OP_CONV_FWD, .attr.conv = {.stride = {1, 2}, .groups = 1}};
    fwd.t[ROLE_X] = tensor_4d(DTYPE_F32, LAYOUT_ANY, 2, 3, 7, 11);
    fwd.t[ROLE_W] = tensor_4d(DTYPE_F32, LAYOUT_ANY, 8, 3, 2, 5);
    fwd.t[ROLE_Y] = tensor_4d(DTYPE_F32, LAYOUT_ANY, 2, 8, 6, 4);
    if (grouped) {
        fwd.attr.conv = (struct conv_attr){.stride = {2, 1}, .pad = {1, 0}, .groups = 2};
        fwd.t[ROLE_X] = tensor_4d(DTYPE_F32, LAYOUT_ANY, 2, 4, 5, 6);
        fwd.t[ROLE_W] = tensor_4d(DTYPE_F32, LAYOUT_ANY, 6, 2, 3, 2);
        fwd.t[ROLE_B] = tensor_1d(DTYPE_F32, 6);
        fwd.t[ROLE_Y] = tensor_4d(DTYPE_F32, LAYOUT_ANY, 2, 6, 3, 5);
    }
    return conv_pass(&fwd, pass);
}

static int64_t conv_wrong(struct timed_op *t)
{
    int64_t wrong;
    assert_int_equal(conv_pass_check(t, &wrong), STATUS_OK);
    return wrong;
}

/* On the reference, whose memory the host can write, first the last element is made wrong, then all
 * elements are. The check samples 17 elements. */
static void test_conv(void **state)
{
    static const enum role result[CONV_PASSES] = {ROLE_Y, ROLE_DX, ROLE_DW};
    for (int k = 0; k < 4 * CONV_PASSES; k++) {
        int pass = k / 4;
        bool grouped = k & 1, ref = k & 2;
        struct device *dev;
        struct stream *s;
        struct timed_op t;
        struct op_desc d = convolution(grouped, pass);
        assert_int_equal(device_open(ref ? "ref" : "cpu", 1, &dev), STATUS_OK);
        assert_int_equal(dev->backend->stream_open(dev, &s), STATUS_OK);
        assert_int_equal(timed_op_open(&t, s, &d), STATUS_OK);
        assert_int_equal(timed_op_warm(&t), STATUS_OK);
        const struct tensor_desc *r = &t.plan->desc.t[result[pass]];
        float *x = t.arg[result[pass]];
        assert_int_equal(conv_wrong(&t), 0);
        if (grouped && pass == 2) { /* a bias gradient has the same layout on every device */
            ((float *)t.arg[ROLE_DB])[5] += 1;
            assert_true(conv_wrong(&t) >= 1);
        } else if (!grouped && ref) {
            x[r->bytes / sizeof *x - 1] *= 1.001f;
            assert_int_equal(conv_wrong(&t), 1);
            memset(x, 0xff, r->bytes);
            assert_int_equal(conv_wrong(&t), 17);
        }
        timed_op_close(&t);
        dev->backend->stream_close(s);
        device_close(dev);
    }
}

/* --- matrix products --- */

/* The products of a network's layers, for three passes. ResNet-50 has 53 convolutions and a linear
 * layer, with 4089184256 multiply-adds per image. A grouped convolution has a product per group. */
static void test_networks(void **state)
{
    static const char *const passes[] = {"fwd", "bwd_data", "bwd_weights"};
    enum { BATCH = 2 };
    for (int grouped = 0; grouped < 2; grouped++) {
        struct graph *g;
        struct gemm_list list;
        int count[3] = {0}, pass;
        double flops[3] = {0};
        const char *arch = grouped ? "resnext50_32x4d" : "resnet50";
        assert_int_equal(graph_build(arch, 1000, 224, &g), STATUS_OK);
        assert_int_equal(gemm_list_net(g, BATCH, &list), STATUS_OK);
        for (int i = 0; i < list.n; i++) {
            const struct gemm_case *c = &list.item[i];
            for (pass = 0; strcmp(c->pass, passes[pass]) != 0; pass++)
                assert_true(pass < 2);
            count[pass] += c->count;
            flops[pass] += c->count * gemm_flops(&c->size);
        }
        assert_true(grouped || (count[0] == 54 && count[1] == 53 && count[2] == 54));
        assert_true(grouped || flops[0] == BATCH * 2 * 4089184256.0);
        assert_true(flops[0] == BATCH * graph_flops_forward(g));
        assert_true(flops[2] == flops[0]);
        /* the first convolution computes no gradient of the image */
        assert_true(flops[0] - flops[1] == 2.0 * BATCH * 112 * 112 * 64 * 147);
        gemm_list_free(&list);
        graph_free(g);
    }
}

struct rig {
    struct device *dev, *ref;
    struct stream *s, *r;
};

static void rig_open(struct rig *rig, struct device *dev)
{
    rig->dev = dev;
    assert_int_equal(device_open("ref", 1, &rig->ref), STATUS_OK);
    assert_int_equal(dev->backend->stream_open(rig->dev, &rig->s), STATUS_OK);
    assert_int_equal(rig->ref->backend->stream_open(rig->ref, &rig->r), STATUS_OK);
}

static void rig_close(struct rig *rig)
{
    rig->dev->backend->stream_close(rig->s);
    rig->ref->backend->stream_close(rig->r);
    device_close(rig->dev);
    device_close(rig->ref);
}

static struct gemm_case case_of(int m, int n, int k, bool a_t, bool b_t)
{
    return (struct gemm_case){.size = {m, n, k, a_t, b_t}, .pass = "", .count = 1};
}

static void test_gemm_right(void **state)
{
    static const enum dtype types[] = {DTYPE_F32, DTYPE_TF32, DTYPE_F16, DTYPE_BF16};
    static const char *const names[] = {"cpu", "ref"};
    for (int name = 0; name < 2; name++) {
        struct device *dev;
        struct rig rig;
        struct gemm_row row;
        assert_int_equal(device_open(names[name], 1, &dev), STATUS_OK);
        rig_open(&rig, dev);
        for (int op = 0; op < 3; op++) {
            for (int t = 0; t < 4; t++) {
                struct gemm_case c = case_of(19, 33, 257, op == 1, op == 2);
                assert_int_equal(gemm_measure(&quick, rig.s, rig.r, &c, types[t], &row), STATUS_OK);
                assert_true(row.measured && row.checked == 19 * 33 && row.wrong == 0);
                assert_true(row.time.n == 3 && row.flops_per_s > 0);
                assert_int_equal(row.emulated, !device_native(rig.dev, types[t]));
            }
        }
        struct gemm_case both = case_of(4, 4, 4, true, true);
        assert_int_equal(gemm_measure(&quick, rig.s, rig.r, &both, DTYPE_F32, &row), STATUS_OK);
        assert_true(!row.measured && row.wrong == 0);
        rig_close(&rig);
    }
}

/* If a product is large, only a sample of its elements is checked. The last element is always in
 * the sample. */
static void test_gemm_wrong(void **state)
{
    struct broken broken;
    struct rig rig;
    struct gemm_row row;
    rig_open(&rig, broken_open(&broken, OP_LINEAR_FWD, ROLE_Y));
    struct gemm_case c = case_of(300, 200, 2000, true, false);
    assert_int_equal(gemm_measure(&quick, rig.s, rig.r, &c, DTYPE_F32, &row), STATUS_OK);
    assert_int_equal(row.wrong, 1);
    assert_true(row.checked < 300 * 200 && row.checked > 8000);
    c = case_of(300, 200, 2000, false, false);
    assert_int_equal(gemm_measure(&quick, rig.s, rig.r, &c, DTYPE_F32, &row), STATUS_OK);
    assert_int_equal(row.wrong, 0);
    rig_close(&rig);
}

/* --- the optimizer's update --- */

static const struct bench_options update = {
    .net = "resnet8", .emulate = true, .timing = {.warmup = 1, .most = 3}};

static void test_optimizer_right(void **state)
{
    static const struct {
        const char *name;
        double bytes; /* bytes moved per parameter */
        bool emulated;
    } precisions[] = {{"fp32", 20, false},
                      {"amp", 24, true},
                      {"bf16", 24, true},
                      {"O2", 24, true},
                      {"O3", 20, true}};
    static const char *const devices[] = {"cpu", "ref"};
    struct graph *g;
    assert_int_equal(graph_build("resnet8", 10, 32, &g), STATUS_OK);
    for (int dev = 0; dev < 2; dev++) {
        struct micro m;
        assert_int_equal(micro_open(devices[dev], 1, &m), STATUS_OK);
        for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) {
            struct optimizer_row row;
            assert_int_equal(optimizer_measure(&update, &m, g, precisions[i].name, &row),
                             STATUS_OK);
            assert_true(row.parameters >= graph_params_trained(g));
            assert_true(row.bytes == precisions[i].bytes * (double)row.parameters);
            assert_int_equal(row.emulated, precisions[i].emulated);
            assert_true(row.wrong == 0 && row.time.n == 3 && row.segments > 0);
        }
        micro_close(&m);
    }
    graph_free(g);
}

static void test_optimizer_wrong(void **state)
{
    static const enum role roles[] = {ROLE_W, ROLE_MOMENTUM, ROLE_WCOPY};
    struct graph *g;
    assert_int_equal(graph_build("resnet8", 10, 32, &g), STATUS_OK);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        struct broken broken;
        struct micro m;
        struct optimizer_row row;
        assert_int_equal(micro_open("cpu", 1, &m), STATUS_OK);
        struct micro bad = m;
        bad.dev = broken_open(&broken, OP_SGD, roles[i]);
        assert_int_equal(bad.dev->backend->stream_open(bad.dev, &bad.stream), STATUS_OK);
        assert_int_equal(optimizer_measure(&update, &bad, g, "amp", &row), STATUS_OK);
        assert_int_equal(row.wrong, 1);
        bad.dev->backend->stream_close(bad.stream);
        device_close(bad.dev);
        micro_close(&m);
    }
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_gemm_right),
        cmocka_unit_test(test_gemm_wrong),
        cmocka_unit_test(test_optimizer_right),
        cmocka_unit_test(test_optimizer_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
